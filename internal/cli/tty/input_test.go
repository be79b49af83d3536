package tty

import (
	"context"
	"errors"
	"io"
	"testing"
)

// TestInput gives a read up, and reads on: nothing is lost.
func TestInput(t *testing.T) {
	r, w := io.Pipe()
	in := NewInput(r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := make([]byte, 3)
	if n, err := in.ReadContext(ctx, b); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("a read that was given up: %d, %v", n, err)
	}
	go func() {
		_, _ = w.Write([]byte("abcde"))
		_ = w.Close()
	}()
	got, err := io.ReadAll(in)
	if string(got) != "abcde" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := in.Read(b); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}
