// Package sparse keeps the holes of files: in tar streams, and in the files that are unpacked
// from them.
package sparse

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Segment is a part of a file that holds data. The rest of the file is holes.
type Segment struct{ Offset, Length int64 }

// MaxSegments is the number of segments that an entry of an archive may have: Go's reader accepts
// maps of at most 1 MiB.
const MaxSegments = 16 << 10

const blockSize = 512

// WriteEntry writes a regular file with holes to the archive that tw writes to w, in the PAX
// sparse format 1.0, which GNU tar and archive/tar read. The segments are ordered, don't overlap,
// and end within h.Size. It reads the data of the segments from content.
func WriteEntry(w io.Writer, tw *tar.Writer, h *tar.Header, segments []Segment, content io.ReaderAt) error {
	if len(segments) > MaxSegments {
		return fmt.Errorf("%s: %d segments", h.Name, len(segments))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	layout, stored := formatMap(append(segments[:len(segments):len(segments)], Segment{Offset: h.Size})) // GNU tar finds the size there
	records := formatRecords(map[string]string{
		"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": h.Name,
		"GNU.sparse.realsize": strconv.FormatInt(h.Size, 10), "size": strconv.FormatInt(stored, 10),
		"mtime": formatTime(h), "uid": strconv.Itoa(h.Uid), "gid": strconv.Itoa(h.Gid),
	})
	extended := formatHeader(tar.TypeXHeader, "PaxHeaders.0/sparse", 0o644, int64(len(records)))
	regular := formatHeader(tar.TypeReg, "GNUSparseFile.0/"+path.Base(h.Name), h.Mode, stored)
	for _, b := range [][]byte{extended, pad(records), regular, layout} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	for _, s := range segments {
		if n, err := io.Copy(w, io.NewSectionReader(content, s.Offset, s.Length)); err != nil || n < s.Length {
			return errors.Join(err, checkComplete(n, s.Length))
		}
	}
	_, err := w.Write(make([]byte, -stored&(blockSize-1)))
	return err
}

func checkComplete(n, want int64) error {
	if n < want {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// formatMap returns the map that precedes the data of a sparse file, and the length of both.
func formatMap(segments []Segment) (layout []byte, stored int64) {
	layout = append(strconv.AppendInt(nil, int64(len(segments)), 10), '\n')
	for _, s := range segments {
		layout = append(strconv.AppendInt(layout, s.Offset, 10), '\n')
		layout = append(strconv.AppendInt(layout, s.Length, 10), '\n')
		stored += s.Length
	}
	layout = pad(layout)
	return layout, stored + int64(len(layout))
}

// pad appends zeros up to the end of a block.
func pad(b []byte) []byte { return append(b, make([]byte, -len(b)&(blockSize-1))...) }

// formatRecords formats the records of an extended header, in the order of their names.
func formatRecords(records map[string]string) []byte {
	keys := make([]string, 0, len(records))
	for k := range records {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b []byte
	for _, k := range keys {
		text := " " + k + "=" + records[k] + "\n"
		size := len(text)
		for size != len(text)+len(strconv.Itoa(size)) { // a record's length counts its own digits
			size = len(text) + len(strconv.Itoa(size))
		}
		b = append(append(b, strconv.Itoa(size)...), text...)
	}
	return b
}

// formatTime returns the modification time of a header as an extended header has it.
func formatTime(h *tar.Header) string {
	sec, nsec := h.ModTime.Unix(), h.ModTime.Nanosecond()
	if nsec == 0 {
		return strconv.FormatInt(sec, 10)
	}
	sign := ""
	if sec < 0 {
		sign, sec, nsec = "-", -sec-1, 1e9-nsec
	}
	return sign + strings.TrimRight(fmt.Sprintf("%d.%09d", sec, nsec), "0")
}

// formatHeader formats a header block. Sizes that don't fit are left to the extended header.
func formatHeader(kind byte, name string, mode, size int64) []byte {
	b := make([]byte, blockSize)
	copy(b[:99], name)
	octal := func(at, digits int, n int64) { copy(b[at:], fmt.Sprintf("%0*o", digits, n)) }
	octal(100, 7, mode&0o7777)
	octal(108, 7, 0)
	octal(116, 7, 0)
	octal(124, 11, min(size, 1<<33-1))
	octal(136, 11, 0)
	b[156] = kind
	copy(b[257:], "ustar\x0000")
	copy(b[148:], "        ")
	sum := int64(0)
	for _, c := range b {
		sum += int64(c)
	}
	octal(148, 6, sum)
	b[154] = 0
	return b
}

// Limit reduces segments to at most n by joining those with the smallest holes between them.
func Limit(segments []Segment, n int) []Segment {
	if len(segments) <= n {
		return segments
	}
	holes := make([]int64, 0, len(segments)-1)
	for i, s := range segments[1:] {
		holes = append(holes, s.Offset-segments[i].Offset-segments[i].Length)
	}
	slices.Sort(holes)
	largest, joins := int64(math.MaxInt64), len(segments)-n
	if joins < len(holes) {
		largest = holes[joins-1]
	}
	out := segments[:1:1]
	for _, s := range segments[1:] {
		last := &out[len(out)-1]
		if s.Offset-last.Offset-last.Length <= largest {
			last.Length = s.Offset + s.Length - last.Offset
			continue
		}
		out = append(out, s)
	}
	return out
}

// minHole is the number of zeros from which CopyFile makes a hole.
const minHole = 32 << 10

// CopyFile writes the content of r to a new file from its beginning, with holes for long runs of
// zeros. It returns the size of the content.
func CopyFile(f *os.File, r io.Reader) (size int64, err error) { return new(Copier).CopyFile(f, r) }

// Copier is a CopyFile for many files, one after another. Its zero value can be used.
type Copier struct{ buf, zeros []byte }

// CopyFile is like the function CopyFile.
func (c *Copier) CopyFile(f *os.File, r io.Reader) (size int64, err error) {
	if c.buf == nil {
		c.buf, c.zeros = make([]byte, minHole), make([]byte, minHole)
	}
	written := int64(0) // end of the last part that is not a hole
	for {
		n := 0
		for n < len(c.buf) && err == nil {
			var k int
			k, err = r.Read(c.buf[n:])
			n += k
		}
		if n > 0 && !bytes.Equal(c.buf[:n], c.zeros[:n]) {
			if _, werr := f.WriteAt(c.buf[:n], size); werr != nil {
				return size, werr
			}
			written = size + int64(n)
		}
		size += int64(n)
		if err == io.EOF { //nolint:errorlint // readers don't wrap it
			if written == size {
				return size, nil
			}
			return size, f.Truncate(size)
		}
		if err != nil {
			return size, err
		}
	}
}
