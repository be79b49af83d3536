package text

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
)

const edUsage = `Usage: ed [OPTION]... [FILE]
Edit a file by the lines of standard input.

  -E, --extended-regexp   patterns are extended regular expressions
  -G, --traditional       accepted
  -l, --loose-exit-status exit with 0 even if a command failed
  -p, --prompt=STRING     print STRING before each command
  -q, -s, --quiet, --silent  print no sizes of files
  -v, --verbose           explain errors, as after the command H

Addresses: N . $ 'x /RE/ ?RE? +N -N , ;   Commands: a c d e E f g G(no) h H i j k
l m n p P q Q r s t u v w W wq x y z = !COMMAND #
`

var edOptions = option.Parser{Options: []option.Option{
	{Short: 'E', Long: "extended-regexp"}, {Short: 'G', Long: "traditional"}, {Short: 'l', Long: "loose-exit-status"}, {Short: 'p', Long: "prompt", Arg: option.Required}, {Short: 'q', Long: "quiet"}, {Long: "silent", ID: 's'}, {Short: 's', Long: "script"}, {Short: 'r', Long: "restricted"}, {Short: 'v', Long: "verbose"},
}}

// editor is the state of one run of ed.
type editor struct {
	p         *kernel.Proc
	in        *stream.LineReader
	lines     []*string
	at        int // the current line, from 1; 0: before the first
	file      string
	marks     map[byte]*string
	yank      []*string
	charged   int64 // for lines, those that were removed included
	counted   int64 // charged after the last recount
	modified  bool
	warned    bool
	quiet     bool
	verbose   bool
	extended  bool
	prompt    string
	prompting bool
	message   string // the last error
	failed    bool
	quit      bool
	window    int

	pattern             *regex.Regexp
	patternText         string
	replacement         string
	replaceAll          bool
	replaceNth          int
	substituted         bool
	undoLines           []*string
	undoAt              int
	undoable, undoDirty bool

	pending []string // lines of a global command's list, before those of the input
	global  bool
}

// editError is the reason why a command failed.
type editError string

func (e editError) Error() string { return string(e) }

const (
	errAddress  = editError("Invalid address")
	errCommand  = editError("Unknown command")
	errSuffix   = editError("Invalid command suffix")
	errNoMatch  = editError("No match")
	errNoName   = editError("No current filename")
	errModified = editError("Warning: buffer modified")
	errNoAddr   = editError("Unexpected address")
)

func runEd(p *kernel.Proc) int {
	opts, names, ok := edOptions.Parse(p)
	if !ok {
		return 1
	}
	e := &editor{p: p, marks: map[byte]*string{}, in: stream.NewLineReader(p, p.Stdin, '\n'), prompt: "*", window: 22}
	loose := false
	for _, o := range opts {
		switch o.Key {
		case 'E':
			e.extended = true
		case 'l':
			loose = true
		case 'p':
			e.prompt, e.prompting = o.Value, true
		case 'q', 's':
			e.quiet = true
		case 'v':
			e.verbose = true
		}
	}
	if len(names) > 0 {
		e.file = names[0]
		if err := e.readInto(0, e.file); err != nil && !errors.Is(err, errNotRead) {
			e.report(err)
		}
		e.modified, e.failed = false, false
	}
	e.loop()
	if e.failed && !loose {
		return 1
	}
	return 0
}

// errNotRead is the error of a file that can't be read, which has been reported.
var errNotRead = editError("Cannot open input file")

func (e *editor) print(text string) { _, _ = e.p.Out().WriteString(text) } // Flush reports the error

// report prints a question mark, and the reason if it was asked for.
func (e *editor) report(err error) {
	e.failed = true
	e.message = err.Error()
	e.print("?\n")
	if e.verbose {
		e.print(e.message + "\n")
	}
}

