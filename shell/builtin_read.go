package shell

import (
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

// input reads bytes without consuming more of the descriptor than is used:
// it reads files in blocks and seeks back, other descriptors byte by byte.
type input struct {
	h     *kernel.Handle
	p     *kernel.Proc
	buf   []byte
	r, w  int
	block bool // read ahead without seeking back
	seeks bool
	until time.Time // the deadline of read -t; zero means none
	err   error
	in    *interp
}

var inputBuffers = sync.Pool{New: func() any { return new([4096]byte) }}

func (in *interp) openInput(fd int) *input {
	h := in.p.Handle(fd)
	return &input{h: h, p: in.p, in: in, seeks: h.File() != nil, buf: inputBuffers.Get().(*[4096]byte)[:]}
}

// close seeks back to the first unused byte.
func (r *input) close() {
	if r.seeks && r.w > r.r {
		_, _ = r.h.Seek(int64(r.r-r.w), io.SeekCurrent) // a position that was read before
	}
	inputBuffers.Put((*[4096]byte)(r.buf))
}

var errTimeout = errors.New("timeout")

// fillBuffer reads more input; it returns false at the end.
func (r *input) fillBuffer() bool {
	if !r.until.IsZero() && !r.wait() {
		r.err = errTimeout
		return false
	}
	n := 1
	if r.seeks || r.block {
		n = len(r.buf)
		if !r.block && r.w == 0 {
			n = 256
		}
	}
	size := n
	n, err := r.h.Read(r.buf[:size])
	for errors.Is(err, vfs.EINTR) && r.in.handleMinorSignals() {
		n, err = r.h.Read(r.buf[:size])
	}
	r.r, r.w = 0, n
	if n == 0 {
		r.err = err
	}
	return n > 0
}

// wait waits for input until the deadline.
func (r *input) wait() bool {
	for !r.h.Ready() {
		rest := time.Until(r.until)
		if rest <= 0 {
			return false
		}
		r.p.Sleep(min(rest, 2*time.Millisecond), true)
	}
	return true
}

func (r *input) next() (byte, bool) {
	if r.r == r.w && !r.fillBuffer() {
		return 0, false
	}
	c := r.buf[r.r]
	r.r++
	return c, true
}

// readCall is a call of read.
type readCall struct {
	in       *interp
	raw      bool
	silent   bool // -s
	array    string
	delim    byte
	nul      bool // the delimiter is NUL
	maxChars int  // -1 means no limit
	exact    bool // -N
	fd       int
	timeout  time.Duration
	timed    bool
	names    []string
}

func bRead(in *interp, args []string) int {
	r := &readCall{in: in, delim: '\n', maxChars: -1}
	if st := r.parseOptions(args); st != 0 {
		return st
	}
	names := r.names
	if r.array != "" {
		names = []string{r.array}
	}
	for _, n := range names {
		if _, ok := in.parseRef(n); !ok {
			in.errorf("read: `%s': not a valid identifier", n)
			return 1
		}
	}
	if in.p.FD(r.fd) == nil {
		in.errorf("read: %d: invalid file descriptor: Bad file descriptor", r.fd)
		return 1
	}
	return r.run()
}

// parseOptions parses the options; a status other than 0 ends the builtin.
func (r *readCall) parseOptions(args []string) int {
	in := r.in
	i := 1
	for ; i < len(args) && len(args[i]) > 1 && args[i][0] == '-'; i++ {
		if args[i] == "--" {
			i++
			break
		}
		for j := 1; j < len(args[i]); j++ {
			c := args[i][j]
			if strings.IndexByte("adinNptu", c) < 0 {
				if !r.setFlag(c) {
					return in.reportUsage("read", "-"+string(c)+": invalid option")
				}
				continue
			}
			value := args[i][j+1:]
			if value == "" {
				if i++; i == len(args) {
					return in.reportUsage("read", "-"+string(c)+": option requires an argument")
				}
				value = args[i]
			}
			if st := r.setOption(c, value); st != 0 {
				return st
			}
			break
		}
	}
	r.names = args[i:]
	return 0
}

func (r *readCall) setFlag(c byte) bool {
	switch c {
	case 'r':
		r.raw = true
	case 's':
		r.silent = true
	}
	return c == 'r' || c == 'e' || c == 's'
}

func (r *readCall) setOption(c byte, value string) int {
	in := r.in
	switch c {
	case 'a':
		r.array = value
	case 'd':
		r.nul = value == ""
		if r.delim = 0; !r.nul {
			r.delim = value[0]
		}
	case 'n', 'N':
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			in.errorf("read: %s: invalid number", value)
			return 1
		}
		r.maxChars, r.exact = n, c == 'N'
	case 't':
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || f < 0 || math.IsNaN(f) {
			in.errorf("read: %s: invalid timeout specification", value)
			return 1
		}
		r.timed, r.timeout = true, time.Duration(min(f, 1e9)*float64(time.Second))
	case 'u':
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			in.errorf("read: %s: invalid file descriptor specification", value)
			return 1
		}
		r.fd = n
	case 'p':
		if in.p.Handle(r.fd).IsTerminal() {
			in.writeStderr(value)
		}
	}
	return 0
}

