package shellexec

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/atoll-sandbox/atoll"
)

// Export packs a path as atoll.Sandbox does. A missing path is reported before
// Export returns.
func (s *Shell) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	name, err := checkPath(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.transferContext(ctx)
	r, w := io.Pipe()
	e := &exportReader{r: r, cancel: cancel, sum: sha256.New(), done: make(chan struct{})}
	go func() {
		defer close(e.done)
		exit, err := s.execPaced(ctx, &atoll.Cmd{Args: []string{"sh", "-c", exportText, "sh", name}, Dir: "/", Stdout: io.MultiWriter(e.sum, w), MaxOutput: 1 << 16}, interactivePace)
		if err == nil {
			err = e.verifySum(exit)
		}
		_ = w.CloseWithError(err) // never fails; nil is the end
	}()
	first := make([]byte, 512)
	n, err := io.ReadFull(r, first)
	if err != nil { // no archive is so short
		return nil, fmt.Errorf("%s: %w", name, e.closeWith(err))
	}
	e.first = first[:n]
	return e, nil
}

// exportReader reads an archive in transfer.
type exportReader struct {
	r      *io.PipeReader
	cancel context.CancelFunc
	sum    hash.Hash // written before what is read
	done   chan struct{}
	first  []byte // read already
	err    error  // what a read has found
}

// verifySum compares the checksum of the received data with that of the script.
func (e *exportReader) verifySum(exit atoll.Exit) error {
	if err := transferError(exit); err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(exit.Stderr), []byte("\n"))
	sum, ok := bytes.CutPrefix(lines[len(lines)-1], []byte("sum "))
	if ok && string(sum) != hex.EncodeToString(e.sum.Sum(nil)) {
		return transferErrors[46]
	}
	return nil
}

func (e *exportReader) Read(b []byte) (int, error) {
	if len(e.first) > 0 {
		n := copy(b, e.first)
		e.first = e.first[n:]
		return n, nil
	}
	n, err := e.r.Read(b)
	if err != nil && err != io.EOF { //nolint:errorlint // the pipe returns it as it is
		e.err = err
	}
	return n, err
}

// Close ends the transfer and returns the error of an earlier Read.
func (e *exportReader) Close() error { return e.closeWith(e.err) }

func (e *exportReader) closeWith(err error) error {
	e.cancel()
	_ = e.r.Close() // never fails
	<-e.done
	return err
}
