package text

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
)

// sedSpace is the pattern space or the hold space. Its memory is charged to the process. It may
// borrow a line of an input buffer until it is changed.
type sedSpace struct {
	b        []byte
	own      []byte // memory of b if it is not borrowed
	borrowed bool
	ended    bool // b is printed with a delimiter
}

// reset empties the space and ends a borrowing.
func (s *sedSpace) reset() { s.b, s.borrowed = s.own[:0], false }

// borrowLine sets the space to a line without copying it.
func (s *sedSpace) borrowLine(line []byte, ended bool) { s.b, s.borrowed, s.ended = line, true, ended }

// copyBorrowed copies a borrowed line into the space's own memory.
func (s *sedSpace) copyBorrowed(p *kernel.Proc) {
	if s.borrowed {
		line := s.b
		s.reset()
		s.add(p, line)
	}
}

// add appends text.
func (s *sedSpace) add(p *kernel.Proc, text []byte) {
	if len(text) >= 64 {
		p.Tick(len(text) >> 6)
	}
	if cap(s.b)-len(s.b) < len(text) {
		s.growBuffer(p, len(text))
	}
	s.b = append(s.b, text...)
}

func (s *sedSpace) addByte(p *kernel.Proc, c byte) {
	if len(s.b) == cap(s.b) {
		s.growBuffer(p, 1)
	}
	s.b = append(s.b, c)
}

// growBuffer makes room for n more bytes.
func (s *sedSpace) growBuffer(p *kernel.Proc, n int) {
	size := max(2*cap(s.b), len(s.b)+n, 256)
	p.Alloc(int64(size))
	p.Tick(1 + size>>6)
	b := make([]byte, len(s.b), size)
	copy(b, s.b)
	p.Free(int64(cap(s.own)))
	s.b, s.own = b, b
}

// set copies the content of another space.
func (s *sedSpace) set(p *kernel.Proc, other *sedSpace) {
	s.reset()
	s.add(p, other.b)
	s.ended = other.ended
}

// appendSpace appends a delimiter and another space.
func (s *sedSpace) appendSpace(p *kernel.Proc, delim byte, other *sedSpace) {
	s.addByte(p, delim)
	s.add(p, other.b)
	s.ended = other.ended
}

// firstLine returns the bytes before the first delimiter, and whether they are printed with a
// delimiter.
func (s *sedSpace) firstLine(delim byte) ([]byte, bool) {
	if i := bytes.IndexByte(s.b, delim); i >= 0 {
		return s.b[:i], true
	}
	return s.b, s.ended
}

// sedRun is the state of one run of a script.
type sedRun struct {
	sedStyle
	p           *kernel.Proc
	script      *sedScript
	in          sedInput
	out         *sedOutput
	files       map[string]*sedOutput         // of w
	reads       map[string]*stream.LineReader // of R
	space       *sedSpace
	next        *sedSpace // result of s
	hold        *sedSpace
	last        *regex.Regexp // used last
	lastAddress bool          // last belongs to an address
	caps        []int
	queue       []sedAppend // output for the end of the cycle
	number      int64
	code        int
	halted      bool
	flag        bool // t: a substitution has been made
}

// sedAppend is output for the end of a cycle: a text, a file or a line of one.
type sedAppend struct {
	text []byte
	file string
}

// sedEnd is how a cycle ends.
type sedEnd int

const (
	sedNextCycle sedEnd = iota // print the pattern space, read the next line
	sedDeleted                 // read the next line
	sedAgain                   // run the script again without reading
	sedQuit                    // print the pattern space and end
	sedQuitNow                 // end
)

// stopWithError reports an error and ends the run with code.
func (r *sedRun) stopWithError(code int, format string, a ...any) {
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
	r.in = sedInput{r: r, names: stream.OperandsOrStdin(names), lines: stream.NewLineReader(r.p, nil, r.delim)}
	r.runCycles()
	r.in.returnUnread()
	if failed := r.closeFiles(); failed && r.code == 0 {
		r.code = sedPanic
	}
	return r.code
}

