package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// problemList collects the faults of a file.
type problemList struct {
	file string
	list []Problem
}

func (f *problemList) add(line int, field, format string, args ...any) {
	f.list = append(f.list, Problem{File: f.file, Line: line, Field: field, Text: fmt.Sprintf(format, args...)})
}

func (f *problemList) addFatal(line int, field, format string, args ...any) {
	f.add(line, field, format, args...)
	f.list[len(f.list)-1].Fatal = true
}

// splitHead returns the YAML at the head of a SKILL.md and the text after it. The
// opening line is replaced by an empty one, so that line numbers remain right.
func splitHead(b []byte, f *problemList) (head, body []byte, ok bool) {
	if !utf8.Valid(b) {
		f.addFatal(0, "", "it is not UTF-8 text")
		return nil, nil, false
	}
	if rest, found := bytes.CutPrefix(b, []byte("\uFEFF")); found {
		f.add(1, "", "it begins with a byte order mark: save it as UTF-8 without one")
		b = rest
	}
	first, rest, _ := bytes.Cut(b, []byte("\n"))
	if string(bytes.TrimRight(first, " \t\r")) != "---" {
		f.addFatal(1, "", "it must begin with a line --- and the YAML with name and description")
		return nil, nil, false
	}
	for at := 0; at < len(rest); {
		line, next := rest[at:], len(rest)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line, next = line[:i], at+i+1
		}
		if string(bytes.TrimRight(line, " \t\r")) == "---" {
			if at > maxHead {
				f.addFatal(1, "", "its head has %d bytes: at most %d are read", at, maxHead)
				return nil, nil, false
			}
			return append([]byte("\n"), rest[:at]...), bytes.TrimSpace(rest[next:]), true
		}
		at = next
	}
	f.addFatal(1, "", "the line --- that ends the YAML at its head is missing")
	return nil, nil, false
}

// parseHead returns the mapping of a head. With lenient, values that are invalid
// YAML because of a colon are read as text.
func parseHead(head []byte, f *problemList, lenient bool) *yaml.Node {
	n, line, why := parseYAML(head)
	if n == nil && lenient {
		if again, _, _ := parseYAML(quoteValues(head)); again != nil {
			f.add(line, "", "it is not valid YAML (%s): put text with a colon in quotes", why)
			n = again
		}
	}
	switch {
	case n == nil:
		f.addFatal(line, "", "it is not valid YAML: %s", why)
		return nil
	case n.Kind != yaml.MappingNode:
		f.addFatal(n.Line, "", "its head must be a mapping, as in \"name: my-skill\"")
		return nil
	}
	return n
}

// parseYAML returns the only document of a head; nil, the line and the cause if
// there is none.
func parseYAML(b []byte) (n *yaml.Node, line int, why string) {
	l, err := yaml.NewLoader(bytes.NewReader(b))
	if err != nil {
		return nil, 0, err.Error()
	}
	var doc, more yaml.Node
	if err = l.Load(&doc); errors.Is(err, io.EOF) {
		return nil, 1, "it is empty"
	}
	if err == nil {
		if err = l.Load(&more); err == nil {
			return nil, more.Line, "a second document begins here"
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	var le *yaml.LoadError
	switch {
	case errors.As(err, &le):
		return nil, le.Mark.Line, le.Message
	case err != nil:
		return nil, 1, err.Error()
	case len(doc.Content) == 0:
		return nil, 1, "it is empty"
	}
	return doc.Content[0], 0, ""
}

var plainField = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*):[ \t]+([^"'|>&*!\[{#\s].*)$`)

// quoteValues puts quotes around the unquoted values of a head.
func quoteValues(head []byte) []byte {
	lines := strings.Split(string(head), "\n")
	for i, l := range lines {
		m := plainField.FindStringSubmatch(strings.TrimRight(l, " \t\r"))
		if m == nil {
			continue
		}
		if b, err := json.Marshal(m[2]); err == nil {
			lines[i] = m[1] + ": " + string(b)
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// checkPlainYAML reports constructs outside the format's subset of YAML, in which
// every value is text.
func checkPlainYAML(n *yaml.Node, f *problemList) {
	switch {
	case n.Kind == yaml.AliasNode:
		f.add(n.Line, "", "*%s: aliases are not allowed", n.Value)
		return
	case n.Anchor != "":
		f.add(n.Line, "", "&%s: anchors are not allowed", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0:
		f.add(n.Line, "", "%s: tags are not allowed", n.Tag)
	}
	if n.Kind != yaml.ScalarNode && n.Style&yaml.FlowStyle != 0 {
		f.add(n.Line, "", "{} and [] are not allowed: write each entry on a line of its own")
	}
	for _, c := range n.Content {
		checkPlainYAML(c, f)
	}
}
