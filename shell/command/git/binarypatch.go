package git

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// base85 is the alphabet of git's binary patches.
const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// printBinary prints both versions of a binary file in a form that git apply understands.
func (f *patch) printBinary(old, new []byte) error {
	f.printf("GIT binary patch\n")
	for _, b := range [][]byte{new, old} {
		f.r.p.Alloc(deflateMemory + 2*int64(len(b)))
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		if err := errors.Join(writeInParts(f.r.p, w, b), w.Close()); err != nil {
			return err
		}
		f.printf("literal %d\n", len(b))
		for rest := z.Bytes(); len(rest) > 0; {
			f.r.p.Tick(8)
			n := min(len(rest), 52)
			f.printf("%s\n", encodeBase85(rest[:n]))
			rest = rest[n:]
		}
		f.printf("\n")
		f.r.p.Free(deflateMemory + 2*int64(len(b)))
	}
	return nil
}

// encodeBase85 encodes a line of at most 52 bytes: a letter with their number, and five characters for four bytes.
func encodeBase85(b []byte) string {
	letter := byte('A' + len(b) - 1)
	if len(b) > 26 {
		letter = byte('a' + len(b) - 27)
	}
	line := []byte{letter}
	for len(b) > 0 {
		var word [4]byte
		n := copy(word[:], b)
		b = b[n:]
		value := binary.BigEndian.Uint32(word[:])
		var digits [5]byte
		for k := 4; k >= 0; k-- {
			digits[k] = base85[value%85]
			value /= 85
		}
		line = append(line, digits[:]...)
	}
	return string(line)
}

// decodeBase85 decodes a line; ok is false for a malformed one.
func decodeBase85(line string) (b []byte, ok bool) {
	if line == "" || len(line)%5 != 1 {
		return nil, false
	}
	n := 0
	switch c := line[0]; {
	case c >= 'A' && c <= 'Z':
		n = int(c-'A') + 1
	case c >= 'a' && c <= 'z':
		n = int(c-'a') + 27
	}
	for rest := line[1:]; rest != ""; rest = rest[5:] {
		value := uint64(0)
		for k := range 5 {
			digit := strings.IndexByte(base85, rest[k])
			if digit < 0 {
				return nil, false
			}
			value = value*85 + uint64(digit)
		}
		if value > 1<<32-1 {
			return nil, false
		}
		b = binary.BigEndian.AppendUint32(b, uint32(value))
	}
	if n == 0 || n > len(b) || n+4 <= len(b) {
		return nil, false
	}
	return b[:n], true
}

// parseBinary reads the two versions of a binary patch.
func (p *patchParser) parseBinary(f *filePatch) error {
	p.lines = p.lines[1:]
	for n := 0; n < 2 && len(p.lines) > 0; n++ {
		kind, number, _ := strings.Cut(p.lines[0], " ")
		size := int64(0)
		if _, err := fmt.Sscan(number, &size); err != nil || kind != "literal" || size < 0 || size > maxObjectSize {
			if kind == "delta" {
				return newError("binary patches with deltas are not supported here: make them with git format-patch of this git, or copy the file")
			}
			return nil
		}
		p.lines = p.lines[1:]
		var z bytes.Buffer
		for len(p.lines) > 0 && p.lines[0] != "" {
			p.r.p.Tick(8)
			b, ok := decodeBase85(p.lines[0])
			if !ok {
				return newError("corrupt binary patch at line: %.80s", p.lines[0])
			}
			p.r.p.Alloc(2 * int64(len(b)))
			z.Write(b)
			p.lines = p.lines[1:]
		}
		p.lines = p.lines[min(1, len(p.lines)):]
		p.r.p.Alloc(inflateMemory)
		in, err := zlib.NewReader(&z)
		if err != nil {
			return newError("corrupt binary patch")
		}
		b, err := p.r.readExactly(in, size)
		if err != nil {
			return newError("corrupt binary patch")
		}
		f.versions[n], f.literal = b, true
	}
	return nil
}
