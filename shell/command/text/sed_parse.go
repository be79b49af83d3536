package text

import (
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
)

// sedScript is a parsed script: its commands in order. Blocks and labels are indexes of commands.
type sedScript struct {
	commands []sedCommand
	quiet    bool // the script begins with #n
	last     bool // the script uses $
}

// sedCommand is one command of a script with its addresses and arguments.
type sedCommand struct {
	name    byte
	a1, a2  *sedAddress
	negated bool
	active  sedRange
	end     int64 // the line that ends an active range
	number  int   // of l, q, Q; -1 when there is none
	text    []byte
	file    string
	jump    int // target of b, t, T and of a { that isn't entered
	label   string
	subst   *sedSubst
	table   map[rune]rune // of y
	bytes   *[256]byte    // of y, if it changes ASCII only
	where   string        // for messages
}

// sedRange is the state of a range of lines.
type sedRange uint8

const (
	sedIdle sedRange = iota
	sedActive
	sedClosed
)

// sedAddressKind is a kind of address.
type sedAddressKind uint8

const (
	sedLine sedAddressKind = iota
	sedStep                // first~step
	sedLast
	sedMatch
	sedPlus     // addr,+n
	sedMultiple // addr,~n
)

// sedAddress selects lines.
type sedAddress struct {
	kind   sedAddressKind
	n, m   int64
	regexp *regex.Regexp // nil: the last one used
}

// sedParser parses the parts of a script.
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
	pending bool // the text of a, i or c continues in the next part
}

// eof is the value that next returns at the end of a part.
const eof = -1

// sedLimit is the largest number of commands in a script.
const sedLimit = 100000

func parseSed(parts *sedParts, style sedStyle) (*sedScript, error) {
	s := &sedParser{p: parts.p, style: style, script: &sedScript{}, labels: map[string]int{}}
	for i, part := range parts.list {
		s.part, s.pos, s.line = part, 0, 1
		if i == 0 && strings.HasPrefix(part.text, "#n") {
			s.script.quiet = true
		}
		if s.pending {
			s.continueText()
		}
		if err := s.parseCommands(); err != nil {
			return nil, err
		}
	}
	if n := len(s.blocks); n > 0 {
		return nil, &sedError{s.opened[n-1], "unmatched `{'"}
	}
	return s.script, s.resolveLabels()
}

