package command

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/regex"
)

// sedSpace is a buffer whose memory is charged. It may stand for a line of
// somebody else's until it is changed.
type sedSpace struct {
	b     []byte
	own   []byte // the memory of b, once it is its own
	lent  bool
	ended bool // b came with a delimiter, or will be printed with one
}

func (s *sedSpace) reset() { s.b, s.lent = s.own[:0], false }

// borrow makes the space stand for a line.
func (s *sedSpace) borrow(line []byte, ended bool) { s.b, s.lent, s.ended = line, true, ended }

// keep copies a borrowed line.
func (s *sedSpace) keep(p *kernel.Proc) {
	if s.lent {
		line := s.b
		s.reset()
		s.add(p, line)
	}
}

func (s *sedSpace) add(p *kernel.Proc, text []byte) {
	if len(text) >= 64 {
		p.Tick(len(text) >> 6)
	}
	if cap(s.b)-len(s.b) < len(text) {
		s.grow(p, len(text))
	}
	s.b = append(s.b, text...)
}

func (s *sedSpace) addByte(p *kernel.Proc, c byte) {
	if len(s.b) == cap(s.b) {
		s.grow(p, 1)
	}
	s.b = append(s.b, c)
}

// grow makes room for n bytes more.
func (s *sedSpace) grow(p *kernel.Proc, n int) {
	size := max(2*cap(s.b), len(s.b)+n, 256)
	p.Alloc(int64(size))
	p.Tick(1 + size>>6)
	b := make([]byte, len(s.b), size)
	copy(b, s.b)
	p.Free(int64(cap(s.own)))
	s.b, s.own = b, b
}

// set makes the space a copy of another.
func (s *sedSpace) set(p *kernel.Proc, other *sedSpace) {
	s.reset()
	s.add(p, other.b)
	s.ended = other.ended
}

// join appends a delimiter and another space.
func (s *sedSpace) join(p *kernel.Proc, delim byte, other *sedSpace) {
	s.addByte(p, delim)
	s.add(p, other.b)
	s.ended = other.ended
}

// firstLine returns what is before the first delimiter, and whether it is
// printed with one.
func (s *sedSpace) firstLine(delim byte) ([]byte, bool) {
	if i := bytes.IndexByte(s.b, delim); i >= 0 {
		return s.b[:i], true
	}
	return s.b, s.ended
}

// sedRun runs a script.
type sedRun struct {
	sedStyle
	p           *kernel.Proc
	script      *sedScript
	in          sedInput
	out         *sedOutput
	files       map[string]*sedOutput // of w
	reads       map[string]*lines     // of R
	space       *sedSpace
	next        *sedSpace // where s builds its result
	hold        *sedSpace
	last        *regex.Regexp // the one used last
	lastAddress bool          // it is that of an address
	caps        []int
	queue       []sedAppend // what is printed when the cycle ends
	number      int64
	code        int
	halted      bool
	flag        bool // t: a substitution has been made
}

// sedAppend is a text, a file or a line of one to print at the end of a cycle.
type sedAppend struct {
	text []byte
	file string
}

// sedEnd says what a cycle leads to.
type sedEnd int

const (
	sedNextCycle sedEnd = iota // print the pattern space, read the next line
	sedDeleted                 // read the next line
	sedAgain                   // run the script again on what is left
	sedQuit                    // print the pattern space and end
	sedQuitNow                 // end
)

// fatal ends the run with a message.
func (r *sedRun) fatal(code int, format string, a ...any) {
	r.p.Errorf(format, a...)
	r.code, r.halted = code, true
}

// run edits files and returns the exit status.
func (r *sedRun) run(names []string) int {
	if r.inPlace && len(names) == 0 {
		r.p.Errorf("no input files")
		return sedPanic
	}
	r.space, r.next, r.hold = &sedSpace{ended: true}, &sedSpace{}, &sedSpace{ended: true}
	if !r.openFiles() {
		return sedPanic
	}
	r.in = sedInput{r: r, names: operandsOr(names), lines: newLines(r.p, nil, r.delim)}
	r.cycles()
	r.in.finish()
	if failed := r.closeFiles(); failed && r.code == 0 {
		r.code = sedPanic
	}
	return r.code
}

// cycles runs the script once for every line.
func (r *sedRun) cycles() {
	again := false
	for again || r.read() {
		end := r.cycle()
		if r.halted {
			return
		}
		if end != sedQuitNow {
			if (end == sedNextCycle || end == sedQuit) && !r.quiet {
				r.print(r.space.b, r.space.ended || end == sedQuit)
			}
			r.dump()
		}
		if end >= sedQuit {
			return
		}
		again = end == sedAgain
	}
}

