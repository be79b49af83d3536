package text

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// cursor reads a command.
type cursor struct{ text string }

func (c *cursor) peek() byte {
	if c.text == "" {
		return 0
	}
	return c.text[0]
}

func (c *cursor) skip() { c.text = strings.TrimLeft(c.text, " \t") }

func (c *cursor) number() (int, bool) {
	n := len(c.text) - len(strings.TrimLeft(c.text, "0123456789"))
	if n == 0 {
		return 0, false
	}
	v, err := strconv.Atoi(c.text[:n])
	c.text = c.text[n:]
	return v, err == nil
}

// address reads one address; ok is false if there is none.
func (e *editor) address(c *cursor) (n int, ok bool, err error) {
	c.skip()
	n = e.at
	switch b := c.peek(); {
	case b >= '0' && b <= '9':
		n, _ = c.number()
		ok = true
	case b == '.':
		c.text, ok = c.text[1:], true
	case b == '$':
		c.text, n, ok = c.text[1:], len(e.lines), true
	case b == '\'':
		if len(c.text) < 2 {
			return 0, false, editError("Invalid mark character")
		}
		mark := e.marks[c.text[1]]
		c.text, ok = c.text[2:], true
		if n = e.indexOf(mark); n == 0 {
			return 0, false, errAddress
		}
	case b == '/' || b == '?':
		re, err := e.readPattern(c, b)
		if err != nil {
			return 0, false, err
		}
		if n, err = e.search(re, b == '/'); err != nil {
			return 0, false, err
		}
		ok = true
	}
	for {
		c.skip()
		b := c.peek()
		if v, isNumber := c.number(); isNumber {
			n, ok = n+v, true
			continue
		}
		if b != '+' && b != '-' && b != '^' {
			return n, ok, nil
		}
		c.text, ok = c.text[1:], true
		step := 1
		if v, isNumber := c.number(); isNumber {
			step = v
		}
		if b != '+' {
			step = -step
		}
		n += step
	}
}

func (e *editor) indexOf(line *string) int {
	if line == nil {
		return 0
	}
	n := len(e.lines)
	for k := range n {
		i := (max(e.at-1, 0) + k) % n // a global command mostly asks for one of the next lines
		if e.lines[i] == line {
			e.p.Tick(k >> 4)
			return i + 1
		}
	}
	e.p.Tick(n >> 4)
	return 0
}

// readPattern reads a pattern up to its delimiter, and compiles it; an empty one is the last.
func (e *editor) readPattern(c *cursor, delim byte) (*regex.Regexp, error) {
	text, rest, _ := cutDelimited(c.text[1:], delim)
	c.text = rest
	if text == "" {
		if e.pattern == nil {
			return nil, editError("No previous pattern")
		}
		return e.pattern, nil
	}
	if e.pattern != nil && text == e.patternText {
		return e.pattern, nil
	}
	o := regex.Options{Syntax: regex.BRE, Budget: e.p}
	if e.extended {
		o.Syntax = regex.ERE
	}
	re, err := regex.Compile(text, o)
	if err != nil {
		return nil, editError(err.Error())
	}
	e.pattern, e.patternText = re, text
	return re, nil
}

// cutDelimited cuts at a delimiter that no backslash precedes and that is not in brackets.
func cutDelimited(text string, delim byte) (before, after string, found bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			if text[i+1] != delim || delim == '&' {
				b.WriteByte('\\')
			}
			i++
			b.WriteByte(text[i])
			continue
		case text[i] == '[' && delim != ']':
			if end := bracketEnd(text[i:]); end > 0 {
				b.WriteString(text[i : i+end+1])
				i += end
				continue
			}
		case text[i] == delim:
			return b.String(), text[i+1:], true
		}
		b.WriteByte(text[i])
	}
	return b.String(), "", false
}

// bracketEnd returns the index of the end of a bracket expression, or -1.
func bracketEnd(text string) int {
	i := 1
	if i < len(text) && text[i] == '^' {
		i++
	}
	if i < len(text) && text[i] == ']' {
		i++
	}
	for ; i < len(text); i++ {
		if text[i] == '[' && i+1 < len(text) && strings.IndexByte(":.=", text[i+1]) >= 0 {
			if end := strings.Index(text[i+2:], text[i+1:i+2]+"]"); end >= 0 {
				i += end + 3
				continue
			}
		}
		if text[i] == ']' {
			return i
		}
	}
	return -1
}

// search returns the next line that matches, forward or backward, around the end.
func (e *editor) search(re *regex.Regexp, forward bool) (int, error) {
	n := len(e.lines)
	for k := range n {
		i := (e.at + k) % n // from the line after the current one
		if !forward {
			i = ((e.at-2-k)%n + n) % n
		}
		e.p.Tick(1)
		if re.Match([]byte(*e.lines[i]), 0, nil, e.p) {
			return i + 1, nil
		}
	}
	return 0, errNoMatch
}

// addresses reads the addresses before a command: how many there are, and the range.
func (e *editor) addresses(c *cursor) (from, to, count int, err error) {
	from, to = e.at, e.at
	at := e.at
	defer func() { e.at = at }()
	for {
		n, ok, err := e.address(c)
		if err != nil {
			return 0, 0, 0, err
		}
		c.skip()
		sep := c.peek()
		if ok {
			from, to, count = to, n, count+1
			if count == 1 {
				from = n
			}
		}
		switch {
		case sep == ',' || sep == ';' || sep == '%':
			c.text = c.text[1:]
			if !ok && count == 0 {
				to, count = 1, 1
				if sep == ';' {
					to = at
				}
				from = to
				c.skip()
				next := &cursor{c.text}
				if _, more, _ := e.address(next); !more {
					from, to, count = to, len(e.lines), 2
					return from, to, count, e.checkRange(from, to)
				}
				continue
			}
			if sep == ';' {
				e.at = to
			}
			next := &cursor{c.text}
			if _, more, _ := e.address(next); !more {
				from, count = to, count+1
			}
			continue
		}
		if count >= 2 {
			count = 2
		}
		return from, to, count, e.checkRange(from, to)
	}
}

func (e *editor) checkRange(from, to int) error {
	if from < 0 || to > len(e.lines) || from > to {
		return errAddress
	}
	return nil
}
