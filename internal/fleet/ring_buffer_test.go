package fleet

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// ringModel is a ring as simple as can be: all that was ever written.
type ringModel struct {
	data    []byte
	streams []outStream
}

func (m *ringModel) write(stream outStream, b []byte) {
	for _, c := range b {
		m.data, m.streams = append(m.data, c), append(m.streams, stream)
	}
}

func TestRingIsWhatWasWritten(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(64, 3000).Draw(t, "limit")
		r := &ringBuffer{limit: limit}
		var m ringModel
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		for range steps {
			stream := outStream(rapid.IntRange(0, 1).Draw(t, "stream"))
			n := rapid.OneOf(rapid.IntRange(0, 8), rapid.IntRange(0, limit/3), rapid.IntRange(0, 2*limit)).Draw(t, "n")
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(len(m.data) + i*7)
			}
			r.write(stream, b)
			m.write(stream, b)
			if len(r.data) > limit || int(r.total-r.start)+segmentCost*len(r.segs) > limit {
				t.Fatalf("the ring of %d holds %d bytes in %d pieces of %d", limit, r.total-r.start, len(r.segs), len(r.data))
			}
			checkRing(t, r, &m, rapid.Int64Range(0, int64(len(m.data))).Draw(t, "offset"), rapid.IntRange(1, 2*limit).Draw(t, "buffer"))
		}
		newest := min(len(m.data), limit-segmentCost*(steps+1))
		if newest > 0 && r.start > int64(len(m.data)-newest) {
			t.Fatalf("%d bytes of %d are kept: the newest %d must be", r.total-r.start, r.total, newest)
		}
	})
}

// checkRing reads all from an offset on.
func checkRing(t *rapid.T, r *ringBuffer, m *ringModel, offset int64, size int) {
	buf := make([]byte, size)
	lost := false
	for at := offset; ; {
		stream, from, n, more := r.read(at, buf)
		if from > at {
			if lost || from != r.start {
				t.Fatalf("a gap from %d to %d without writes; the ring keeps %d and later", at, from, r.start)
			}
		}
		if n == 0 {
			if from != r.total || int(r.total) != len(m.data) || more == nil {
				t.Fatalf("the end is at %d (more: %v), not at %d", from, more, len(m.data))
			}
			return
		}
		if !bytes.Equal(buf[:n], m.data[from:from+int64(n)]) {
			t.Fatalf("at %d: other bytes than were written", from)
		}
		for i := range n {
			if m.streams[int(from)+i] != stream {
				t.Fatalf("at %d: of stream %d, written to %d", int(from)+i, stream, m.streams[int(from)+i])
			}
		}
		at, lost = from+int64(n), true
	}
}

func TestRingBufferWakesReaders(t *testing.T) {
	r := &ringBuffer{limit: 100}
	_, _, _, more := r.read(0, make([]byte, 10))
	select {
	case <-more:
		t.Fatal("nothing was written")
	default:
	}
	r.write(stderr, []byte("x"))
	<-more
	stream, at, n, _ := r.read(0, make([]byte, 10))
	if stream != stderr || at != 0 || n != 1 {
		t.Fatalf("read: stream %d, %d bytes at %d", stream, n, at)
	}
	_, _, _, more = r.read(1, make([]byte, 10))
	r.closeWrite()
	<-more
	if _, at, n, more := r.read(1, make([]byte, 10)); at != 1 || n != 0 || more != nil {
		t.Fatalf("after the end: %d bytes at %d, more %v", n, at, more)
	}
	r.clearData()
	if _, at, n, more := r.read(0, make([]byte, 10)); at != 1 || n != 0 || more != nil {
		t.Fatalf("of a ring that forgot: %d bytes at %d, more %v", n, at, more)
	}
}

func BenchmarkRingWrite(b *testing.B) {
	r := &ringBuffer{limit: ringSize}
	line := bytes.Repeat([]byte("x"), 80)
	b.SetBytes(int64(len(line)))
	for i := range b.N {
		r.write(outStream(i&1), line)
	}
}