// read reads the next line into the pattern space.
func (r *sedRun) read() bool {
	line, ok := r.in.next()
	if !ok {
		return false
	}
	r.flag = false
	text := trimDelim(line, r.delim)
	r.space.borrow(text, len(text) < len(line))
	return true
}

// cycle runs the script on the pattern space.
func (r *sedRun) cycle() sedEnd {
	list := r.script.commands
	for pc := 0; pc < len(list); {
		r.p.Tick(1)
		if r.halted {
			return sedQuitNow
		}
		cmd := &list[pc]
		if cmd.a1 != nil && r.selected(cmd) == cmd.negated || cmd.a1 == nil && cmd.negated {
			if pc++; cmd.name == '{' {
				pc = cmd.jump
			}
			continue
		}
		switch cmd.name {
		case '{':
		case 'b':
			pc = cmd.jump
			continue
		case 't', 'T':
			if r.flag == (cmd.name == 't') {
				r.flag = false
				pc = cmd.jump
				continue
			}
			r.flag = false
		case 'd':
			return sedDeleted
		case 'D':
			return r.deleteLine()
		case 'q', 'Q':
			if r.code = max(cmd.number, 0) & 0xff; cmd.name == 'Q' {
				return sedQuitNow
			}
			return sedQuit
		case 'n', 'N':
			if end, ok := r.more(cmd.name == 'N'); !ok {
				return end
			}
		case 'c':
			if cmd.a2 == nil || cmd.active != sedActive {
				r.out.line(bytes.TrimSuffix(cmd.text, []byte{'\n'}), true)
			}
			return sedDeleted
		default:
			r.command(cmd)
		}
		pc++
	}
	return sedNextCycle
}

// deleteLine does D.
func (r *sedRun) deleteLine() sedEnd {
	i := bytes.IndexByte(r.space.b, r.delim)
	if i < 0 {
		return sedDeleted
	}
	r.space.keep(r.p)
	n := copy(r.space.b, r.space.b[i+1:])
	r.space.b = r.space.b[:n]
	r.p.Tick(1 + n>>6)
	return sedAgain
}

// more does n and N. Where there is no line left it returns how the script
// ends.
func (r *sedRun) more(join bool) (sedEnd, bool) {
	if join {
		r.space.keep(r.p)
	}
	if r.in.isLast() {
		if r.posix && join {
			return sedDeleted, false
		}
		return sedNextCycle, false
	}
	if !join && !r.quiet {
		r.print(r.space.b, r.space.ended)
	}
	r.dump()
	line, ok := r.in.next()
	if !ok {
		return sedQuitNow, false
	}
	text := trimDelim(line, r.delim)
	ended := len(text) < len(line)
	if !join {
		r.space.borrow(text, ended)
		return 0, true
	}
	r.space.addByte(r.p, r.delim)
	r.space.add(r.p, text)
	r.space.ended = ended
	return 0, true
}

// command does what changes or prints the spaces.
func (r *sedRun) command(cmd *sedCommand) {
	switch cmd.name {
	case 's':
		if r.substitute(cmd) {
			r.flag = true
			for range cmd.subst.print {
				r.print(r.space.b, r.space.ended)
			}
			if cmd.subst.file != "" {
				r.files[cmd.subst.file].line(r.space.b, r.space.ended)
			}
		}
	case 'y':
		r.transliterate(cmd)
	case 'p':
		r.print(r.space.b, r.space.ended)
	case 'P':
		line, ended := r.space.firstLine(r.delim)
		r.out.line(line, ended)
	case 'g':
		r.space.set(r.p, r.hold)
	case 'G':
		r.space.keep(r.p)
		r.space.join(r.p, r.delim, r.hold)
	case 'h':
		r.hold.set(r.p, r.space)
	case 'H':
		r.hold.join(r.p, r.delim, r.space)
	case 'x':
		r.space.keep(r.p)
		r.space, r.hold = r.hold, r.space
	case 'z':
		r.space.reset()
	default:
		r.report(cmd)
	}
}