// loop runs the commands of standard input.
func (e *editor) loop() {
	for !e.quit {
		if e.prompting {
			e.print(e.prompt)
		}
		line, ok := e.readLine()
		if !ok {
			if e.modified && !e.warned {
				e.report(errModified)
			}
			return
		}
		e.p.Tick(1)
		warned := e.warned
		e.warned = false
		e.saveUndo()
		if err := e.runLine(line, warned); err != nil {
			e.report(err)
		}
		e.recount()
	}
}

// readLine returns the next line of the input.
func (e *editor) readLine() (string, bool) {
	if e.global {
		if len(e.pending) == 0 {
			return "", false
		}
		line := e.pending[0]
		e.pending = e.pending[1:]
		return line, true
	}
	line := e.in.Next()
	if line == nil {
		return "", false
	}
	return string(stream.TrimDelimiter(line, '\n')), true
}

// saveUndo notes the buffer before a command.
func (e *editor) saveUndo() { e.undoDirty = false }

// change must be called before the lines change.
func (e *editor) change() {
	if !e.undoDirty {
		e.p.Tick(len(e.lines) >> 4)
		e.charge(8 * int64(len(e.lines)))
		e.undoLines, e.undoAt = slices.Clone(e.lines), e.at
		e.undoDirty, e.undoable = true, true
	}
	e.modified = true
}

// edLineCost is what a line costs beside its text: the string, and its places in lists while they grow.
const edLineCost = 72

// charge charges memory of lines, until a recount finds that they are gone.
func (e *editor) charge(n int64) {
	e.p.Alloc(n)
	e.charged += n
}

// recount frees what was charged for lines that are in no list any more, when that may be half of it.
func (e *editor) recount() {
	if e.charged < 1<<20 || e.charged < 2*e.counted {
		return
	}
	n := int64(0)
	for _, list := range [][]*string{e.lines, e.undoLines, e.yank} {
		e.p.Tick(len(list) >> 3)
		for _, l := range list {
			n += int64(len(*l)) + edLineCost
		}
	}
	if n < e.charged {
		e.p.Free(e.charged - n)
		e.charged = n
	}
	e.counted = e.charged
}

// newLine returns a line that is charged.
func (e *editor) newLine(text string) *string {
	e.charge(int64(len(text)) + edLineCost)
	return &text
}

// copyLines returns lines with the same texts.
func (e *editor) copyLines(list []*string) []*string {
	out := make([]*string, 0, len(list))
	for _, l := range list {
		e.charge(edLineCost)
		text := *l
		out = append(out, &text)
	}
	return out
}

// insert inserts new lines after a line.
func (e *editor) insert(after int, list []*string) {
	if len(list) == 0 {
		e.at = after
		return
	}
	e.change()
	e.p.Tick((len(e.lines) - after + len(list)) >> 4)
	e.lines = slices.Insert(e.lines, after, list...)
	e.at = after + len(list)
}

// remove removes lines.
func (e *editor) remove(from, to int) {
	e.change()
	e.p.Tick((len(e.lines) - from) >> 4)
	e.lines = slices.Delete(e.lines, from-1, to)
	e.at = min(from, len(e.lines))
}

// runLine runs a command line.
func (e *editor) runLine(line string, warned bool) error {
	c := &cursor{line}
	from, to, count, err := e.addresses(c)
	if err != nil {
		return err
	}
	c.skip()
	name := c.peek()
	if name == 0 {
		if count == 0 {
			to = e.at + 1
		}
		if to < 1 || to > len(e.lines) {
			return errAddress
		}
		e.at = to
		e.printLines(to, to, 'p')
		return nil
	}
	c.text = c.text[1:]
	return e.runCommand(name, c, from, to, count, warned)
}

// suffix reads the suffixes p, l and n of a command.
func (e *editor) suffix(c *cursor) (string, error) {
	n := len(c.text) - len(strings.TrimLeft(c.text, "pln"))
	s := c.text[:n]
	if strings.TrimSpace(c.text[n:]) != "" {
		return "", errSuffix
	}
	return s, nil
}

func (e *editor) printSuffix(s string) {
	if s != "" && e.at > 0 {
		e.printLines(e.at, e.at, edForm(s))
	}
}

