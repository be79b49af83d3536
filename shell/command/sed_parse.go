package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/regex"
)

// sedScript is a script made ready: its commands in a row, with blocks and
// labels as places in it.
type sedScript struct {
	commands []sedCommand
	quiet    bool // it begins with #n
	last     bool // it asks which line is the last
}

// sedCommand is one command.
type sedCommand struct {
	name    byte
	a1, a2  *sedAddress
	negated bool
	active  sedRange
	end     int64 // the line that ends an active range
	number  int   // of l, q, Q; -1 when there is none
	text    []byte
	file    string
	jump    int // where b, t, T and a { that isn't entered go on
	label   string
	subst   *sedSubst
	table   map[rune]rune // y
	bytes   *[256]byte    // y, when it changes ASCII only
	where   string        // for messages
}

// sedRange is the state of a range of lines.
type sedRange uint8

const (
	sedIdle sedRange = iota
	sedActive
	sedClosed
)

type sedAddressKind uint8

const (
	sedLine sedAddressKind = iota
	sedStep                // first~step
	sedLast
	sedMatch
	sedPlus     // addr,+n
	sedMultiple // addr,~n
)

// sedAddress chooses lines.
type sedAddress struct {
	kind   sedAddressKind
	n, m   int64
	regexp *regex.Regexp // nil: the last one used
}

// sedParser reads the parts of a script.
type sedParser struct {
	p       *kernel.Proc
	style   sedStyle
	script  *sedScript
	part    sedPart
	pos     int
	line    int
	blocks  []int // open braces
	opened  []string
	labels  map[string]int
	pending bool // the text of a, i or c goes on in the next part
}

// eof is what the parser reads after the end of a part.
const eof = -1

// sedLimit bounds the commands of a script.
const sedLimit = 100000

func parseSed(parts *sedParts, style sedStyle) (*sedScript, error) {
	s := &sedParser{p: parts.p, style: style, script: &sedScript{}, labels: map[string]int{}}
	for i, part := range parts.list {
		s.part, s.pos, s.line = part, 0, 1
		if i == 0 && strings.HasPrefix(part.text, "#n") {
			s.script.quiet = true
		}
		if s.pending {
			s.goOn()
		}
		if err := s.commands(); err != nil {
			return nil, err
		}
	}
	if n := len(s.blocks); n > 0 {
		return nil, &sedError{s.opened[n-1], "unmatched `{'"}
	}
	return s.script, s.link()
}

// link finds the places that labels stand for.
func (s *sedParser) link() error {
	for i := range s.script.commands {
		c := &s.script.commands[i]
		if c.name != 'b' && c.name != 't' && c.name != 'T' {
			continue
		}
		c.jump = len(s.script.commands)
		if c.label == "" {
			continue
		}
		to, ok := s.labels[c.label]
		if !ok {
			return &sedError{"", fmt.Sprintf("can't find label for jump to `%s'", c.label)}
		}
		c.jump = to
	}
	return nil
}

func (s *sedParser) where() string {
	if s.part.name != "" {
		return fmt.Sprintf("file %s line %d", s.part.name, s.line)
	}
	return fmt.Sprintf("-e expression #%d, char %d", s.part.nth, min(s.pos, len(s.part.text)))
}

func (s *sedParser) bad(format string, a ...any) error {
	return &sedError{s.where(), fmt.Sprintf(format, a...)}
}

// next reads a byte, or eof.
func (s *sedParser) next() int {
	if s.pos >= len(s.part.text) {
		s.pos = len(s.part.text) + 1
		return eof
	}
	c := s.part.text[s.pos]
	s.pos++
	if c == '\n' {
		s.line++
	}
	return int(c)
}

// back unreads what next has read.
func (s *sedParser) back() {
	s.pos--
	if s.pos < len(s.part.text) && s.part.text[s.pos] == '\n' {
		s.line--
	}
}

func (s *sedParser) nextNonblank() int {
	c := s.next()
	for c == ' ' || c == '\t' {
		c = s.next()
	}
	return c
}

func isSpace(c int) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isDigit(c int) bool { return c >= '0' && c <= '9' }

// commands reads commands up to the end of the part.
func (s *sedParser) commands() error {
	for {
		c := s.next()
		for c == ';' || isSpace(c) {
			c = s.next()
		}
		if c == eof {
			return nil
		}
		s.p.Tick(4)
		if len(s.script.commands) >= sedLimit {
			return s.bad("too many commands")
		}
		s.p.Alloc(256)
		if err := s.command(c); err != nil {
			return err
		}
	}
}

