package awk

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// reader splits a stream into records.
type reader struct {
	r        io.Reader
	buf      []byte
	pos, end int
	eof      bool
	err      error
	close    func() (int, error)
}

const readSize = 64 << 10

// Buffers and writers are reused between programs. Those of a killed program are left to the
// garbage collector.
var (
	buffers = sync.Pool{New: func() any { return new([readSize]byte) }}
	writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 32<<10) }}
)

// input is the state of the main input: the operands, one after another.
type input struct {
	main      *reader
	operand   int  // index in ARGV of the next operand
	opened    bool // an operand was a file
	exhausted bool
	skip      bool // nextfile: skip the rest of this file
}

// newReader returns a reader of r; close may be nil.
func (in *interp) newReader(r io.Reader, close func() (int, error)) *reader {
	return &reader{r: r, close: close}
}

// closeReader closes a reader and frees its buffer.
func (in *interp) closeReader(r *reader) (int, error) {
	in.charge(-int64(len(r.buf)))
	if len(r.buf) == readSize {
		buffers.Put((*[readSize]byte)(r.buf))
	}
	r.buf = nil
	if r.close == nil {
		return 0, nil
	}
	return r.close()
}

// readMore reads more after the buffered data; the record that begins at pos stays in the buffer.
func (in *interp) readMore(r *reader) {
	if r.pos > 0 {
		copy(r.buf, r.buf[r.pos:r.end])
		r.end -= r.pos
		r.pos = 0
	}
	if r.end == len(r.buf) {
		size := max(readSize, 2*len(r.buf))
		in.charge(int64(size - len(r.buf)))
		in.flushCharges()
		var buf []byte
		if size == readSize {
			buf = buffers.Get().(*[readSize]byte)[:]
		} else {
			buf = make([]byte, size)
			copy(buf, r.buf[:r.end])
		}
		if len(r.buf) == readSize {
			buffers.Put((*[readSize]byte)(r.buf))
		}
		r.buf = buf
	}
	n, err := r.r.Read(r.buf[r.end:])
	in.tickBytes(n)
	r.end += n
	if err != nil {
		r.eof = true
		if !errors.Is(err, io.EOF) {
			r.err = err
		}
	}
}

// readRecord returns the next record and its terminator.
func (in *interp) readRecord(r *reader, line int) (rec, rt string, ok bool) {
	in.tick(1)
	switch {
	case in.rs == "\n":
		return in.readLine(r, '\n')
	case in.rs == "":
		return in.readParagraph(r)
	case len(in.rs) == 1 && !(in.ignoreCase && isNameStart(in.rs[0])):
		return in.readLine(r, in.rs[0])
	}
	return in.readRegex(r, in.regexes.get(in.rs, line))
}

// readLine returns the next record that ends with c.
func (in *interp) readLine(r *reader, c byte) (rec, rt string, ok bool) {
	seen := 0
	for {
		if i := bytes.IndexByte(r.buf[r.pos+seen:r.end], c); i >= 0 {
			end := r.pos + seen + i
			rec = in.copyRecord(r.buf[r.pos:end])
			r.pos = end + 1
			if c == '\n' {
				return rec, "\n", true
			}
			return rec, in.rs, true
		}
		seen = r.end - r.pos
		if r.eof {
			return in.lastRecord(r)
		}
		in.readMore(r)
	}
}

// copyRecord copies a record out of the buffer.
func (in *interp) copyRecord(b []byte) string {
	if len(b) >= largeString {
		in.chargeTemp(len(b))
	}
	return string(b)
}

// lastRecord returns the remaining data at the end of the input.
func (in *interp) lastRecord(r *reader) (rec, rt string, ok bool) {
	if r.pos == r.end {
		return "", "", false
	}
	rec = in.copyRecord(r.buf[r.pos:r.end])
	r.pos = r.end
	return rec, "", true
}

// readParagraph reads lines up to an empty one.
func (in *interp) readParagraph(r *reader) (rec, rt string, ok bool) {
	for {
		for r.pos < r.end && r.buf[r.pos] == '\n' {
			r.pos++
		}
		if r.pos < r.end || r.eof {
			break
		}
		in.readMore(r)
	}
	seen := 0
	for {
		i := bytes.Index(r.buf[r.pos+seen:r.end], []byte("\n\n"))
		if i >= 0 {
			end := r.pos + seen + i
			stop := end + 2
			for stop < r.end && r.buf[stop] == '\n' {
				stop++
			}
			if stop == r.end && !r.eof {
				seen = max(0, end-r.pos)
				in.readMore(r)
				continue
			}
			rec, rt = in.copyRecord(r.buf[r.pos:end]), string(r.buf[end:stop])
			r.pos = stop
			return rec, rt, true
		}
		if r.eof {
			break
		}
		seen = max(0, r.end-r.pos-1)
		in.readMore(r)
	}
	rec, _, ok = in.lastRecord(r)
	if strings.HasSuffix(rec, "\n") {
		return rec[:len(rec)-1], "\n", true
	}
	return rec, "", ok
}

// readRegex reads up to a match. A match at the end of the buffered data may become longer, so more
// is read first.
func (in *interp) readRegex(r *reader, re *regex.Regexp) (rec, rt string, ok bool) {
	var caps [2]int
	for {
		data := r.buf[r.pos:r.end]
		if len(data) > 0 && in.findSeparator(re, data, &caps) && (caps[1] < len(data) || r.eof) {
			rec, rt = in.copyRecord(data[:caps[0]]), string(data[caps[0]:caps[1]])
			r.pos += caps[1]
			return rec, rt, true
		}
		if r.eof {
			return in.lastRecord(r)
		}
		in.readMore(r)
	}
}