func (r *readCall) run() int {
	in := r.in
	defer r.setTerminalMode()()
	src := in.openInput(r.fd)
	defer src.close()
	if r.timed {
		if r.timeout == 0 {
			return statusOf(src.h.Ready())
		}
		src.until = time.Now().Add(r.timeout)
	}
	line, status := r.readLine(src)
	in.chargeScratch(len(line.text))
	if !r.storeLine(line) {
		return 1
	}
	if errors.Is(src.err, errTimeout) {
		return 128 + int(kernel.SIGALRM)
	}
	var no vfs.Errno
	if errors.As(src.err, &no) && no != vfs.EINTR {
		in.errorf("read: read error: %d: %v", r.fd, no)
	}
	return status
}

// setTerminalMode sets up a terminal for the options: -n, -N and -d need
// single keys, -s disables echo. The returned function restores the mode.
func (r *readCall) setTerminalMode() func() {
	y := r.in.p.Handle(r.fd).Terminal()
	keys := r.maxChars >= 0 || r.delim != '\n'
	if y == nil || !r.silent && !keys {
		return func() {}
	}
	before := y.Mode()
	m := before
	if r.silent {
		m.Local &^= kernel.ECHO
	}
	if keys {
		m.Local &^= kernel.ICANON
		m.Chars[kernel.VMIN], m.Chars[kernel.VTIME] = 1, 0
	}
	y.SetMode(m)
	return func() { y.SetMode(before) }
}

// inputLine is a line with a mark for each byte that a backslash quotes; marks
// is nil when there is none.
type inputLine struct {
	text  []byte
	marks []bool
}

func (l *inputLine) add(in *interp, c byte, mark bool) {
	if mark && l.marks == nil {
		in.chargeScratch(cap(l.text))
		l.marks = make([]bool, len(l.text), cap(l.text))
	}
	if len(l.text) == cap(l.text) {
		l.text = in.growScratch(l.text, 1)
		if l.marks != nil {
			in.chargeScratch(cap(l.text))
			l.marks = slices.Grow(l.marks, cap(l.text)-len(l.marks))
		}
	}
	l.text = append(l.text, c)
	if l.marks != nil {
		l.marks = append(l.marks, mark)
	}
}

// readLine reads a line; status is 1 if the input ends before the line does.
func (r *readCall) readLine(src *input) (l inputLine, status int) {
	chars := 0
	l.text = make([]byte, 0, 64)
	for r.maxChars < 0 || chars < r.maxChars {
		c, ok := src.next()
		if !ok {
			return l, 1
		}
		if len(l.text)%4096 == 4095 {
			r.in.chargeWork(64)
		}
		switch {
		case c == r.delim && !r.exact:
			return l, 0
		case c == 0:
			continue
		case c == '\\' && !r.raw:
			if c, ok = src.next(); !ok {
				return l, 1
			}
			if c == '\n' {
				continue
			}
			l.add(r.in, c, true)
		default:
			l.add(r.in, c, false)
		}
		if r.in.bytes || c < utf8.RuneSelf {
			chars++
		} else if r.maxChars >= 0 && wholeChar(l.text) {
			chars++
		}
	}
	return l, 0
}

