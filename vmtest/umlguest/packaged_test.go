package umlguest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/u-root/mkuimage/cpio"

	"github.com/vnetbench/vnetbench/hostnet/reflect"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// loadModules is a first program for a kernel whose driver is a module: it loads
// those in /modules, and becomes the guest's program.
const loadModules = `
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
	char path[32];
	for (int i = 0;; i++) {
		snprintf(path, sizeof(path), "/modules/%d.ko", i);
		int fd = open(path, O_RDONLY);
		if (fd < 0)
			break;
		if (syscall(SYS_finit_module, fd, "", 0))
			perror(path);
		close(fd);
	}
	execl("/guest", "init", (char *)0);
	perror("/guest");
	return 1;
}
`

// TestPackagedKernel boots the packaged kernel in real time behind the server of
// vhost-user: its driver takes our device, sends through it, and gets back what it
// sent.
func TestPackagedKernel(t *testing.T) {
	packaged, err := FindPackaged(t.Context())
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, no packaged kernel was booted: %v; run: apt-get install user-mode-linux", err)
	}
	dir, err := os.MkdirTemp("/tmp", "vnp")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	packagedInitramfs(t, packaged.Modules, filepath.Join(dir, initrdFile))

	port, err := reflect.New()
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	srv, err := vhost.Listen(vhost.Config{SocketPath: filepath.Join(dir, deviceFile), Ports: []vhost.Port{port}, Once: true,
		Device: netdev.Config{QueuePairs: 1, Features: netdev.DefaultFeatures, MAC: frame.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}, MTU: 1500}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()

	cmd := exec.CommandContext(ctx, packaged.Path, "mem=256M", "initrd="+initrdFile, "con=null", "con0=null,fd:1", "quiet", "uml_dir=.", "umid=uml",
		"virtio_uml.device="+deviceFile+":1")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("@done")) {
		t.Fatalf("the guest: %v; its console:\n%s", err, out)
	}
	if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("serve: %v", err)
	}
	if s := port.Stats(); s.Taken < 2 || s.Returned < 2 {
		t.Errorf("%d frames sent and %d received, want some each way; the console:\n%s", s.Taken, s.Returned, out)
	}
}

// packagedInitramfs is the guest's root: its modules, the program that loads them,
// and ours, which connects to a host that does not answer.
func packagedInitramfs(t *testing.T, modules, path string) {
	t.Helper()
	init, _, err := programs(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(filepath.Dir(path), "loader")
	cc := exec.Command("gcc", "-static", "-O2", "-x", "c", "-o", loader, "-")
	cc.Stdin = strings.NewReader(loadModules)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	conf := "mtu eth0 1500\naddr eth0 192.0.2.1 24\nup lo\nup eth0\nneigh eth0 192.0.2.2 52:54:00:12:34:01\n" +
		"base 0 0 4000000000\nflow 192.0.2.2 5001 192.0.2.1 20000 cubic 0 1024 0 0 0 0 0 0 0 0 0\n"
	records := []cpio.Record{
		cpio.Directory("dev", 0o755), cpio.Directory("proc", 0o755), cpio.Directory("modules", 0o755),
		cpio.CharDev("dev/console", 0o600, 5, 1), cpio.CharDev("dev/null", 0o666, 1, 3),
		file("init", content(t, loader), 0o755), file("guest", content(t, init), 0o755), file("conf", []byte(conf), 0o644),
	}
	for i, name := range PackagedModules {
		records = append(records, file(fmt.Sprintf("modules/%d.ko", i), content(t, filepath.Join(modules, name)), 0o644))
	}
	var buf bytes.Buffer
	w := cpio.Newc.Writer(&buf)
	for _, r := range append(records, cpio.TrailerRecord) {
		if err := w.WriteRecord(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