// runCycles runs the script once for every line.
func (r *sedRun) runCycles() {
	again := false
	for again || r.read() {
		end := r.runScript()
		if r.halted {
			return
		}
		if end != sedQuitNow {
			if (end == sedNextCycle || end == sedQuit) && !r.quiet {
				r.print(r.space.b, r.space.ended || end == sedQuit)
			}
			r.flushQueue()
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
	text := stream.TrimDelimiter(line, r.delim)
	r.space.borrowLine(text, len(text) < len(line))
	return true
}

// runScript runs the script on the pattern space.
func (r *sedRun) runScript() sedEnd {
	list := r.script.commands
	for pc := 0; pc < len(list); {
		r.p.Tick(1)
		if r.halted {
			return sedQuitNow
		}
		cmd := &list[pc]
		if cmd.a1 != nil && r.isSelected(cmd) == cmd.negated || cmd.a1 == nil && cmd.negated {
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
			if end, ok := r.advanceLine(cmd.name == 'N'); !ok {
				return end
			}
		case 'c':
			if cmd.a2 == nil || cmd.active != sedActive {
				r.out.writeLine(bytes.TrimSuffix(cmd.text, []byte{'\n'}), true)
			}
			return sedDeleted
		default:
			r.runCommand(cmd)
		}
		pc++
	}
	return sedNextCycle
}

// deleteLine executes D: it deletes the first line of the pattern space.
func (r *sedRun) deleteLine() sedEnd {
	i := bytes.IndexByte(r.space.b, r.delim)
	if i < 0 {
		return sedDeleted
	}
	r.space.copyBorrowed(r.p)
	n := copy(r.space.b, r.space.b[i+1:])
	r.space.b = r.space.b[:n]
	r.p.Tick(1 + n>>6)
	return sedAgain
}

// advanceLine executes n, or N if join is set. If no line follows, it returns how the script ends
// and false.
func (r *sedRun) advanceLine(join bool) (sedEnd, bool) {
	if join {
		r.space.copyBorrowed(r.p)
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
	r.flushQueue()
	line, ok := r.in.next()
	if !ok {
		return sedQuitNow, false
	}
	text := stream.TrimDelimiter(line, r.delim)
	ended := len(text) < len(line)
	if !join {
		r.space.borrowLine(text, ended)
		return 0, true
	}
	r.space.addByte(r.p, r.delim)
	r.space.add(r.p, text)
	r.space.ended = ended
	return 0, true
}

// runCommand executes the commands that change or print the spaces.
func (r *sedRun) runCommand(cmd *sedCommand) {
	switch cmd.name {
	case 's':
		if r.substitute(cmd) {
			r.flag = true
			for range cmd.subst.print {
				r.print(r.space.b, r.space.ended)
			}
			if cmd.subst.file != "" {
				r.files[cmd.subst.file].writeLine(r.space.b, r.space.ended)
			}
		}
	case 'y':
		r.transliterate(cmd)
	case 'p':
		r.print(r.space.b, r.space.ended)
	case 'P':
		line, ended := r.space.firstLine(r.delim)
		r.out.writeLine(line, ended)
	case 'g':
		r.space.set(r.p, r.hold)
	case 'G':
		r.space.copyBorrowed(r.p)
		r.space.appendSpace(r.p, r.delim, r.hold)
	case 'h':
		r.hold.set(r.p, r.space)
	case 'H':
		r.hold.appendSpace(r.p, r.delim, r.space)
	case 'x':
		r.space.copyBorrowed(r.p)
		r.space, r.hold = r.hold, r.space
	case 'z':
		r.space.reset()
	default:
		r.runPrinting(cmd)
	}
}

// runPrinting executes the commands that print anything but the spaces.
func (r *sedRun) runPrinting(cmd *sedCommand) {
	switch cmd.name {
	case '=':
		r.out.write(strconv.AppendInt(nil, r.number, 10))
		r.out.write([]byte{r.delim})
	case 'F':
		r.out.writeLine([]byte(r.in.name), true)
	case 'l':
		wrap := r.wrap
		if cmd.number >= 0 {
			wrap = cmd.number
		}
		r.list(wrap)
	case 'i':
		r.out.writeLine(bytes.TrimSuffix(cmd.text, []byte{'\n'}), true)
	case 'a':
		r.queueAppend(sedAppend{text: cmd.text})
	case 'r':
		r.queueAppend(sedAppend{file: cmd.file})
	case 'R':
		r.readLine(cmd.file)
	case 'w':
		r.files[cmd.file].writeLine(r.space.b, r.space.ended)
	case 'W':
		line, ended := r.space.firstLine(r.delim)
		r.files[cmd.file].writeLine(line, ended)
	}
}

func (r *sedRun) queueAppend(a sedAppend) {
	r.p.Alloc(64)
	r.queue = append(r.queue, a)
}

// resolveRegexp returns re, or the regular expression used last if re is nil, and remembers it.
// If there is none, it stops the run and returns nil.
func (r *sedRun) resolveRegexp(re *regex.Regexp) *regex.Regexp {
	if re != nil {
		r.last = re
	}
	if r.last == nil {
		r.stopWithError(sedBadUsage, "-e expression #1, char 0: no previous regular expression")
	}
	return r.last
}

func (r *sedRun) print(text []byte, ended bool) {
	r.out.writeLine(text, ended)
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
		item := formatVisible(c)
		if width > 0 && len(line)+len(item) > width-1 {
			r.out.write(append(line, '\\', r.delim))
			line = line[:0]
		}
		line = append(line, item...)
	}
	r.out.writeLine(append(line, '$'), true)
}

func formatVisible(c byte) string {
	if i := bytes.IndexByte([]byte("\\\a\b\f\n\r\t\v"), c); i >= 0 {
		return "\\" + "\\abfnrtv"[i:i+1]
	}
	if c < ' ' || c >= 0x7f {
		return fmt.Sprintf("\\%03o", c)
	}
	return string(rune(c & (utf8.RuneSelf - 1)))
}

// isSelected reports whether the addresses of cmd select the current line.
func (r *sedRun) isSelected(cmd *sedCommand) bool {
	if cmd.a2 == nil {
		return r.matchesAddress(cmd.a1)
	}
	switch {
	case cmd.active == sedActive:
		return r.inRange(cmd)
	case cmd.a1.kind != sedLine:
		return r.matchesAddress(cmd.a1) && r.beginRange(cmd)
	}
	// A range whose first line was skipped by n begins later.
	return cmd.active != sedClosed && r.number >= cmd.a1.n && r.beginRange(cmd)
}

// beginRange begins a range at the current line and reports whether the line is selected. A range
// may consist of this line alone.
func (r *sedRun) beginRange(cmd *sedCommand) bool {
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

// inRange reports whether a range that has begun still includes the line.
func (r *sedRun) inRange(cmd *sedCommand) bool {
	switch cmd.a2.kind {
	case sedLine, sedPlus, sedMultiple:
		if r.number >= cmd.end {
			cmd.active = sedClosed
		}
		return r.number <= cmd.end || cmd.a2.kind != sedLine
	}
	if r.matchesAddress(cmd.a2) {
		cmd.active = sedClosed
	}
	return true
}

// matchesAddress reports whether one address selects the current line.
func (r *sedRun) matchesAddress(a *sedAddress) bool {
	switch a.kind {
	case sedLine:
		return r.number == a.n
	case sedStep:
		return r.number >= a.n && (r.number-a.n)%a.m == 0
	case sedLast:
		return r.in.isLast()
	}
	re := r.resolveRegexp(a.regexp)
	r.lastAddress = r.lastAddress || a.regexp != nil
	return re != nil && re.Match(r.space.b, 0, nil, r.p)
}
