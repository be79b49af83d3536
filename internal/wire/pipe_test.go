package wire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// TestPipeCarriesBytes writes and reads in pieces of any size: the bytes come
// out as they went in, and never more are held than the pipe's size.
func TestPipeCarriesBytes(t *testing.T) {
	rapidtest.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 100).Draw(rt, "size")
		taken := 0
		p := NewPipe(size, func(n int) { taken += n })
		var in, out []byte
		for i := range rapid.IntRange(0, 60).Draw(rt, "steps") {
			piece := bytes.Repeat([]byte{byte(i)}, rapid.IntRange(0, 40).Draw(rt, "piece"))
			if rapid.Bool().Draw(rt, "write") {
				if fits := len(piece) <= size-(len(in)-len(out)); p.TryWrite(piece) != fits {
					rt.Fatalf("Offer of %d bytes with %d held of %d: not %t", len(piece), len(in)-len(out), size, fits)
				} else if fits {
					in = append(in, piece...)
				}
			} else if len(in) > len(out) {
				n, err := p.Read(piece)
				if err != nil {
					rt.Fatal(err)
				}
				out = append(out, piece[:n]...)
			}
		}
		p.CloseWriter(nil)
		rest, err := io.ReadAll(p)
		if err != nil {
			rt.Fatal(err)
		}
		if out = append(out, rest...); !bytes.Equal(in, out) || taken != len(in) {
			rt.Fatalf("%d bytes went in, %d came out, %d were counted", len(in), len(out), taken)
		}
	})
}

func TestPipeBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPipe(10, nil)
		var wg sync.WaitGroup
		var n int
		wg.Go(func() { n, _ = p.Write(make([]byte, 25)) })
		synctest.Wait()
		if p.n != 10 {
			t.Errorf("a pipe of 10 bytes holds %d", p.n)
		}
		if _, err := io.ReadFull(p, make([]byte, 25)); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if n != 25 {
			t.Errorf("%d of 25 bytes were written", n)
		}
	})
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPipe(10, nil)
		start := time.Now()
		p.SetReadDeadline(start.Add(time.Second))
		if _, err := p.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Read: %v after %v", err, time.Since(start))
		}
		p.SetReadDeadline(time.Time{})
		p.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := p.Write(make([]byte, 11)); n != 10 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: %d, %v", n, err)
		}
		if n, err := p.Read(make([]byte, 20)); n != 10 || err != nil {
			t.Errorf("Read without a deadline: %d, %v", n, err)
		}
		p.SetReadDeadline(time.Now().Add(-time.Second))
		if _, err := p.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read with a deadline of the past: %v", err)
		}
	})
}

func TestPipeEnds(t *testing.T) {
	p := NewPipe(10, nil)
	p.TryWrite([]byte("abc"))
	p.CloseWriter(io.ErrUnexpectedEOF)
	p.CloseWriter(nil)
	b, err := io.ReadAll(p)
	if string(b) != "abc" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the end: %q, %v", b, err)
	}
	if _, err := p.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Write after the end: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		p := NewPipe(1, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := p.Write(make([]byte, 5)); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("Write to what nobody reads: %v", err)
			}
		})
		synctest.Wait()
		p.CloseReader()
		wg.Wait()
		if !p.TryWrite(make([]byte, 100)) {
			t.Error("what nobody reads is not swallowed")
		}
	})
}
