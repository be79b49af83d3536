package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/atoll-sandbox/atoll"
)

func TestInputDoesNotMixWriters(t *testing.T) {
	in := newInput()
	const size = 3*inputSize + 17
	var wg sync.WaitGroup
	for _, c := range []byte("abcd") {
		wg.Go(func() {
			if err := in.write(t.Context(), bytes.Repeat([]byte{c}, size)); err != nil {
				t.Error(err)
			}
		})
	}
	go func() {
		wg.Wait()
		in.close()
	}()
	got, err := io.ReadAll(iotest.HalfReader(in))
	if err != nil || len(got) != 4*size {
		t.Fatalf("%d bytes, %v: want %d", len(got), err, 4*size)
	}
	for i := 0; i < len(got); i += size {
		if n := len(bytes.Trim(got[i:i+size], string(got[i]))); n > 0 {
			t.Fatalf("a write of %c is mixed with others", got[i])
		}
	}
}

func TestFullInputBlocksWriter(t *testing.T) {
	in := newInput()
	ctx, cancel := context.WithCancel(t.Context())
	if err := in.write(ctx, make([]byte, inputSize)); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error)
	go func() { wrote <- in.write(ctx, []byte("more")) }()
	cancel()
	if err := <-wrote; !errors.Is(err, context.Canceled) {
		t.Fatalf("a write to a full input: %v", err)
	}
	go func() { wrote <- in.write(t.Context(), []byte("more")) }()
	in.closeRead()
	if err := <-wrote; !errors.Is(err, atoll.ErrState) {
		t.Fatalf("a write while the process ends: %v", err)
	}
	if n, err := in.Read(make([]byte, 1)); n != 0 || err != io.EOF { //nolint:errorlint // io.Reader's law
		t.Fatalf("read of a process that has ended: %d, %v", n, err)
	}
}

func TestInputIsReadToItsEnd(t *testing.T) {
	in := newInput()
	if err := in.write(t.Context(), []byte("last words")); err != nil {
		t.Fatal(err)
	}
	in.close()
	if err := in.write(t.Context(), []byte("x")); !errors.Is(err, atoll.ErrState) {
		t.Fatalf("write after the end: %v", err)
	}
	if b, err := io.ReadAll(in); string(b) != "last words" || err != nil {
		t.Fatalf("%q, %v", b, err)
	}
}
