package text

import (
	"slices"
	"strings"
)

// substitute runs the command s.
func (e *editor) substitute(c *cursor, from, to int) error {
	if err := needLines(from); err != nil {
		return err
	}
	delim := c.peek()
	if delim == 0 || strings.IndexByte("gpr0123456789", delim) >= 0 {
		if !e.substituted {
			return editError("No previous substitution")
		}
		return e.applySubstitution(c, from, to)
	}
	if delim == ' ' || delim == '\n' {
		return editError("Invalid pattern delimiter")
	}
	re, err := e.readPattern(c, delim)
	if err != nil {
		return err
	}
	text, rest, closed := cutReplacement(c.text, delim)
	for !closed && strings.HasSuffix(text, "\\") {
		line, ok := e.readLine()
		if !ok {
			break
		}
		var more string
		e.p.Alloc(int64(len(line)))
		more, rest, closed = cutReplacement(line, delim)
		text += "\n" + more
	}
	c.text = rest
	if text != "%" {
		e.replacement = text
	}
	e.pattern, e.substituted, e.replaceAll, e.replaceNth = re, true, false, 1
	if !closed && rest == "" {
		c.text = "p"
	}
	return e.applySubstitution(c, from, to)
}

// cutReplacement cuts a replacement at its delimiter; escapes stay.
func cutReplacement(text string, delim byte) (before, after string, closed bool) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
			continue
		}
		if text[i] == delim {
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

func (e *editor) applySubstitution(c *cursor, from, to int) error {
	for {
		if n, ok := c.number(); ok {
			if n < 1 {
				return errSuffix
			}
			e.replaceNth, e.replaceAll = n, false
			continue
		}
		if c.peek() != 'g' && c.peek() != 'r' {
			break
		}
		if c.peek() == 'g' {
			e.replaceAll = true
		}
		c.text = c.text[1:]
	}
	s, err := e.suffix(c)
	if err != nil {
		return err
	}
	if !e.substituteLines(from, to) {
		if e.global {
			return nil
		}
		return errNoMatch
	}
	e.printSuffix(s)
	return nil
}

// substituteLines replaces the matches in lines, and reports whether there are any. The last line that changed is the
// current one.
func (e *editor) substituteLines(from, to int) bool {
	var list []*string // the new lines from the first that changed
	start, at := 0, 0
	for i := from; i <= to; i++ {
		text, ok := e.replaceIn(*e.lines[i-1])
		if !ok {
			if start > 0 {
				list = append(list, e.lines[i-1])
			}
			continue
		}
		if start == 0 {
			start = i
		}
		for part := range strings.SplitSeq(text, "\n") {
			e.charge(edLineCost)
			list = append(list, &part)
		}
		at = start + len(list) - 1
	}
	if start == 0 {
		return false
	}
	e.change()
	e.p.Tick((len(e.lines) - start + len(list)) >> 4)
	e.lines, e.at = slices.Replace(e.lines, start-1, to, list...), at
	return true
}

// replaceIn replaces the matches in a line.
func (e *editor) replaceIn(line string) (string, bool) {
	src := []byte(line)
	caps := make([]int, 20)
	b := &edBuilder{e: e}
	defer b.release()
	from, count, done := 0, 0, false
	for from <= len(src) && e.pattern.Match(src, from, caps, e.p) {
		e.p.Tick(1)
		count++
		start, end := caps[0], caps[1]
		if count >= e.replaceNth && (e.replaceAll || !done) {
			b.add(line[from:start])
			e.appendReplacement(b, line, caps)
			done = true
		} else {
			b.add(line[from:end])
		}
		if from = end; start == end {
			if end < len(src) {
				b.add(line[end : end+1])
			}
			from++
		}
		if done && !e.replaceAll {
			break
		}
	}
	if !done {
		return "", false
	}
	if from < len(src) {
		b.add(line[from:])
	}
	e.charge(int64(len(b.b)))
	return string(b.b), true
}

// edBuilder collects a line, charged before it grows.
type edBuilder struct {
	e *editor
	b []byte
}

func (b *edBuilder) add(text string) {
	if need := len(b.b) + len(text); need > cap(b.b) {
		was, size := cap(b.b), max(2*cap(b.b), need, 64)
		b.e.p.Alloc(int64(size))
		b.b = append(make([]byte, 0, size), b.b...)
		b.e.p.Free(int64(was))
	}
	b.b = append(b.b, text...)
}

func (b *edBuilder) release() { b.e.p.Free(int64(cap(b.b))) }

func (e *editor) appendReplacement(b *edBuilder, line string, caps []int) {
	group := func(n int) {
		if 2*n+1 < len(caps) && caps[2*n] >= 0 {
			b.add(line[caps[2*n]:caps[2*n+1]])
		}
	}
	for i := 0; i < len(e.replacement); i++ {
		switch c := e.replacement[i]; {
		case c == '&':
			group(0)
		case c == '\\' && i+1 < len(e.replacement):
			i++
			if n := e.replacement[i]; n >= '1' && n <= '9' {
				group(int(n - '0'))
			} else {
				b.add(e.replacement[i : i+1])
			}
		default:
			b.add(e.replacement[i : i+1])
		}
	}
}

// runGlobal runs commands for the lines that match a pattern, or that do not.
func (e *editor) runGlobal(c *cursor, from, to int, want bool) error {
	delim := c.peek()
	if delim == 0 || delim == ' ' {
		return editError("Invalid pattern delimiter")
	}
	re, err := e.readPattern(c, delim)
	if err != nil {
		return err
	}
	list := []string{c.text}
	for strings.HasSuffix(list[len(list)-1], "\\") {
		list[len(list)-1] = strings.TrimSuffix(list[len(list)-1], "\\")
		line, ok := e.readLine()
		if !ok {
			break
		}
		e.p.Alloc(int64(len(line)))
		list = append(list, line)
	}
	if len(list) == 1 && strings.TrimSpace(list[0]) == "" {
		list[0] = "p"
	}
	var marked []*string
	for i := max(from, 1); i <= to; i++ {
		e.p.Tick(1)
		if re.Match([]byte(*e.lines[i-1]), 0, nil, e.p) == want {
			e.p.Alloc(8)
			marked = append(marked, e.lines[i-1])
		}
	}
	e.global = true
	defer func() { e.global, e.pending = false, nil }()
	for _, line := range marked {
		n := e.indexOf(line)
		if n == 0 {
			continue
		}
		e.at = n
		for e.pending = list; len(e.pending) > 0 && !e.quit; {
			text, _ := e.readLine()
			if err := e.runLine(text, true); err != nil {
				return err
			}
			e.recount()
		}
	}
	return nil
}
