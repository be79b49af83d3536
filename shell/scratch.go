package shell

// minScratch is the size of the smallest text that chargeScratch charges, in bytes.
const minScratch = 4096

// chargeScratch charges text that lives until the end of the command.
func (in *interp) chargeScratch(n int) {
	if n >= minScratch {
		in.p.Alloc(int64(n))
		in.scratchBytes += int64(n)
	}
}

// releaseScratch releases the charge of text that is not used any more before the end of the
// command. n is what chargeScratch was called with.
func (in *interp) releaseScratch(n int) {
	if n >= minScratch {
		in.p.Free(int64(n))
		in.scratchBytes -= int64(n)
	}
}

// growScratch returns b with room for n more bytes. A large buffer is charged before it is
// allocated; b must come from growScratch or be smaller than minScratch.
func (in *interp) growScratch(b []byte, n int) []byte {
	need := len(b) + n
	if need <= cap(b) {
		return b
	}
	size := max(need, 2*cap(b), 64)
	if cap(b) > 1<<20 {
		size = max(need, cap(b)+cap(b)/2)
	}
	in.chargeScratch(size)
	grown := make([]byte, len(b), size)
	copy(grown, b)
	in.releaseScratch(cap(b))
	return grown
}

// textOf returns the text in a buffer of growScratch, which must not be used any more.
func (in *interp) textOf(b []byte) string {
	in.chargeScratch(len(b))
	s := string(b)
	in.releaseScratch(cap(b))
	return s
}

// quoteLong quotes s with one of the quote functions and charges a long result.
func (in *interp) quoteLong(quote func(string) string, s string) string {
	if len(s) < minScratch {
		return quote(s)
	}
	in.chargeWork(len(s) >> 3)
	bound := 2 * quotedBound(s) // the functions grow a buffer
	in.chargeScratch(bound)
	out := quote(s)
	in.releaseScratch(bound)
	in.chargeScratch(len(out))
	return out
}

// quotedBound returns the largest length of s when it is quoted.
func quotedBound(s string) int {
	n := len(s) + 4
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c >= 0x7f || c == '\'':
			n += 3
		case c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z':
			n++
		}
	}
	return n
}

// scratch records the charges and descriptors at the start of a command.
type scratch struct {
	borrowed int64
	fds      int
}

func (in *interp) beginScratch() scratch { return scratch{in.scratchBytes, len(in.substFDs)} }

// endScratch releases the charges and descriptors that were added since s.
func (in *interp) endScratch(s scratch) {
	if n := in.scratchBytes - s.borrowed; n > 0 {
		in.scratchBytes = s.borrowed
		in.p.Free(n)
	}
	for len(in.substFDs) > s.fds {
		last := len(in.substFDs) - 1
		_ = in.p.SetFD(in.substFDs[last], nil) // the descriptor is open
		in.substFDs = in.substFDs[:last]
	}
}
