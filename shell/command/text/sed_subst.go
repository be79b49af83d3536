package text

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
)

// sedSubst holds the arguments of an s command.
type sedSubst struct {
	regexp  *regex.Regexp // nil: the last one used
	parts   []sedReplacement
	refs    int // the highest group that the replacement names
	nth     int
	global  bool
	print   int
	file    string
	literal bool // nothing in parts changes case
}

// sedCase is a change of case in a replacement.
type sedCase uint8

const (
	sedKeep sedCase = iota
	sedUpper
	sedLower
	sedUpperOne
	sedLowerOne
	sedEndCase
)

// sedReplacement is a part of a replacement: a text, a group, or a change of case for the parts
// that follow.
type sedReplacement struct {
	text  []byte
	group int // -1: text
	turn  sedCase
}

// sedReplacementSize is the size of a part in memory, in bytes.
const sedReplacementSize = 48

// parseSubstitution parses the arguments of s.
func (s *sedParser) parseSubstitution(cmd *sedCommand) error {
	delim := s.next()
	pattern, err := s.readDelimited(delim, true)
	if err != nil {
		return err
	}
	if pattern == nil {
		return s.errorf("unterminated `s' command")
	}
	replacement, err := s.readDelimited(delim, false)
	if err != nil {
		return err
	}
	if replacement == nil {
		return s.errorf("unterminated `s' command")
	}
	sub := &sedSubst{nth: 1}
	cmd.subst = sub
	s.p.Alloc(4 * int64(len(*replacement)))
	sub.parse([]byte(*replacement), s.p)
	flags, err := s.parseSubstFlags(sub)
	if err != nil {
		return err
	}
	if strings.Contains(*replacement, `\c\`) && !strings.Contains(*replacement, `\c\\`) {
		return s.errorf("recursive escaping after \\c not allowed")
	}
	if sub.regexp, err = s.compilePattern(*pattern, flags); err != nil {
		return err
	}
	if sub.regexp != nil && sub.refs > sub.regexp.Groups() {
		return s.errorf("invalid reference \\%d on `s' command's RHS", sub.refs)
	}
	return nil
}

// parseSubstFlags parses the flags after the replacement and returns those of the pattern.
func (s *sedParser) parseSubstFlags(sub *sedSubst) (flags string, err error) {
	numbered := false
	for {
		c := s.next()
		switch {
		case c == 'i' || c == 'I' || c == 'm' || c == 'M':
			flags += string(rune(c))
		case c == 'e':
			return "", s.errorf("the e option to `s' is not supported; use a pipe instead")
		case c == 'p':
			if sub.print > 0 {
				return "", s.errorf("multiple `p' options to `s' command")
			}
			sub.print++
		case c == 'g':
			if sub.global {
				return "", s.errorf("multiple `g' options to `s' command")
			}
			sub.global = true
		case character.IsDigit(c):
			if numbered {
				return "", s.errorf("multiple number options to `s' command")
			}
			n := s.parseInteger(c)
			if n == 0 {
				return "", s.errorf("number option to `s' command may not be zero")
			}
			sub.nth, numbered = int(n), true
		case c == 'w':
			var named sedCommand
			err := s.parseFileName(&named)
			sub.file = named.file
			return flags, err
		case c == '}' || c == '#':
			s.unread()
			return flags, nil
		case c == eof || c == '\n' || c == ';':
			return flags, nil
		case c == ' ' || c == '\t' || c == '\r':
		default:
			return "", s.errorf("unknown option to `s'")
		}
	}
}

