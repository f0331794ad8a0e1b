// Command echo is a program for a guest that migrates: it sends back what the
// receiver sends, over one connection, until that ends. With --resize it changes
// the sizes of the rings meanwhile.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

func main() {
	if err := echo(); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(3)
	}
}

func echo() error {
	c, err := net.Dial("tcp", net.JoinHostPort(os.Getenv("VNB_HOST"), os.Getenv("VNB_PORT")))
	if err != nil {
		return err
	}
	defer c.Close()
	passed := func(int) error { return nil }
	if len(os.Args) > 1 && os.Args[1] == "--resize" {
		r, err := newResizer()
		if err != nil {
			return err
		}
		passed = r.passed
		defer func() { fmt.Fprintln(os.Stderr, r) }()
	}
	// Slower than the other side sends, so that bytes are always waiting in buffers
	// that the device has written: those that a migration may forget.
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return err
		}
		if err := passed(n); err != nil {
			return err
		}
		time.Sleep(8 * time.Millisecond)
	}
}