// report does what prints something else than the spaces.
func (r *sedRun) report(cmd *sedCommand) {
	switch cmd.name {
	case '=':
		r.out.write(strconv.AppendInt(nil, r.number, 10))
		r.out.write([]byte{r.delim})
	case 'F':
		r.out.line([]byte(r.in.name), true)
	case 'l':
		wrap := r.wrap
		if cmd.number >= 0 {
			wrap = cmd.number
		}
		r.list(wrap)
	case 'i':
		r.out.line(bytes.TrimSuffix(cmd.text, []byte{'\n'}), true)
	case 'a':
		r.append(sedAppend{text: cmd.text})
	case 'r':
		r.append(sedAppend{file: cmd.file})
	case 'R':
		r.readLine(cmd.file)
	case 'w':
		r.files[cmd.file].line(r.space.b, r.space.ended)
	case 'W':
		line, ended := r.space.firstLine(r.delim)
		r.files[cmd.file].line(line, ended)
	}
}

func (r *sedRun) append(a sedAppend) {
	r.p.Alloc(64)
	r.queue = append(r.queue, a)
}

// regexp returns re, or the one used last, and remembers it. It returns nil,
// and ends the run, when there is none.
func (r *sedRun) regexp(re *regex.Regexp) *regex.Regexp {
	if re != nil {
		r.last = re
	}
	if r.last == nil {
		r.fatal(sedBadUsage, "-e expression #1, char 0: no previous regular expression")
	}
	return r.last
}

func (r *sedRun) print(text []byte, ended bool) {
	r.out.line(text, ended)
	if r.flush {
		r.out.flush()
	}
}

// list prints the pattern space with escapes, in lines of at most width.
func (r *sedRun) list(width int) {
	var line []byte
	for i, c := range r.space.b {
		if i%1024 == 0 {
			r.p.Tick(64)
		}
		item := sedVisible(c)
		if width > 0 && len(line)+len(item) > width-1 {
			r.out.write(append(line, '\\', r.delim))
			line = line[:0]
		}
		line = append(line, item...)
	}
	r.out.line(append(line, '$'), true)
}

func sedVisible(c byte) string {
	if i := bytes.IndexByte([]byte("\\\a\b\f\n\r\t\v"), c); i >= 0 {
		return "\\" + "\\abfnrtv"[i:i+1]
	}
	if c < ' ' || c >= 0x7f {
		return fmt.Sprintf("\\%03o", c)
	}
	return string(rune(c & (utf8.RuneSelf - 1)))
}

// selected reports whether the addresses of cmd choose the current line.
func (r *sedRun) selected(cmd *sedCommand) bool {
	if cmd.a2 == nil {
		return r.matches(cmd.a1)
	}
	switch {
	case cmd.active == sedActive:
		return r.inRange(cmd)
	case cmd.a1.kind != sedLine:
		return r.matches(cmd.a1) && r.begin(cmd)
	}
	// A line that n has skipped begins its range later.
	return cmd.active != sedClosed && r.number >= cmd.a1.n && r.begin(cmd)
}

// begin opens a range at the current line, or takes the line alone. It reports
// whether the line is chosen.
func (r *sedRun) begin(cmd *sedCommand) bool {
	a2 := cmd.a2
	cmd.active = sedActive
	switch a2.kind {
	case sedLine:
		if cmd.end = a2.n; cmd.end <= r.number {
			cmd.active = sedClosed
			return cmd.a1.kind != sedLine || r.number == cmd.a1.n || r.number == cmd.end
		}
	case sedLast:
		if r.in.isLast() {
			cmd.active = sedClosed
		}
	case sedPlus, sedMultiple:
		cmd.end = r.number + a2.n
		if a2.kind == sedMultiple && a2.n > 0 {
			cmd.end = (r.number/a2.n + 1) * a2.n
		}
		if a2.n == 0 {
			cmd.active = sedClosed
		}
	}
	return true
}

// inRange reports whether a range that has begun still holds the line.
func (r *sedRun) inRange(cmd *sedCommand) bool {
	switch cmd.a2.kind {
	case sedLine, sedPlus, sedMultiple:
		if r.number >= cmd.end {
			cmd.active = sedClosed
		}
		return r.number <= cmd.end || cmd.a2.kind != sedLine
	}
	if r.matches(cmd.a2) {
		cmd.active = sedClosed
	}
	return true
}

// matches reports whether one address chooses the current line.
func (r *sedRun) matches(a *sedAddress) bool {
	switch a.kind {
	case sedLine:
		return r.number == a.n
	case sedStep:
		return r.number >= a.n && (r.number-a.n)%a.m == 0
	case sedLast:
		return r.in.isLast()
	}
	re := r.regexp(a.regexp)
	r.lastAddress = r.lastAddress || a.regexp != nil
	return re != nil && re.Match(r.space.b, 0, nil, r.p)
}