// command reads addresses and what is to be done at them.
func (s *sedParser) command(c int) error {
	cmd := sedCommand{number: -1}
	c, err := s.addresses(&cmd, c)
	if err != nil {
		return err
	}
	if c == '!' {
		cmd.negated = true
		if c = s.nextNonblank(); c == '!' {
			return s.bad("multiple `!'s")
		}
	}
	if c == eof {
		return s.bad("missing command")
	}
	cmd.name = byte(c)
	cmd.where = s.where()
	if s.blockOrComment(&cmd) {
		return s.block(cmd)
	}
	if err := s.arguments(&cmd); err != nil {
		return err
	}
	if cmd.name != ':' && cmd.name != 'v' {
		s.script.commands = append(s.script.commands, cmd)
	}
	return nil
}

// addresses reads one or two addresses and returns the byte that follows.
func (s *sedParser) addresses(cmd *sedCommand, c int) (int, error) {
	a1, err := s.address(c)
	if err != nil || a1 == nil {
		return c, err
	}
	if a1.kind == sedPlus || a1.kind == sedMultiple {
		return 0, s.bad("invalid usage of +N or ~N as first address")
	}
	cmd.a1 = a1
	c = s.nextNonblank()
	if c == ',' {
		if cmd.a2, err = s.address(s.nextNonblank()); err != nil {
			return 0, err
		}
		if cmd.a2 == nil {
			return 0, s.bad("unexpected `,'")
		}
		c = s.nextNonblank()
	}
	if a1.kind == sedLine && a1.n == 0 {
		if cmd.a2 == nil || cmd.a2.kind != sedMatch || s.style.posix {
			return 0, s.bad("invalid usage of line address 0")
		}
	}
	cmd.active = cmd.initial()
	return c, nil
}

// initial returns the state of a range before the first line.
func (c *sedCommand) initial() sedRange {
	if c.a1 != nil && c.a1.kind == sedLine && c.a1.n == 0 {
		return sedActive
	}
	return sedIdle
}

// address reads an address that begins with c, or returns nil.
func (s *sedParser) address(c int) (*sedAddress, error) {
	switch {
	case c == '/' || c == '\\':
		if c == '\\' {
			c = s.next()
		}
		return s.matchAddress(c)
	case isDigit(c):
		a := &sedAddress{kind: sedLine, n: s.integer(c)}
		c = s.nextNonblank()
		if c != '~' || s.style.posix {
			s.back()
			return a, nil
		}
		if c = s.nextNonblank(); !isDigit(c) {
			s.back()
			return a, nil
		}
		if a.m = s.integer(c); a.m > 0 {
			a.kind = sedStep
		}
		return a, nil
	case (c == '+' || c == '~') && !s.style.posix:
		a := &sedAddress{kind: sedPlus}
		if c == '~' {
			a.kind = sedMultiple
		}
		if c = s.nextNonblank(); isDigit(c) {
			a.n = s.integer(c)
		} else {
			s.back()
		}
		return a, nil
	case c == '$':
		s.script.last = true
		return &sedAddress{kind: sedLast}, nil
	}
	return nil, nil
}

func (s *sedParser) matchAddress(delim int) (*sedAddress, error) {
	pattern, err := s.delimited(delim, true)
	if err != nil {
		return nil, err
	}
	if pattern == nil {
		return nil, s.bad("unterminated address regex")
	}
	var flags string
	for {
		c := s.nextNonblank()
		if c != 'I' && c != 'M' || s.style.posix {
			s.back()
			break
		}
		flags += string(rune(c))
	}
	re, err := s.compile(*pattern, flags)
	if err != nil {
		return nil, err
	}
	return &sedAddress{kind: sedMatch, regexp: re}, nil
}

// integer reads digits, the first of which is c.
func (s *sedParser) integer(c int) int64 {
	n := int64(0)
	for isDigit(c) {
		n = min(n*10+int64(c-'0'), 1<<50)
		c = s.next()
	}
	s.back()
	return n
}

// compile turns a pattern into a regular expression; an empty one is nil.
func (s *sedParser) compile(pattern, flags string) (*regex.Regexp, error) {
	if pattern == "" {
		if flags != "" {
			return nil, s.bad("cannot specify modifiers on empty regexp")
		}
		return nil, nil
	}
	o := regex.Options{Dialect: regex.Sed, IgnoreCase: strings.ContainsAny(flags, "Ii"), Newline: strings.ContainsAny(flags, "Mm"), Budget: s.p}
	o.Bytes = s.style.bytes
	if s.style.ere {
		o.Syntax = regex.ERE
	}
	re, err := regex.Compile(sedPatternEscapes(pattern), o)
	var fault *regex.Error
	switch {
	case errors.As(err, &fault) && fault.Reason == regex.ClassSyntax:
		return nil, &sedError{"", err.Error()}
	case err != nil:
		return nil, s.bad("%s", err)
	}
	return re, nil
}

