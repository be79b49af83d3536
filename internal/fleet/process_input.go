package fleet

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// inputSize is the size of the buffer for standard input.
const inputSize = 64 << 10

// errInput is the error of writing to a closed standard input.
var errInput = fmt.Errorf("%w: the process's standard input is closed", atoll.ErrState)

// input is the standard input of a process, to which several clients may write. Writers block
// while its buffer is full.
type input struct {
	turn chan struct{} // holds a token during a write: writes don't mix

	mu      sync.Mutex
	buf     []byte        // guarded by mu, as all below
	eof     bool          // no more input comes
	ended   bool          // the process has ended
	changed chan struct{} // closed at the next change; nil: nothing waits
}

func newInput() *input { return &input{turn: make(chan struct{}, 1)} }

// Read waits for input. It returns io.EOF after close or closeRead.
func (in *input) Read(b []byte) (int, error) {
	for {
		in.mu.Lock()
		switch {
		case in.ended, in.eof && len(in.buf) == 0:
			in.mu.Unlock()
			return 0, io.EOF
		case len(in.buf) > 0:
			n := copy(b, in.buf)
			in.buf = in.buf[n:]
			in.signalChange()
			in.mu.Unlock()
			return n, nil
		}
		changed := in.wait()
		in.mu.Unlock()
		<-changed
	}
}

// write writes all of b in one piece, unless ctx ends first.
func (in *input) write(ctx context.Context, b []byte) error {
	select {
	case in.turn <- struct{}{}:
		defer func() { <-in.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for len(b) > 0 {
		in.mu.Lock()
		if in.eof || in.ended {
			in.mu.Unlock()
			return errInput
		}
		if n := min(inputSize-len(in.buf), len(b)); n > 0 {
			in.buf, b = append(in.buf, b[:n]...), b[n:]
			in.signalChange()
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

// close ends the input. Buffered input can still be read.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.eof = true
	in.signalChange()
}

// closeRead discards the input: the process has ended.
func (in *input) closeRead() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended, in.buf = true, nil
	in.signalChange()
}

// wait returns the channel that is closed at the next change. The caller holds mu.
func (in *input) wait() <-chan struct{} {
	if in.changed == nil {
		in.changed = make(chan struct{})
	}
	return in.changed
}

// signalChange wakes waiting readers and writers. The caller holds mu.
func (in *input) signalChange() {
	if in.changed != nil {
		close(in.changed)
		in.changed = nil
	}
}
