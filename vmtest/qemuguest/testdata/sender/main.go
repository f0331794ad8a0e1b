// Command sender is a user's program for a guest, as a test of the harness: it
// sends so many bytes to the receiver over one connection.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

func main() {
	if err := send(os.Getenv("VNB_HOST"), os.Getenv("VNB_PORT"), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sender:", err)
		os.Exit(3)
	}
	fmt.Println("sender: all sent")
}

func send(host, port, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	c, err := net.Dial("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write(make([]byte, n))
	return err
}