func edForm(s string) byte {
	switch {
	case strings.Contains(s, "l"):
		return 'l'
	case strings.Contains(s, "n"):
		return 'n'
	}
	return 'p'
}

// needLines checks that the range has no line 0.
func needLines(from int) error {
	if from < 1 {
		return errAddress
	}
	return nil
}

// runCommand runs the command of a name.
func (e *editor) runCommand(name byte, c *cursor, from, to, count int, warned bool) error {
	switch name {
	case 'a', 'i', 'c', 'd', 'j', 'm', 't', 'x', 'y':
		return e.runEdit(name, c, from, to, count)
	case 'p', 'n', 'l', '=', 'z', 'k':
		return e.runPrint(name, c, from, to, count)
	case 'e', 'E', 'f', 'r', 'w', 'W':
		return e.runFile(name, c, from, to, count, warned)
	case 's':
		return e.substitute(c, from, to)
	case 'g', 'v':
		if e.global {
			return editError("Cannot nest global commands")
		}
		if count == 0 {
			from, to = min(1, len(e.lines)), len(e.lines)
		}
		return e.runGlobal(c, from, to, name == 'g')
	case 'G', 'V':
		return editError("There is no terminal for " + string(name) + ": use g or v")
	case '!':
		_ = e.p.Out().Flush() // the next write reports the error
		e.p.Run("/bin/sh", "-c", c.text)
		if !e.quiet {
			e.print("!\n")
		}
		return nil
	case '#':
		return nil
	}
	if strings.IndexByte("qQhHPu", name) < 0 {
		return errCommand
	}
	if count > 0 {
		return errNoAddr
	}
	s, err := e.suffix(c)
	if err != nil {
		return err
	}
	switch name {
	case 'q':
		if e.modified && !warned {
			e.warned = true
			return errModified
		}
		e.quit = true
	case 'Q':
		e.quit = true
	case 'h':
		if e.message != "" {
			e.print(e.message + "\n")
		}
	case 'H':
		e.verbose = !e.verbose
		if e.verbose && e.message != "" {
			e.print(e.message + "\n")
		}
	case 'P':
		e.prompting = !e.prompting
	case 'u':
		if !e.undoable {
			return editError("Nothing to undo")
		}
		lines, at := e.lines, e.at
		e.lines, e.at = e.undoLines, e.undoAt
		e.undoLines, e.undoAt = lines, at
		e.modified = true
	}
	e.printSuffix(s)
	return nil
}

// runEdit runs a command that changes lines.
func (e *editor) runEdit(name byte, c *cursor, from, to, count int) error {
	switch name {
	case 'm', 't':
		return e.moveLines(name, c, from, to)
	case 'j':
		if count < 2 {
			if count == 0 {
				from = e.at
			}
			to = from
			if count == 0 {
				to = e.at + 1
			}
		}
		if err := errors.Join(needLines(from), e.checkRange(from, to)); err != nil {
			return errAddress
		}
	case 'c', 'd', 'y':
		if err := needLines(from); err != nil && !(name == 'c' && from == 0 && len(e.lines) == 0) {
			return err
		}
	}
	s, err := e.suffix(c)
	if err != nil {
		return err
	}
	switch name {
	case 'a':
		e.insert(to, e.readText())
	case 'i':
		e.insert(max(to-1, 0), e.readText())
	case 'c':
		text := e.readText()
		if to > 0 {
			e.keep(from, to)
			e.remove(from, to)
		}
		if e.insert(max(from-1, 0), text); len(text) == 0 {
			e.at = min(from, len(e.lines))
		}
	case 'd':
		e.keep(from, to)
		e.remove(from, to)
	case 'y':
		e.keep(from, to)
	case 'x':
		if len(e.yank) == 0 {
			return editError("Nothing to put")
		}
		e.insert(to, e.copyLines(e.yank))
	case 'j':
		if from < to {
			e.joinLines(from, to)
		}
	}
	e.printSuffix(s)
	return nil
}

