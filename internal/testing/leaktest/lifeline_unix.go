//go:build unix

package leaktest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// exitTimeout is the longest time between the KILL signal to a process and its exit.
const exitTimeout = 10 * time.Second

// Lifeline is a FIFO that tells whether a tree of processes has exited. Its first process opens it
// for writing, as in "exec 3>lifeline", and all its descendants inherit the descriptor: the reader
// sees the end of the FIFO once all have exited, wherever in the tree or in other groups and sessions
// they are.
type Lifeline struct{ fd int }

// NewLifeline creates the FIFO "lifeline" in a directory, which every user may open, and opens it
// for reading until the test ends.
func NewLifeline(t *testing.T, dir string) *Lifeline {
	t.Helper()
	path := filepath.Join(dir, "lifeline")
	err := errors.Join(syscall.Mkfifo(path, 0o666), os.Chmod(path, 0o666)) // whatever the umask
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) }) // it was only read
	return &Lifeline{fd}
}

// CheckExited fails the test if a process holds the FIFO. It gives processes that were killed just
// now the time to exit. At least one process must have opened the FIFO before.
func (l *Lifeline) CheckExited(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), exitTimeout)
	defer cancel()
	if !testenv.Poll(ctx, l.isClosed) {
		t.Errorf("processes still run after %v", exitTimeout)
	}
}

// isClosed reports whether no process holds the FIFO.
func (l *Lifeline) isClosed() bool {
	n, err := syscall.Read(l.fd, make([]byte, 1))
	return n == 0 && err == nil
}
