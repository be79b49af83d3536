package git

import (
	"fmt"
	"slices"
	"strings"
)

// interpretTrailers is git interpret-trailers: it adds trailers to messages, or prints those that they have.
func (c *call) interpretTrailers() error {
	files := append(slices.Clone(c.args), c.paths...)
	if len(files) == 0 {
		if c.has("--in-place") {
			return newFatal("no input file given for in-place editing")
		}
		files = []string{"-"}
	}
	for _, name := range files {
		var b []byte
		var err error
		if name == "-" {
			b, err = c.p.ReadAll(c.p.Stdin)
		} else {
			b, err = c.p.ReadFile(name)
		}
		if err != nil {
			return newFatal("could not read input file '%s'", name)
		}
		text, err := c.changeTrailers(string(b))
		if err != nil {
			return err
		}
		if c.has("--in-place") && name != "-" {
			err = c.p.WriteFile(name, []byte(text), 0o644)
		} else {
			_, _ = fmt.Fprint(c.p.Out(), text) // Flush reports the error
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// changeTrailers returns a message with the trailers of the options, or only its trailers.
func (c *call) changeTrailers(message string) (string, error) {
	c.p.Alloc(2 * int64(len(message))) // for the parts and the result
	body, trailers, rest := c.splitTrailers(message, !c.has("--no-divider"))
	added := c.values["--trailer"]
	if c.has("--parse", "--only-input") {
		added = nil
	}
	for _, option := range added {
		if strings.TrimSpace(option) == "" {
			return "", newError("empty trailer token in trailer '%s'", option)
		}
		line := formatTrailer(option)
		if n := len(trailers); n == 0 || trailers[n-1] != line {
			c.p.Alloc(int64(len(line)) + 16)
			trailers = append(trailers, line)
		}
	}
	if c.has("--trim-empty") {
		trailers = slices.DeleteFunc(trailers, func(line string) bool {
			_, value, ok := strings.Cut(line, ":")
			return ok && strings.TrimSpace(value) == ""
		})
	}
	only := c.has("--only-trailers", "--parse")
	if c.has("--unfold", "--parse") {
		trailers = c.unfoldTrailers(trailers, only)
	}
	if only {
		trailers = slices.DeleteFunc(trailers, func(line string) bool { return !isTrailer(line) })
		return strings.Join(trailers, ""), nil
	}
	if at := strings.LastIndexByte(strings.TrimSuffix(body, "\n"), '\n') + 1; strings.TrimSpace(body[at:]) != "" || body == "" {
		body += "\n"
	}
	return body + strings.Join(trailers, "") + rest, nil
}

// formatTrailer returns the line of a trailer that was given as KEY=VALUE or KEY:VALUE.
func formatTrailer(option string) string {
	key, value := option, ""
	if i := strings.IndexAny(option, "=:"); i >= 0 {
		key, value = option[:i], option[i+1:]
	}
	return strings.TrimSpace(key) + ": " + strings.TrimSpace(value) + "\n"
}

// splitTrailers divides a message into what precedes its trailers, their lines, each with those that continue it, and
// what follows: comments and blank lines at the end and, with divided, what begins with a line of three dashes.
func (c *call) splitTrailers(message string, divided bool) (body string, trailers []string, rest string) {
	end := len(message)
	if divided {
		end = c.findDivider(message)
	}
	message, rest = message[:end], message[end:]
	last := len(message)
	for last > 0 {
		at := c.lineBefore(message, last)
		if line := message[at:last]; strings.TrimSpace(line) != "" && line[0] != '#' {
			break
		}
		last = at
	}
	first, ok := c.findTrailers(message[:last])
	if !ok {
		return message[:last], nil, message[last:] + rest
	}
	block := message[first:last]
	if strings.HasPrefix(block, "#") || strings.Contains(block, "\n#") {
		block = c.dropComments(block)
	}
	for len(block) > 0 {
		n := 0
		for n == 0 || n < len(block) && (block[n] == ' ' || block[n] == '\t') {
			line, _, _ := strings.Cut(block[n:], "\n")
			n = min(n+len(line)+1, len(block))
			c.p.Tick(1 + len(line)>>4)
		}
		line := block[:n]
		if isTrailer(line) {
			key, value, _ := strings.Cut(line, ":")
			if line = strings.TrimSpace(key) + ": " + strings.TrimSpace(value) + "\n"; line != block[:n] {
				c.p.Alloc(int64(n))
			} else {
				line = block[:n]
			}
		}
		c.p.Alloc(16)
		trailers, block = append(trailers, line), block[n:]
	}
	return message[:first], trailers, message[last:] + rest
}

// lineBefore returns where the line begins that ends at a place of a text.
func (c *call) lineBefore(text string, end int) int {
	at := strings.LastIndexByte(text[:end-1], '\n') + 1
	c.p.Tick(1 + (end-at)>>6)
	return at
}

// findDivider returns where the line of three dashes is that ends a message, or the end of the text.
func (c *call) findDivider(text string) int {
	for at := 0; at < len(text); {
		line, _, _ := strings.Cut(text[at:], "\n")
		c.p.Tick(1 + len(line)>>6)
		if rest, ok := strings.CutPrefix(line, "---"); ok && (at+3 == len(text) || rest == "" || strings.TrimLeft(rest[:1], " \t\r\v\f") == "") {
			return at
		}
		at += len(line) + 1
	}
	return len(text)
}

// findTrailers returns where the last paragraph of a message begins, and reports whether its lines are trailers: all of
// them, or a quarter of them if one is of git's own. The first paragraph has none.
func (c *call) findTrailers(message string) (first int, ok bool) {
	first = len(message)
	known, other, continued, own := 0, 0, 0, false
	for first > 0 {
		at := c.lineBefore(message, first)
		line := message[at:first]
		switch {
		case strings.TrimSpace(line) == "":
			return first, known > 0 && (other == 0 || own && 3*known >= other)
		case line[0] == '#':
			other, continued = other+continued, 0
		case strings.HasPrefix(line, "Signed-off-by: "), strings.HasPrefix(line, "(cherry picked from commit "):
			known, continued, own = known+1, 0, true
		case line[0] == ' ' || line[0] == '\t':
			continued++
		case isTrailer(line):
			known, continued = known+1, 0
		default:
			other, continued = other+continued+1, 0
		}
		first = at
	}
	return 0, false
}

// dropComments returns a text without the lines that begin with #.
func (c *call) dropComments(text string) string {
	c.p.Alloc(int64(len(text)))
	var b strings.Builder
	b.Grow(len(text))
	for line := range strings.Lines(text) {
		c.p.Tick(1 + len(line)>>6)
		if line[0] != '#' {
			b.WriteString(line)
		}
	}
	return b.String()
}

// isTrailer reports whether a line has the form KEY: VALUE.
func isTrailer(line string) bool {
	key, _, ok := strings.Cut(line, ":")
	key = strings.TrimRight(key, " \t")
	return ok && key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}

// unfoldTrailers returns trailers of several lines as one line each, with only without lines that are none.
func (c *call) unfoldTrailers(trailers []string, only bool) []string {
	list := trailers[:0]
	for _, line := range trailers {
		c.p.Tick(1 + len(line)>>4)
		if !isTrailer(line) {
			if !only {
				list = append(list, line)
			}
			continue
		}
		c.p.Alloc(int64(len(line)))
		key, value, _ := strings.Cut(line, ":")
		list = append(list, strings.TrimSpace(key)+": "+strings.Join(strings.Fields(value), " ")+"\n")
	}
	return list
}