// resolveLabels sets the targets of jumps.
func (s *sedParser) resolveLabels() error {
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

func (s *sedParser) position() string {
	if s.part.name != "" {
		return fmt.Sprintf("file %s line %d", s.part.name, s.line)
	}
	return fmt.Sprintf("-e expression #%d, char %d", s.part.nth, min(s.pos, len(s.part.text)))
}

func (s *sedParser) errorf(format string, a ...any) error {
	return &sedError{s.position(), fmt.Sprintf(format, a...)}
}

// next returns the next byte of the part, or eof.
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

// unread moves back by one byte.
func (s *sedParser) unread() {
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

// parseCommands parses commands up to the end of the part.
func (s *sedParser) parseCommands() error {
	for {
		c := s.next()
		for c == ';' || character.IsSpace(c) {
			c = s.next()
		}
		if c == eof {
			return nil
		}
		s.p.Tick(4)
		if len(s.script.commands) >= sedLimit {
			return s.errorf("too many commands")
		}
		s.p.Alloc(256)
		if err := s.parseCommand(c); err != nil {
			return err
		}
	}
}

// parseCommand parses addresses and the command that follows them; c is the first byte.
func (s *sedParser) parseCommand(c int) error {
	cmd := sedCommand{number: -1}
	c, err := s.parseAddresses(&cmd, c)
	if err != nil {
		return err
	}
	if c == '!' {
		cmd.negated = true
		if c = s.nextNonblank(); c == '!' {
			return s.errorf("multiple `!'s")
		}
	}
	if c == eof {
		return s.errorf("missing command")
	}
	cmd.name = byte(c)
	cmd.where = s.position()
	if s.isBlockOrComment(&cmd) {
		return s.parseBlock(cmd)
	}
	if err := s.parseArguments(&cmd); err != nil {
		return err
	}
	if cmd.name != ':' && cmd.name != 'v' {
		s.script.commands = append(s.script.commands, cmd)
	}
	return nil
}

// parseAddresses parses one or two addresses and returns the byte that follows.
func (s *sedParser) parseAddresses(cmd *sedCommand, c int) (int, error) {
	a1, err := s.parseAddress(c)
	if err != nil || a1 == nil {
		return c, err
	}
	if a1.kind == sedPlus || a1.kind == sedMultiple {
		return 0, s.errorf("invalid usage of +N or ~N as first address")
	}
	cmd.a1 = a1
	c = s.nextNonblank()
	if c == ',' {
		if cmd.a2, err = s.parseAddress(s.nextNonblank()); err != nil {
			return 0, err
		}
		if cmd.a2 == nil {
			return 0, s.errorf("unexpected `,'")
		}
		c = s.nextNonblank()
	}
	if a1.kind == sedLine && a1.n == 0 {
		if cmd.a2 == nil || cmd.a2.kind != sedMatch || s.style.posix {
			return 0, s.errorf("invalid usage of line address 0")
		}
	}
	cmd.active = cmd.initialRange()
	return c, nil
}

// initialRange returns the state of a range before the first line.
func (c *sedCommand) initialRange() sedRange {
	if c.a1 != nil && c.a1.kind == sedLine && c.a1.n == 0 {
		return sedActive
	}
	return sedIdle
}

// parseAddress parses an address that begins with c. It returns nil if there is none.
func (s *sedParser) parseAddress(c int) (*sedAddress, error) {
	switch {
	case c == '/' || c == '\\':
		if c == '\\' {
			c = s.next()
		}
		return s.parseMatchAddress(c)
	case character.IsDigit(c):
		a := &sedAddress{kind: sedLine, n: s.parseInteger(c)}
		c = s.nextNonblank()
		if c != '~' || s.style.posix {
			s.unread()
			return a, nil
		}
		if c = s.nextNonblank(); !character.IsDigit(c) {
			s.unread()
			return a, nil
		}
		if a.m = s.parseInteger(c); a.m > 0 {
			a.kind = sedStep
		}
		return a, nil
	case (c == '+' || c == '~') && !s.style.posix:
		a := &sedAddress{kind: sedPlus}
		if c == '~' {
			a.kind = sedMultiple
		}
		if c = s.nextNonblank(); character.IsDigit(c) {
			a.n = s.parseInteger(c)
		} else {
			s.unread()
		}
		return a, nil
	case c == '$':
		s.script.last = true
		return &sedAddress{kind: sedLast}, nil
	}
	return nil, nil
}

func (s *sedParser) parseMatchAddress(delim int) (*sedAddress, error) {
	pattern, err := s.readDelimited(delim, true)
	if err != nil {
		return nil, err
	}
	if pattern == nil {
		return nil, s.errorf("unterminated address regex")
	}
	var flags string
	for {
		c := s.nextNonblank()
		if c != 'I' && c != 'M' || s.style.posix {
			s.unread()
			break
		}
		flags += string(rune(c))
	}
	re, err := s.compilePattern(*pattern, flags)
	if err != nil {
		return nil, err
	}
	return &sedAddress{kind: sedMatch, regexp: re}, nil
}

// parseInteger parses a number whose first digit is c.
func (s *sedParser) parseInteger(c int) int64 {
	n := int64(0)
	for character.IsDigit(c) {
		n = min(n*10+int64(c-'0'), 1<<50)
		c = s.next()
	}
	s.unread()
	return n
}

// compilePattern compiles a pattern. An empty one is nil: the last one used.
func (s *sedParser) compilePattern(pattern, flags string) (*regex.Regexp, error) {
	if pattern == "" {
		if flags != "" {
			return nil, s.errorf("cannot specify modifiers on empty regexp")
		}
		return nil, nil
	}
	o := regex.Options{Dialect: regex.Sed, IgnoreCase: strings.ContainsAny(flags, "Ii"), Newline: strings.ContainsAny(flags, "Mm"), Budget: s.p}
	o.Bytes = s.style.bytes
	if s.style.ere {
		o.Syntax = regex.ERE
	}
	re, err := regex.Compile(resolvePatternEscapes(pattern), o)
	var fault *regex.Error
	switch {
	case errors.As(err, &fault) && fault.Reason == regex.ClassSyntax:
		return nil, &sedError{"", err.Error()}
	case err != nil:
		return nil, s.errorf("%s", err)
	}
	return re, nil
}

// isBlockOrComment reports whether cmd is a brace or a comment.
func (s *sedParser) isBlockOrComment(cmd *sedCommand) bool {
	return cmd.name == '{' || cmd.name == '}' || cmd.name == '#'
}

// parseBlock opens or closes a block, or skips a comment.
func (s *sedParser) parseBlock(cmd sedCommand) error {
	switch cmd.name {
	case '#':
		if cmd.a1 != nil {
			return s.errorf("comments don't accept any addresses")
		}
		for c := s.next(); c != eof && c != '\n'; c = s.next() {
		}
		return nil
	case '{':
		s.blocks = append(s.blocks, len(s.script.commands))
		where := fmt.Sprintf("-e expression #%d, char 0", s.part.nth)
		if s.part.name != "" {
			where = s.position()
		}
		s.opened = append(s.opened, where)
		s.script.commands = append(s.script.commands, cmd)
		return nil
	}
	n := len(s.blocks)
	if n == 0 {
		return s.errorf("unexpected `}'")
	}
	if cmd.a1 != nil {
		return s.errorf("} doesn't want any addresses")
	}
	s.script.commands[s.blocks[n-1]].jump = len(s.script.commands)
	s.blocks, s.opened = s.blocks[:n-1], s.opened[:n-1]
	return s.expectEndOfCommand()
}

// expectEndOfCommand parses the end of a command: blanks, a semicolon, a newline, a brace or a comment.
func (s *sedParser) expectEndOfCommand() error {
	switch c := s.nextNonblank(); c {
	case '}', '#':
		s.unread()
	case eof, '\n', ';', '\r':
	default:
		return s.errorf("extra characters after command")
	}
	return nil
}

// parseArguments parses the arguments of a command.
func (s *sedParser) parseArguments(cmd *sedCommand) error {
	switch cmd.name {
	case '=', 'd', 'D', 'F', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'z', 'x':
		return s.expectEndOfCommand()
	case 'a', 'i', 'c':
		return s.parseText(cmd)
	case ':':
		return s.parseLabel(cmd)
	case 'b', 't', 'T':
		cmd.label = s.readLabel()
		return nil
	case 'q', 'Q', 'l', 'L':
		if cmd.a2 != nil && cmd.name != 'l' {
			return s.errorf("command only uses one address")
		}
		if c := s.nextNonblank(); character.IsDigit(c) {
			cmd.number = int(s.parseInteger(c))
		} else {
			s.unread()
		}
		return s.expectEndOfCommand()
	case 'r', 'R', 'w', 'W':
		return s.parseFileName(cmd)
	case 's':
		return s.parseSubstitution(cmd)
	case 'y':
		return s.parseTransliteration(cmd)
	case 'e':
		if s.style.sandbox {
			return s.errorf("e/r/w commands disabled in sandbox mode")
		}
		return s.errorf("the e command is not supported; use a pipe instead")
	case 'v':
		if version := s.readLabel(); version > "4.9" {
			return s.errorf("expected newer version of sed")
		}
		return nil
	}
	return s.errorf("unknown command: `%c'", cmd.name)
}

// parseLabel parses the label of a : command and records its position.
func (s *sedParser) parseLabel(cmd *sedCommand) error {
	if cmd.a1 != nil {
		return s.errorf(": doesn't want any addresses")
	}
	name := s.readLabel()
	if name == "" {
		return s.errorf("\":\" lacks a label")
	}
	s.labels[name] = len(s.script.commands)
	return nil
}

// readLabel reads a label.
func (s *sedParser) readLabel() string {
	c := s.nextNonblank()
	start := s.pos - 1
	for c != eof && !character.IsSpace(c) && c != ';' && c != '}' {
		c = s.next()
	}
	s.unread()
	return s.part.text[min(start, len(s.part.text)):min(s.pos, len(s.part.text))]
}

// parseFileName parses the name of a file, which extends to the end of the line.
func (s *sedParser) parseFileName(cmd *sedCommand) error {
	if s.style.sandbox {
		return s.errorf("e/r/w commands disabled in sandbox mode")
	}
	c := s.nextNonblank()
	start := s.pos - 1
	for c != eof && c != '\n' {
		c = s.next()
	}
	cmd.file = s.part.text[min(start, len(s.part.text)) : s.pos-1]
	if cmd.file == "" {
		s.pos = start
		return s.errorf("missing filename in r/R/w/W commands")
	}
	return nil
}