// keep puts lines into the buffer of x.
func (e *editor) keep(from, to int) {
	e.charge(8 * int64(to-from+1))
	e.yank = slices.Clone(e.lines[from-1 : to])
}

func (e *editor) joinLines(from, to int) {
	n := 0
	for _, l := range e.lines[from-1 : to] {
		n += len(*l)
	}
	e.charge(int64(n) + edLineCost)
	var b strings.Builder
	b.Grow(n)
	for _, l := range e.lines[from-1 : to] {
		b.WriteString(*l)
	}
	text := b.String()
	e.keep(from, to)
	e.remove(from, to)
	e.insert(from-1, []*string{&text})
}

// readText reads the lines of a, i and c up to a dot.
func (e *editor) readText() []*string {
	var list []*string
	for {
		line, ok := e.readLine()
		if !ok || line == "." {
			return list
		}
		list = append(list, e.newLine(line))
	}
}

func (e *editor) moveLines(name byte, c *cursor, from, to int) error {
	if err := needLines(from); err != nil {
		return err
	}
	n, ok, err := e.address(c)
	if err != nil {
		return err
	}
	if !ok {
		n = e.at
	}
	if n < 0 || n > len(e.lines) {
		return errAddress
	}
	if name == 'm' && n >= from && n < to {
		return editError("Invalid destination")
	}
	s, err := e.suffix(c)
	if err != nil {
		return err
	}
	if name == 't' {
		e.insert(n, e.copyLines(e.lines[from-1:to]))
	} else if n < from-1 || n > to {
		e.p.Alloc(8 * int64(to-from+1))
		moved := slices.Clone(e.lines[from-1 : to])
		e.remove(from, to)
		if n > to {
			n -= to - from + 1
		}
		e.insert(n, moved)
		e.p.Free(8 * int64(to-from+1))
	} else {
		e.at = to
	}
	e.printSuffix(s)
	return nil
}

// runPrint runs a command that prints or marks lines.
func (e *editor) runPrint(name byte, c *cursor, from, to, count int) error {
	if name == 'k' {
		mark := c.peek()
		if mark == 0 {
			return errSuffix
		}
		if mark < 'a' || mark > 'z' {
			return editError("Invalid mark character")
		}
		if err := needLines(to); err != nil {
			return err
		}
		e.marks[mark] = e.lines[to-1]
		return nil
	}
	if name == 'z' {
		if n, ok := c.number(); ok && n > 0 {
			e.window = n
		}
		if count == 0 {
			to = e.at + 1
		}
		if to < 1 || to > len(e.lines) {
			return errAddress
		}
		from, to = to, min(to+e.window-1, len(e.lines))
	}
	s, err := e.suffix(c)
	if err != nil {
		return err
	}
	if name == '=' {
		if count == 0 {
			to = len(e.lines)
		}
		e.print(strconv.Itoa(to) + "\n")
		return nil
	}
	if err := needLines(from); err != nil {
		return err
	}
	if name != 'z' {
		s += string(name)
	}
	e.printLines(from, to, edForm(s))
	e.at = to
	return nil
}

func (e *editor) printLines(from, to int, form byte) {
	for i := from; i <= to; i++ {
		e.p.Tick(1)
		text := *e.lines[i-1]
		switch form {
		case 'n':
			e.print(strconv.Itoa(i) + "\t")
			e.print(text)
		case 'l':
			e.printVisible(text)
			e.print("$")
		default:
			e.print(text)
		}
		e.print("\n")
	}
}

// printVisible prints a line as l does.
func (e *editor) printVisible(text string) {
	e.p.Tick(len(text) >> 2)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\\' || c == '$':
			e.print("\\" + string(c))
		case strings.IndexByte("\a\b\f\n\r\t\v", c) >= 0:
			e.print("\\" + string("abfnrtv"[strings.IndexByte("\a\b\f\n\r\t\v", c)]))
		case c < ' ' || c >= 0x7f:
			e.print(fmt.Sprintf("\\%03o", c))
		default:
			e.print(text[i : i+1])
		}
	}
}