// wholeChar reports whether b ends with a complete character.
func wholeChar(b []byte) bool {
	i := len(b) - 1
	for i > 0 && len(b)-i < utf8.UTFMax && !utf8.RuneStart(b[i]) {
		i--
	}
	return utf8.FullRune(b[i:])
}

// storeLine assigns the line to the variables.
func (r *readCall) storeLine(l inputLine) bool {
	in := r.in
	switch {
	case r.array != "":
		return r.storeArray(l)
	case len(r.names) == 0:
		return in.set("REPLY", string(l.text))
	}
	ok := true
	put := func(name, value string) {
		t, _ := in.parseRef(name)
		ok = in.assignRef(t, value, false) && ok
	}
	if r.exact {
		put(r.names[0], string(l.text))
		for _, n := range r.names[1:] {
			put(n, "")
		}
		return ok
	}
	s := lineSplitter{ifs: &in.ifs, line: l}
	s.skipSpace()
	for i, name := range r.names {
		if i == len(r.names)-1 {
			put(name, s.lastWord())
		} else {
			put(name, s.nextWord())
		}
	}
	return ok
}

func (r *readCall) storeArray(l inputLine) bool {
	in := r.in
	v, t, ok := in.find(ref{name: r.array})
	switch {
	case !ok:
		return false
	case v != nil && v.attrs&attrReadonly != 0:
		in.errorf("%s: readonly variable", t.name)
		return false
	case v != nil && v.attrs&attrAssoc != 0:
		in.errorf("read: %s: cannot convert associative to indexed array", t.name)
		return false
	}
	s := lineSplitter{ifs: &in.ifs, line: l}
	s.skipSpace()
	var list []string
	charged := 0
	for s.pos < len(l.text) {
		if len(list) == cap(list) {
			more := max(16, 2*cap(list))
			in.chargeScratch(more * stringSize)
			list = append(make([]string, 0, more), list...)
			in.releaseScratch(charged)
			charged = more * stringSize
		}
		list = append(list, s.nextWord())
		in.chargeWork(1)
	}
	in.setArray(t.name, list)
	in.releaseScratch(charged)
	return true
}

// stringSize is the size of a string besides its text, in bytes.
const stringSize = 16

// lineSplitter splits a line at the characters of IFS.
type lineSplitter struct {
	ifs  *separators
	line inputLine
	pos  int
}

// separatorKind returns the kind of separator at i, 0 if it is none.
func (s *lineSplitter) separatorKind(i int) byte {
	if s.line.marks != nil && s.line.marks[i] {
		return 0
	}
	return s.ifs.kind[s.line.text[i]] & (ifsSpace | ifsMark)
}

func (s *lineSplitter) skipSpace() {
	for s.pos < len(s.line.text) && s.separatorKind(s.pos) == ifsSpace {
		s.pos++
	}
}

// nextWord returns the next word and skips the separator after it.
func (s *lineSplitter) nextWord() string {
	start := s.pos
	for s.pos < len(s.line.text) && s.separatorKind(s.pos) == 0 {
		s.pos++
	}
	w := string(s.line.text[start:s.pos])
	if s.pos == len(s.line.text) {
		return w
	}
	space := s.separatorKind(s.pos) == ifsSpace
	s.pos++
	s.skipSpace()
	if space && s.pos < len(s.line.text) && s.separatorKind(s.pos) == ifsMark {
		s.pos++
		s.skipSpace()
	}
	return w
}

// lastWord returns the rest of the line, for the last variable.
func (s *lineSplitter) lastWord() string {
	start := s.pos
	w := s.nextWord()
	if s.pos == len(s.line.text) {
		return w
	}
	end := len(s.line.text)
	for end > start && s.separatorKind(end-1) == ifsSpace {
		end--
	}
	return string(s.line.text[start:end])
}
