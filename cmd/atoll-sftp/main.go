// Command atoll-sftp serves the files that it can reach over SFTP, on its
// standard streams. atoll places it in a sandbox when somebody asks for files by
// SSH, and runs it there as a command like others: it may what those may.
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

// serve answers requests until there are no more. Relative names are those of
// the working directory. (To tell the package of it would make relative targets of
// links absolute.)
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

// streams are both directions as one.
type streams struct {
	io.Reader
	io.WriteCloser
}