// parse splits a replacement into parts.
func (sub *sedSubst) parse(raw []byte, p *kernel.Proc) {
	var text []byte
	add := func(part sedReplacement) {
		p.Tick(1)
		p.Alloc(2 * sedReplacementSize) // the slice may grow to twice the size that it needs
		sub.parts = append(sub.parts, part)
	}
	flush := func() {
		if len(text) > 0 {
			add(sedReplacement{text: text, group: -1})
			text = nil
		}
	}
	sub.literal = true
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '&' {
			flush()
			add(sedReplacement{group: 0})
			continue
		}
		if c != '\\' || i+1 == len(raw) {
			text = append(text, c)
			continue
		}
		if c, used := parseEscape(raw[i+1:]); used > 0 {
			text = append(text, c)
			i += used
			continue
		}
		i++
		switch c := raw[i]; {
		case character.IsDigit(int(c)):
			flush()
			add(sedReplacement{group: int(c - '0')})
			sub.refs = max(sub.refs, int(c-'0'))
		case strings.IndexByte("ULulE", c) >= 0:
			flush()
			turn := sedUpper + sedCase(strings.IndexByte("ULulE", c))
			add(sedReplacement{group: -1, turn: turn})
			sub.literal = false
		case c == 'n':
			text = append(text, '\n')
		default:
			text = append(text, c)
		}
	}
	flush()
}

// parseTransliteration parses the arguments of y.
func (s *sedParser) parseTransliteration(cmd *sedCommand) error {
	delim := s.next()
	var sides [2][]rune
	for i := range sides {
		text, err := s.readDelimited(delim, false)
		if err != nil {
			return err
		}
		if text == nil {
			return s.errorf("unterminated `y' command")
		}
		s.p.Alloc(letterCost * int64(len(*text)))
		sides[i] = decodeLetters(*text)
	}
	if len(sides[0]) != len(sides[1]) {
		return s.errorf("strings for `y' command are different lengths")
	}
	cmd.table = make(map[rune]rune, len(sides[0]))
	for i, r := range sides[0] {
		if _, twice := cmd.table[r]; !twice {
			cmd.table[r] = sides[1][i]
		}
	}
	cmd.bytes = newByteTable(cmd.table)
	return s.expectEndOfCommand()
}

// letterCost is what a letter of an argument takes while it is decoded, in bytes: its rune, in a slice
// that may grow to twice its size, and copies of the text.
const letterCost = 12

// decodeLetters returns the characters of one argument of y.
func decodeLetters(text string) []rune {
	raw := resolvePatternEscapes(text)
	var list []rune
	for i := 0; i < len(raw); {
		r, w := utf8.DecodeRuneInString(raw[i:])
		if r == utf8.RuneError && w == 1 {
			r = rune(raw[i]) - 0x100 // an invalid byte
		}
		i += w
		if r == '\\' && i < len(raw) {
			switch raw[i] {
			case '\\':
				i++
			case 'n':
				r = '\n'
				i++
			default:
				continue
			}
		}
		list = append(list, r)
	}
	return list
}

// substitute executes s on the pattern space and reports whether it replaced anything.
func (r *sedRun) substitute(cmd *sedCommand) bool {
	sub := cmd.subst
	// The pattern of an address was compiled without checking references to its groups; like GNU, this
	// reports them only when they are used.
	fromAddress := sub.regexp == nil && r.lastAddress
	re := r.resolveRegexp(sub.regexp)
	if re == nil {
		return false
	}
	r.lastAddress = false
	if fromAddress && sub.refs > re.Groups() {
		r.stopWithError(sedBadUsage, "-e expression #1, char 0: invalid reference \\%d on `s' command's RHS", sub.refs)
		return false
	}
	need := 2 * (sub.refs + 1)
	for len(r.caps) < need {
		r.caps = append(r.caps, 0)
	}
	caps := r.caps[:need]
	line := r.space.b
	if !re.Match(line, 0, caps, r.p) {
		return false
	}
	r.next.reset()
	start, count, replaced, last := 0, 0, false, -1
	for {
		lo, hi := caps[0], caps[1]
		r.next.add(r.p, line[start:lo])
		if lo == hi && lo == last {
			// An empty match right after another is none.
		} else if count++; count < sub.nth {
			r.next.add(r.p, line[lo:hi])
		} else {
			r.appendReplacement(sub, line, caps)
			replaced = true
		}
		start, last = hi, hi
		if replaced && !sub.global {
			break
		}
		if lo == hi {
			start = r.copyAfterEmptyMatch(line, hi)
		}
		r.p.Tick(1)
		if start > len(line) || !re.Match(line, start, caps, r.p) {
			break
		}
	}
	if !replaced {
		return false
	}
	if start < len(line) {
		r.next.add(r.p, line[start:])
	}
	r.swap()
	return true
}