// findSeparator finds the first match that isn't empty.
func (in *interp) findSeparator(re *regex.Regexp, data []byte, caps *[2]int) bool {
	for from := 0; from <= len(data); from = caps[1] + 1 {
		if !re.Match(data, from, caps[:], in.bud) {
			return false
		}
		if caps[1] > caps[0] {
			return true
		}
		in.tick(1)
	}
	return false
}

// nextMain reads a record of the main input into v, or into $0 if v is nil. It opens the operands
// in turn and runs BEGINFILE and ENDFILE. It returns 1, or 0 at the end.
func (in *interp) nextMain(v *value, line int) int {
	for {
		if in.main == nil && !in.openNext() {
			return 0
		}
		rec, rt, ok := "", "", false
		if !in.skip {
			rec, rt, ok = in.readRecord(in.main, line)
		}
		if ok {
			in.nr++
			in.fnr++
			in.setRT(rt)
			if v != nil {
				in.storeValue(v, inValue(rec))
			} else {
				in.setRecord(rec)
			}
			return 1
		}
		in.closeMain()
	}
}

// setRT sets RT.
func (in *interp) setRT(rt string) {
	in.rt.s, in.rt.k = rt, str
}

// closeMain closes the current file and runs ENDFILE.
func (in *interp) closeMain() {
	in.skip = false
	if err := in.main.err; err != nil {
		in.status = 2
		in.printWarning(-1, "error reading input file `%s': %s", in.currentFile(), reasonOf(err))
	}
	in.runRules(in.fileEnds)
	if in.main != nil {
		_, _ = in.closeReader(in.main) // it was only read
		in.main = nil
	}
	in.endFile()
}

// endFile writes the output and calls the function for the end of a file.
func (in *interp) endFile() {
	if in.cfg.EndFile == nil {
		return
	}
	in.runGuarded(func() {
		if err := in.out.Flush(); err != nil {
			in.writeFailed(nil, err, 0)
		}
	})
	in.cfg.EndFile(!in.hasFailed)
	if in.hasFailed {
		in.exitProgram()
	}
}

// openNext opens the next operand that is a file, or standard input if there was none.
func (in *interp) openNext() bool {
	for !in.exhausted {
		argc := int(in.argc.asNumber())
		if in.operand >= argc {
			in.exhausted = true
			break
		}
		e := in.argv.findNum(int64(in.operand))
		in.operand++
		in.tick(1)
		if e == nil || e.v.asString(in.convfmt) == "" {
			continue
		}
		arg := e.v.asString(in.convfmt)
		if name, val, ok := splitAssignment(arg); ok {
			in.assignOperand(name, val)
			continue
		}
		if in.openMain(arg, in.operand-1) {
			return true
		}
	}
	if in.opened {
		return false
	}
	in.opened = true
	return in.openMain("-", 0)
}

// openMain opens a file as the main input and runs BEGINFILE.
func (in *interp) openMain(path string, index int) bool {
	in.opened = true
	in.fnr = 0
	*in.fname = strValue(path)
	*in.argind = numValue(float64(index))
	r, err := in.openRead(path)
	in.setErrno(err)
	if in.cfg.BeginFile != nil {
		in.flushAll()
		in.cfg.BeginFile(path)
	}
	if len(in.fileBegins) > 0 {
		if err != nil {
			in.main = nil
			in.skip = false
			in.runRules(in.fileBegins)
			if in.skip || in.main != nil {
				in.skip = false
				return false
			}
		}
	}
	if err != nil {
		in.reportOpenError(path, err)
		return false
	}
	in.main = r
	in.clearRecord()
	in.runRules(in.fileBegins)
	return true
}

// clearRecord sets $0 to "" before BEGINFILE rules.
func (in *interp) clearRecord() {
	if len(in.fileBegins) > 0 {
		in.setRecord("")
	}
}

// reportOpenError prints the message for an operand that can't be opened; only a directory isn't
// fatal.
func (in *interp) reportOpenError(path string, err error) {
	if errors.Is(err, errDirectory) {
		in.printWarning(-1, "command line argument `%s' is a directory: skipped", path)
		return
	}
	in.fatal(in.messageLine(), "cannot open file `%s' for reading: %s", path, reasonOf(err))
}

// messageLine returns the line for messages about the input: none before the first record.
func (in *interp) messageLine() int {
	if in.nr > 0 {
		return 1
	}
	return 0
}

// errDirectory has the text of EISDIR, which messages show.
var errDirectory = errors.New("Is a directory")

// openRead opens a file for reading; "-" and /dev/stdin are standard input.
func (in *interp) openRead(path string) (*reader, error) {
	if path == "-" || path == "/dev/stdin" {
		if in.cfg.Stdin == nil {
			return in.newReader(strings.NewReader(""), nil), nil
		}
		return in.newReader(in.cfg.Stdin, nil), nil
	}
	if in.cfg.OpenRead == nil {
		return nil, fs.ErrPermission
	}
	if in.cfg.IsDir != nil && in.cfg.IsDir(path) {
		return nil, errDirectory
	}
	f, err := in.cfg.OpenRead(path)
	if err != nil {
		return nil, err
	}
	return in.newReader(f, func() (int, error) { return 0, f.Close() }), nil
}

// reasonOf returns the text of the innermost error, for messages.
func reasonOf(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}

// currentFile returns FILENAME.
func (in *interp) currentFile() string { return in.fname.asString(in.convfmt) }

// splitAssignment splits an operand of the form name=value.
func splitAssignment(s string) (name, val string, ok bool) {
	i := strings.IndexByte(s, '=')
	if i <= 0 || !isNameStart(s[0]) {
		return "", "", false
	}
	for j := range i {
		if !isNameStart(s[j]) && !isDigit(s[j]) {
			return "", "", false
		}
	}
	return s[:i], s[i+1:], true
}
