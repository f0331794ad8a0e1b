package qemuguest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// qmp is QEMU's monitor.
type qmp struct {
	conn net.Conn
	in   *bufio.Scanner
}

func newQMP(c net.Conn) *qmp {
	in := bufio.NewScanner(c)
	in.Buffer(make([]byte, 4096), 1<<20)
	return &qmp{c, in}
}

// do executes a command and reads its answer, passing over events and the
// greeting.
func (q *qmp) do(command string, args map[string]any, into any) error {
	msg := map[string]any{"execute": command}
	if args != nil {
		msg["arguments"] = args
	}
	_ = q.conn.SetDeadline(time.Now().Add(30 * time.Second))
	if err := json.NewEncoder(q.conn).Encode(msg); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	for q.in.Scan() {
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := json.Unmarshal(q.in.Bytes(), &answer); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
		switch {
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", command, answer.Error.Desc)
		case answer.Return == nil:
			continue
		case into != nil:
			return json.Unmarshal(answer.Return, into)
		}
		return nil
	}
	return fmt.Errorf("%s: %w", command, errors.Join(io.ErrUnexpectedEOF, q.in.Err()))
}
