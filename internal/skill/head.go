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

// faults collects what is wrong with a file.
type faults struct {
	file string
	list []Problem
}

func (f *faults) add(line int, field, format string, args ...any) {
	f.list = append(f.list, Problem{File: f.file, Line: line, Field: field, Text: fmt.Sprintf(format, args...)})
}

func (f *faults) fatal(line int, field, format string, args ...any) {
	f.add(line, field, format, args...)
	f.list[len(f.list)-1].Fatal = true
}

// split returns the YAML at the head of a SKILL.md, with the line that opens it
// left empty so that lines count, and what follows it.
func split(b []byte, f *faults) (head, body []byte, ok bool) {
	if !utf8.Valid(b) {
		f.fatal(0, "", "it is not UTF-8 text")
		return nil, nil, false
	}
	if rest, found := bytes.CutPrefix(b, []byte("\uFEFF")); found {
		f.add(1, "", "it begins with a byte order mark: save it as UTF-8 without one")
		b = rest
	}
	first, rest, _ := bytes.Cut(b, []byte("\n"))
	if string(bytes.TrimRight(first, " \t\r")) != "---" {
		f.fatal(1, "", "it must begin with a line --- and the YAML that says name and description")
		return nil, nil, false
	}
	for at := 0; at < len(rest); {
		line, next := rest[at:], len(rest)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line, next = line[:i], at+i+1
		}
		if string(bytes.TrimRight(line, " \t\r")) == "---" {
			if at > maxHead {
				f.fatal(1, "", "its head has %d bytes: at most %d are read", at, maxHead)
				return nil, nil, false
			}
			return append([]byte("\n"), rest[:at]...), bytes.TrimSpace(rest[next:]), true
		}
		at = next
	}
	f.fatal(1, "", "the line --- that ends the YAML at its head is missing")
	return nil, nil, false
}

// parse returns the mapping of a head. With lenient, values that are no YAML for
// a colon in them are taken as text.
func parse(head []byte, f *faults, lenient bool) *yaml.Node {
	n, line, why := document(head)
	if n == nil && lenient {
		if again, _, _ := document(quoted(head)); again != nil {
			f.add(line, "", "it is no YAML (%s): text with a colon stands in quotes", why)
			n = again
		}
	}
	switch {
	case n == nil:
		f.fatal(line, "", "it is no YAML: %s", why)
		return nil
	case n.Kind != yaml.MappingNode:
		f.fatal(n.Line, "", "its head must be a mapping, as in \"name: my-skill\"")
		return nil
	}
	return n
}

// document reads the one document of a head; nil: why there is none, and where.
func document(b []byte) (n *yaml.Node, line int, why string) {
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

// quoted puts quotes around the values of a head that have none.
func quoted(head []byte) []byte {
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

// plainYAML tells of what the format's YAML does not have: it is a subset in
// which everything is a text.
func plainYAML(n *yaml.Node, f *faults) {
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
		plainYAML(c, f)
	}
}
