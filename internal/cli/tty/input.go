package tty

import (
	"context"
	"io"
)

// Input reads a terminal for several readers that take turns: a read that was given up takes nothing. Its methods must not be called
// at once.
type Input struct {
	chunks chan chunk
	rest   []byte
}

// chunk is what one read of a terminal has returned.
type chunk struct {
	data []byte
	err  error
}

// NewInput returns an Input. It reads r until an error that lasts, or until the process ends.
func NewInput(r io.Reader) *Input {
	in := &Input{chunks: make(chan chunk)}
	go func() {
		for ends := 0; ends < 2; ends++ { // Ctrl-D ends a terminal's input once; the next read goes on
			for {
				b := make([]byte, 4096)
				n, err := r.Read(b)
				in.chunks <- chunk{b[:n], err}
				if err != nil {
					break
				}
				ends = 0
			}
		}
		close(in.chunks)
	}()
	return in
}

// Read reads what was typed.
func (in *Input) Read(b []byte) (int, error) { return in.ReadContext(context.Background(), b) }

// ReadContext is Read until ctx is done.
func (in *Input) ReadContext(ctx context.Context, b []byte) (int, error) {
	if len(in.rest) == 0 {
		select {
		case c, ok := <-in.chunks:
			if !ok {
				return 0, io.EOF
			}
			if in.rest = c.data; len(c.data) == 0 {
				return 0, c.err
			}
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	n := copy(b, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}
