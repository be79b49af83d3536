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
		c.p.Tick(len(b) >> 4)
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
	body, trailers, rest := splitTrailers(message, !c.has("--no-divider"))
	if c.has("--parse", "--only-input") {
		return strings.Join(unfoldTrailers(trailers), ""), nil
	}
	for _, option := range c.values["--trailer"] {
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
	if c.has("--only-trailers") {
		if c.has("--unfold") {
			trailers = unfoldTrailers(trailers)
		}
		return strings.Join(trailers, ""), nil
	}
	if body != "" && !strings.HasSuffix(body, "\n") {
		body += "\n"
	}
	if len(trailers) > 0 && body != "" && !strings.HasSuffix(body, "\n\n") && body != "\n" {
		body += "\n"
	}
	if body == "" {
		body = "\n"
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
func splitTrailers(message string, divided bool) (body string, trailers []string, rest string) {
	end := len(message)
	if i := strings.Index("\n"+message, "\n---"); divided && i >= 0 && (strings.HasPrefix(message[i:], "---\n") || strings.HasPrefix(message[i:], "--- ")) {
		end = i
	}
	message, rest = message[:end], message[end:]
	lines := slices.Collect(strings.Lines(message))
	last := len(lines)
	for last > 0 && (strings.TrimSpace(lines[last-1]) == "" || lines[last-1][0] == '#') {
		last--
	}
	first, known, other := last, 0, 0
	for first > 0 && strings.TrimSpace(lines[first-1]) != "" {
		first--
		line := lines[first]
		switch {
		case line[0] == '#' || line[0] == ' ' || line[0] == '\t': // of the line before it
		case isTrailer(line):
			known++
		default:
			other++
		}
	}
	generated := slices.ContainsFunc(lines[first:last], func(line string) bool {
		return strings.HasPrefix(line, "Signed-off-by: ") || strings.HasPrefix(line, "(cherry picked from commit ")
	})
	if first == 0 || known == 0 && !generated || other > 0 && !(generated && 3*known >= other) {
		return strings.Join(lines[:last], ""), nil, strings.Join(lines[last:], "") + rest
	}
	for _, line := range lines[first:last] {
		if n := len(trailers); n > 0 && (line[0] == ' ' || line[0] == '\t') {
			trailers[n-1] += line
		} else if line[0] != '#' {
			trailers = append(trailers, line)
		}
	}
	return strings.Join(lines[:first], ""), trailers, strings.Join(lines[last:], "") + rest
}

// isTrailer reports whether a line has the form KEY: VALUE.
func isTrailer(line string) bool {
	key, _, ok := strings.Cut(line, ":")
	key = strings.TrimRight(key, " \t")
	return ok && key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}

// unfoldTrailers returns trailers of several lines as one line each, without lines that are none.
func unfoldTrailers(trailers []string) []string {
	var list []string
	for _, line := range trailers {
		if !isTrailer(line) {
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		list = append(list, strings.TrimSpace(key)+": "+strings.Join(strings.Fields(value), " ")+"\n")
	}
	return list
}
