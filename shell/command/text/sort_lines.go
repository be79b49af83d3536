package text

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
)

// sortLine is a line in the arena. Equal lines keep the order of at.
type sortLine struct {
	prefix   uint64 // of the first key
	at, n    uint32
	from, to uint32 // of the first key, in the line
}

const sortLineSize = 24

// sortArena holds all lines to sort in one buffer, charged to the process.
type sortArena struct {
	p     *kernel.Proc
	buf   []byte
	lines []sortLine
	eol   byte
}

// errTooLarge is returned for an input that exceeds the size of an arena.
var errTooLarge = errors.New("input too large")

// load appends the content of a stream. It adds a missing end to the last line.
func (a *sortArena) load(r io.Reader, size int64) error {
	a.reserve(int(min(max(size+1, 512), 1<<31)))
	for {
		if len(a.buf) == cap(a.buf) {
			a.reserve(len(a.buf))
		}
		if len(a.buf) > 1<<32-1-stream.ChunkSize {
			return errTooLarge
		}
		end := min(cap(a.buf), len(a.buf)+4*stream.ChunkSize)
		n, err := r.Read(a.buf[len(a.buf):end])
		a.buf = a.buf[:len(a.buf)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if n := len(a.buf); n > 0 && a.buf[n-1] != a.eol {
		a.reserve(1)
		a.buf = append(a.buf, a.eol)
	}
	return nil
}

// reserve makes room for n more bytes.
func (a *sortArena) reserve(n int) {
	if cap(a.buf)-len(a.buf) >= n {
		return
	}
	size := max(len(a.buf)+n, cap(a.buf)+cap(a.buf)/2)
	a.p.Alloc(int64(size))
	buf := make([]byte, len(a.buf), size)
	copy(buf, a.buf)
	a.p.Free(int64(cap(a.buf)))
	a.buf = buf
}

// cutLines finds the lines in the buffer.
func (a *sortArena) cutLines() {
	n := bytes.Count(a.buf, []byte{a.eol})
	a.p.Alloc(int64(n) * sortLineSize)
	a.lines = make([]sortLine, 0, n)
	for at := 0; at < len(a.buf); {
		end := bytes.IndexByte(a.buf[at:], a.eol)
		a.lines = append(a.lines, sortLine{at: uint32(at), n: uint32(end)})
		at += end + 1
		a.p.Tick(1)
	}
}

// lineText returns the bytes of a line.
func (a *sortArena) lineText(l *sortLine) []byte { return a.buf[l.at : l.at+l.n] }

// sortBytes sorts whole lines by their bytes, eight at a time, so that most comparisons are of
// numbers. With reverse, equal lines stay in order, which makes no difference to the output.
func (a *sortArena) sortBytes(reverse bool) {
	flip := uint64(0)
	if reverse {
		flip = ^flip
	}
	a.sortFrom(a.lines, 0, flip)
}

// sortFrom sorts lines that are equal up to depth.
func (a *sortArena) sortFrom(list []sortLine, depth uint32, flip uint64) {
	for i := range list {
		l := &list[i]
		l.prefix = firstEight(a.buf[l.at+min(depth, l.n):l.at+l.n]) ^ flip
	}
	a.p.Tick(len(list))
	a.radixSort(list, 56)
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && list[j].prefix == list[i].prefix {
			j++
		}
		if j-i > 1 {
			a.sortRun(list[i:j], depth+8, flip)
		}
		i = j
	}
}

// sortRun sorts lines with the same eight bytes before depth. A line that has ended there sorts
// before one that continues with NULs.
func (a *sortArena) sortRun(list []sortLine, depth uint32, flip uint64) {
	whole := true // all reach beyond depth
	for i := range list {
		whole = whole && list[i].n > depth
	}
	if whole && len(list) > 24 && depth < 4096 {
		a.sortFrom(list, depth, flip)
		return
	}
	slices.SortFunc(list, func(x, y sortLine) int {
		a.p.Tick(1)
		c := bytes.Compare(a.lineText(&x), a.lineText(&y))
		if flip != 0 {
			c = -c
		}
		if c == 0 {
			return compareOrdered(uint64(x.at), uint64(y.at))
		}
		return c
	})
}

// radixSort sorts lines by prefix: in place by its bytes from the highest on while there are many
// lines, then by comparison.
func (a *sortArena) radixSort(list []sortLine, shift int) {
	for shift >= 0 && len(list) > 200 {
		var count [257]int
		for i := range list {
			count[int(byte(list[i].prefix>>shift))+1]++
		}
		a.p.Tick(len(list) >> 2)
		if count[int(byte(list[0].prefix>>shift))+1] == len(list) {
			shift -= 8
			continue
		}
		for c := 1; c < 257; c++ {
			count[c] += count[c-1]
		}
		scatterByByte(list, &count, shift)
		for c := range 256 {
			if lo, hi := count[c], count[c+1]; hi-lo > 1 {
				a.radixSort(list[lo:hi], shift-8)
			}
		}
		return
	}
	if shift < 0 {
		return
	}
	a.p.Tick(len(list) >> 2)
	slices.SortFunc(list, func(x, y sortLine) int {
		if x.prefix != y.prefix {
			return compareOrdered(x.prefix, y.prefix)
		}
		return compareOrdered(uint64(x.at), uint64(y.at))
	})
}

// scatterByByte moves each line to the part of the list for its byte; count holds the starts of the
// parts.
func scatterByByte(list []sortLine, count *[257]int, shift int) {
	at := *count
	for c := range 256 {
		for at[c] < count[c+1] {
			l := list[at[c]]
			for d := int(byte(l.prefix >> shift)); d != c; d = int(byte(l.prefix >> shift)) {
				l, list[at[d]] = list[at[d]], l
				at[d]++
			}
			list[at[c]] = l
			at[c]++
		}
	}
}