// blockOrComment reports whether cmd is no command of its own.
func (s *sedParser) blockOrComment(cmd *sedCommand) bool {
	return cmd.name == '{' || cmd.name == '}' || cmd.name == '#'
}

// block opens or closes a block, or skips a comment.
func (s *sedParser) block(cmd sedCommand) error {
	switch cmd.name {
	case '#':
		if cmd.a1 != nil {
			return s.bad("comments don't accept any addresses")
		}
		for c := s.next(); c != eof && c != '\n'; c = s.next() {
		}
		return nil
	case '{':
		s.blocks = append(s.blocks, len(s.script.commands))
		where := fmt.Sprintf("-e expression #%d, char 0", s.part.nth)
		if s.part.name != "" {
			where = s.where()
		}
		s.opened = append(s.opened, where)
		s.script.commands = append(s.script.commands, cmd)
		return nil
	}
	n := len(s.blocks)
	if n == 0 {
		return s.bad("unexpected `}'")
	}
	if cmd.a1 != nil {
		return s.bad("} doesn't want any addresses")
	}
	s.script.commands[s.blocks[n-1]].jump = len(s.script.commands)
	s.blocks, s.opened = s.blocks[:n-1], s.opened[:n-1]
	return s.endOfCommand()
}

// endOfCommand reads what may follow a command.
func (s *sedParser) endOfCommand() error {
	switch c := s.nextNonblank(); c {
	case '}', '#':
		s.back()
	case eof, '\n', ';', '\r':
	default:
		return s.bad("extra characters after command")
	}
	return nil
}

// arguments reads what follows the name of a command.
func (s *sedParser) arguments(cmd *sedCommand) error {
	switch cmd.name {
	case '=', 'd', 'D', 'F', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'z', 'x':
		return s.endOfCommand()
	case 'a', 'i', 'c':
		return s.text(cmd)
	case ':':
		return s.target(cmd)
	case 'b', 't', 'T':
		cmd.label = s.word()
		return nil
	case 'q', 'Q', 'l', 'L':
		if cmd.a2 != nil && cmd.name != 'l' {
			return s.bad("command only uses one address")
		}
		if c := s.nextNonblank(); isDigit(c) {
			cmd.number = int(s.integer(c))
		} else {
			s.back()
		}
		return s.endOfCommand()
	case 'r', 'R', 'w', 'W':
		return s.fileName(cmd)
	case 's':
		return s.substitution(cmd)
	case 'y':
		return s.transliteration(cmd)
	case 'e':
		if s.style.sandbox {
			return s.bad("e/r/w commands disabled in sandbox mode")
		}
		return s.bad("the e command is not supported; use a pipe instead")
	case 'v':
		if version := s.word(); version > "4.9" {
			return s.bad("expected newer version of sed")
		}
		return nil
	}
	return s.bad("unknown command: `%c'", cmd.name)
}

// target reads a label and notes its place.
func (s *sedParser) target(cmd *sedCommand) error {
	if cmd.a1 != nil {
		return s.bad(": doesn't want any addresses")
	}
	name := s.word()
	if name == "" {
		return s.bad("\":\" lacks a label")
	}
	s.labels[name] = len(s.script.commands)
	return nil
}

// word reads a label.
func (s *sedParser) word() string {
	c := s.nextNonblank()
	start := s.pos - 1
	for c != eof && !isSpace(c) && c != ';' && c != '}' {
		c = s.next()
	}
	s.back()
	return s.part.text[min(start, len(s.part.text)):min(s.pos, len(s.part.text))]
}

// fileName reads the name of a file, up to the end of the line.
func (s *sedParser) fileName(cmd *sedCommand) error {
	if s.style.sandbox {
		return s.bad("e/r/w commands disabled in sandbox mode")
	}
	c := s.nextNonblank()
	start := s.pos - 1
	for c != eof && c != '\n' {
		c = s.next()
	}
	cmd.file = s.part.text[min(start, len(s.part.text)) : s.pos-1]
	if cmd.file == "" {
		s.pos = start
		return s.bad("missing filename in r/R/w/W commands")
	}
	return nil
}
