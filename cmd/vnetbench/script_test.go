package main

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"vnetbench": main})
}

// TestScripts runs the command as a user does, one file of testdata/script for
// each thing that can be asked of it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "connect": connect},
		// Short paths, since a socket's has a limit.
		WorkdirRoot: shortTemp(t),
		Setup: func(env *testscript.Env) error {
			traces, err := filepath.Abs("../../vmtest/trace/testdata/open")
			env.Setenv("TRACES", traces)
			return err
		},
	})
}

func shortTemp(t *testing.T) string {
	dir, err := os.MkdirTemp("", "vnb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// status runs a command that has to end with the exit status that comes first.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// connect dials a UNIX socket as soon as somebody listens there, sends the text
// that comes second, if there is one, and waits until the server hangs up; with
// no text it hangs up itself.
func connect(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: connect SOCKET [TEXT]")
	}
	c := dial(ts, ts.MkAbs(args[0]))
	defer c.Close()
	if len(args) == 1 {
		return
	}
	if _, err := io.WriteString(c, args[1]); err != nil {
		ts.Fatalf("%v", err)
	}
	ts.Check(c.SetReadDeadline(time.Now().Add(20 * time.Second)))
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		ts.Fatalf("the server did not hang up: %v", err)
	}
}

func dial(ts *testscript.TestScript, path string) net.Conn {
	var err error
	for range 400 {
		var c net.Conn
		if c, err = net.Dial("unix", path); err == nil {
			return c
		}
		time.Sleep(25 * time.Millisecond)
	}
	ts.Fatalf("nobody listens: %v", err)
	return nil
}