// copyAfterEmptyMatch copies the character after an empty match and returns its end.
func (r *sedRun) copyAfterEmptyMatch(line []byte, at int) int {
	if at >= len(line) {
		return at + 1
	}
	w := 1
	if !r.bytes {
		_, w = utf8.DecodeRune(line[at:])
	}
	r.next.add(r.p, line[at:at+w])
	return at + w
}

// appendReplacement appends the replacement of one match to the result.
func (r *sedRun) appendReplacement(sub *sedSubst, line []byte, caps []int) {
	if sub.literal {
		for i := range sub.parts {
			part := &sub.parts[i]
			switch {
			case part.group < 0:
				r.next.add(r.p, part.text)
			case caps[2*part.group] >= 0:
				r.next.add(r.p, line[caps[2*part.group]:caps[2*part.group+1]])
			}
		}
		return
	}
	mode, once := sedKeep, sedKeep
	for i := range sub.parts {
		part := &sub.parts[i]
		text := part.text
		if part.group >= 0 && caps[2*part.group] >= 0 {
			text = line[caps[2*part.group]:caps[2*part.group+1]]
		}
		switch part.turn {
		case sedKeep:
			once = r.appendWithCase(text, mode, once)
		case sedUpper, sedLower:
			mode, once = part.turn, sedKeep
		case sedEndCase:
			mode, once = sedKeep, sedKeep
		default:
			once = part.turn
		}
	}
}

// appendWithCase appends text with its case changed. It returns the change that still applies to
// one character.
func (r *sedRun) appendWithCase(text []byte, mode, once sedCase) sedCase {
	if len(text) == 0 {
		return once
	}
	if once != sedKeep {
		_, w := utf8.DecodeRune(text)
		first := bytes.ToUpper(text[:w])
		if once == sedLowerOne {
			first = bytes.ToLower(text[:w])
		}
		r.next.add(r.p, first)
		text = text[w:]
	}
	switch mode {
	case sedUpper:
		text = bytes.Map(unicode.ToUpper, text)
	case sedLower:
		text = bytes.Map(unicode.ToLower, text)
	}
	r.next.add(r.p, text)
	return sedKeep
}

// swap exchanges the pattern space and the result.
func (r *sedRun) swap() {
	r.next.ended = r.space.ended
	r.space, r.next = r.next, r.space
}

// transliterate executes y on the pattern space.
func (r *sedRun) transliterate(cmd *sedCommand) {
	if cmd.bytes != nil {
		r.space.copyBorrowed(r.p)
		for i, c := range r.space.b {
			r.space.b[i] = cmd.bytes[c]
		}
		r.p.Tick(1 + len(r.space.b)>>4)
		return
	}
	r.next.reset()
	line := r.space.b
	for i := 0; i < len(line); {
		if i%4096 == 0 {
			r.p.Tick(64)
		}
		c, w := utf8.DecodeRune(line[i:])
		if c == utf8.RuneError && w == 1 {
			c = rune(line[i]) - 0x100
		}
		to, ok := cmd.table[c]
		switch {
		case !ok:
			r.next.add(r.p, line[i:i+w])
		case to < 0:
			r.next.addByte(r.p, byte(to+0x100))
		default:
			var b [utf8.UTFMax]byte
			r.next.add(r.p, utf8.AppendRune(b[:0], to))
		}
		i += w
	}
	r.swap()
}

// newByteTable returns the table of a y command as bytes, or nil if it changes more than ASCII.
func newByteTable(table map[rune]rune) *[256]byte {
	var t [256]byte
	for i := range t {
		t[i] = byte(i)
	}
	for from, to := range table {
		if from < 0 || from >= utf8.RuneSelf || to < 0 || to >= utf8.RuneSelf {
			return nil
		}
		t[from] = byte(to)
	}
	return &t
}
