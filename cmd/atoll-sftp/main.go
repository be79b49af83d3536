// Command atoll-sftp serves files over SFTP on its standard streams. atoll copies it into
// a sandbox when a client requests files over SSH, and runs it with the rights of other
// commands.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pkg/sftp"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "atoll-sftp: started by atoll, not by hand")
		os.Exit(2)
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "atoll-sftp: %v\n", err)
		os.Exit(1)
	}
}

// serve listens before any other program can, and serves hosts.
func serve(in io.Reader, out io.WriteCloser) error {
	s, err := sftp.NewServer(streams{in, out})
	if err != nil {
		return err
	}
	if err := s.Serve(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// streams combines standard input and output.
type streams struct {
	io.Reader
	io.WriteCloser
}
