package fleet

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// inputSize is how much standard input waits for a process.
const inputSize = 64 << 10

// errInput is the error of input for a process that takes none any more.
var errInput = fmt.Errorf("%w: the process's standard input is closed", atoll.ErrState)

// input is the standard input of a process that several may write to. It holds
// up who writes, never more than the process reads.
type input struct {
	turn chan struct{} // holds a token while somebody writes: writes don't mix

	mu      sync.Mutex
	buf     []byte        // guarded by mu, as all below
	eof     bool          // what is in buf is the last
	gone    bool          // the process has ended
	changed chan struct{} // closed at the next change; nil: nobody waits
}

func newInput() *input { return &input{turn: make(chan struct{}, 1)} }

// Read waits for input.
func (in *input) Read(b []byte) (int, error) {
	for {
		in.mu.Lock()
		switch {
		case in.gone, in.eof && len(in.buf) == 0:
			in.mu.Unlock()
			return 0, io.EOF
		case len(in.buf) > 0:
			n := copy(b, in.buf)
			in.buf = in.buf[n:]
			in.change()
			in.mu.Unlock()
			return n, nil
		}
		changed := in.wait()
		in.mu.Unlock()
		<-changed
	}
}

// write hands over b, whole and in one piece, unless ctx ends before.
func (in *input) write(ctx context.Context, b []byte) error {
	select {
	case in.turn <- struct{}{}:
		defer func() { <-in.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for len(b) > 0 {
		in.mu.Lock()
		if in.eof || in.gone {
			in.mu.Unlock()
			return errInput
		}
		if n := min(inputSize-len(in.buf), len(b)); n > 0 {
			in.buf, b = append(in.buf, b[:n]...), b[n:]
			in.change()
			in.mu.Unlock()
			continue
		}
		changed := in.wait()
		in.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// close says that no more input comes. What is there is still read.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.eof = true
	in.change()
}

// end says that nobody reads any more.
func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.gone, in.buf = true, nil
	in.change()
}

// wait returns the channel of the next change; the caller holds mu.
func (in *input) wait() <-chan struct{} {
	if in.changed == nil {
		in.changed = make(chan struct{})
	}
	return in.changed
}

// change wakes who waits; the caller holds mu.
func (in *input) change() {
	if in.changed != nil {
		close(in.changed)
		in.changed = nil
	}
}
