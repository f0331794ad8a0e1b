// Command echo is a program for a guest that migrates: it sends back what the
// receiver sends, over one connection, until that ends.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
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
	// Not io.Copy: splice would move the bytes without this program's memory.
	_, err = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
	return err
}
