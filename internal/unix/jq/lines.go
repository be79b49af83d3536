package jq

import (
	"bytes"
	"io"
)

// LineDecoder reads the lines of a text, or all of it, as strings.
type LineDecoder struct {
	s    *scanner
	line int
}

// LineDecoder returns a reader of the lines of r that charges the program's memory.
func (c *Code) LineDecoder(r io.Reader) *LineDecoder {
	return &LineDecoder{s: newScanner(r, c.acct)}
}

// Line returns the number of line ends read so far.
func (d *LineDecoder) Line() int { return d.line }

// Decode returns the next line without its end, or io.EOF.
func (d *LineDecoder) Decode() (Value, error) {
	seen := 0
	for {
		rest := d.s.buf[d.s.pos:]
		if i := bytes.IndexByte(rest[seen:], '\n'); i >= 0 {
			d.line++
			return d.takeText(seen+i, 1), nil
		}
		seen = len(rest)
		if d.s.readMore(d.s.pos) {
			continue
		}
		if err := d.s.readErr(); err != nil {
			return nil, err
		}
		if seen == 0 {
			return nil, io.EOF
		}
		return d.takeText(seen, 0), nil
	}
}

// takeText returns the next n bytes as text and skips the end bytes after them.
func (d *LineDecoder) takeText(n, end int) Value {
	d.s.acct.alloc(int64(n) + valueSize)
	text := string(d.s.buf[d.s.pos : d.s.pos+n])
	d.s.pos += n + end
	return validText(text)
}

// Rest returns the remaining text.
func (d *LineDecoder) Rest() (string, error) {
	var all []byte
	for {
		rest := d.s.buf[d.s.pos:]
		if len(all)+len(rest) > cap(all) {
			d.s.acct.alloc(int64(len(all) + 2*len(rest)))
		}
		all = append(all, rest...)
		d.s.pos = len(d.s.buf)
		if !d.s.readMore(d.s.pos) {
			return validText(string(all)), d.s.readErr()
		}
	}
}
