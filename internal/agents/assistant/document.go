package assistant

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
)

// Problem is an error in a file of an assistant.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"` // from 1; 0: the whole file
	Column int    `json:"column,omitempty"`
	Field  string `json:"field,omitempty"` // "sandbox.max_memory"
	Text   string `json:"text"`            // what is wrong, and what would be right
}

func (p *Problem) Error() string {
	if p.File == "" {
		return p.Text
	}
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Line > 0 && p.Column > 0 {
		fmt.Fprintf(&b, ":%d", p.Column)
	}
	if p.Field != "" {
		b.WriteString(": " + p.Field)
	}
	b.WriteString(": " + p.Text)
	return b.String()
}

// Unwrap returns ErrInvalid.
func (p *Problem) Unwrap() error { return atoll.ErrInvalid }

// Limits of a document.
const (
	maxDocument = 1 << 20 // bytes
	maxNodes    = 50_000  // values, including those repeated by aliases
	maxDepth    = 50
)

// kind is the type of a value, as error messages name it.
type kind string

const (
	anObject kind = "an object"
	aList    kind = "a list"
	aText    kind = "text"
	aNumber  kind = "a number"
	aFlag    kind = "true or false"
	aNull    kind = "null"
)

// node is a value in a document and its position.
type node struct {
	kind         kind
	line, column int
	text         string // of text, numbers and flags
	list         []*node
	fields       []field
}

type field struct {
	name         string
	line, column int
	value        *node
}

// toPlain returns the value in the types of encoding/json.
func (n *node) toPlain() any {
	switch n.kind {
	case anObject:
		m := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			m[f.name] = f.value.toPlain()
		}
		return m
	case aList:
		l := make([]any, len(n.list))
		for i, e := range n.list {
			l[i] = e.toPlain()
		}
		return l
	case aNumber:
		f, _ := n.parseNumber() // checked when it was read
		return f
	case aFlag:
		return n.text == "true"
	case aNull:
		return nil
	}
	return n.text
}

func (n *node) parseNumber() (float64, bool) {
	if i, err := strconv.ParseInt(strings.ReplaceAll(n.text, "_", ""), 0, 64); err == nil {
		return float64(i), true
	}
	f, err := strconv.ParseFloat(n.text, 64)
	return f, err == nil
}

// readDocument reads a file as JSON with comments, if its name ends in .yao, .json or
// .jsonc, else as YAML. An empty document is an object without fields.
func readDocument(fsys fs.FS, name, shown string) (*node, error) {
	b, err := readWhole(fsys, name)
	if err != nil {
		var p *Problem
		if errors.As(err, &p) {
			p.File = shown
		}
		return nil, err
	}
	return parseDocument(b, name, shown)
}

func parseDocument(b []byte, name, shown string) (n *node, err error) {
	switch path.Ext(name) {
	case ".yao", ".json", ".jsonc":
		n, err = parseJSON(b)
	default:
		n, err = parseYAML(b)
	}
	var p *Problem
	if errors.As(err, &p) {
		p.File = shown
	}
	return n, err
}

func readWhole(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // errors do not matter after reading
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &Problem{Text: "it is not a file"}
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(b) > maxDocument {
		err = &Problem{Text: fmt.Sprintf("more than %d KiB are too much", maxDocument>>10)}
	}
	return b, err
}

// lineStarts are the offsets of the lines of a file.
type lineStarts []int

func linesOf(b []byte) lineStarts {
	l := lineStarts{0}
	for i, c := range b {
		if c == '\n' {
			l = append(l, i+1)
		}
	}
	return l
}

func (l lineStarts) position(offset int) (line, column int) {
	i := sort.SearchInts(l, offset+1)
	return i, offset - l[i-1] + 1
}

func parseJSON(b []byte) (*node, error) {
	if line, column := findTooDeep(b); line > 0 {
		return nil, &Problem{Line: line, Column: column, Text: fmt.Sprintf("nested more than %d deep", maxDepth)}
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	v, err := hujson.Parse(b)
	if err != nil {
		p := &Problem{Text: err.Error()}
		if n, serr := fmt.Sscanf(p.Text, "hujson: line %d, column %d:", &p.Line, &p.Column); n == 2 && serr == nil {
			_, p.Text, _ = strings.Cut(p.Text, ": ")
			_, p.Text, _ = strings.Cut(p.Text, ": ")
		}
		return nil, p
	}
	return jsonNode(&v, linesOf(b)), nil
}

// findTooDeep returns the position of a bracket that is nested too deep, outside of
// strings and comments; 0: there is none.
func findTooDeep(b []byte) (line, column int) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(b) && b[i+1] == '/':
			for i < len(b) && b[i] != '\n' {
				i++
			}
		case c == '/' && i+1 < len(b) && b[i+1] == '*':
			end := bytes.Index(b[i+2:], []byte("*/"))
			if end < 0 {
				return 0, 0 // the parser reports it
			}
			i += end + 3
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return linesOf(b).position(i)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return 0, 0
}

func jsonNode(v *hujson.Value, at lineStarts) *node {
	n := &node{}
	n.line, n.column = at.position(v.StartOffset)
	switch t := v.Value.(type) {
	case *hujson.Object:
		n.kind = anObject
		for i := range t.Members {
			m := &t.Members[i]
			f := field{value: jsonNode(&m.Value, at)}
			f.line, f.column = at.position(m.Name.StartOffset)
			if l, ok := m.Name.Value.(hujson.Literal); ok {
				f.name = l.String()
			}
			n.fields = append(n.fields, f)
		}
	case *hujson.Array:
		n.kind = aList
		for i := range t.Elements {
			n.list = append(n.list, jsonNode(&t.Elements[i], at))
		}
	case hujson.Literal:
		switch t.Kind() {
		case '"':
			n.kind, n.text = aText, t.String()
		case '0':
			n.kind, n.text = aNumber, string(t)
		case 't', 'f':
			n.kind, n.text = aFlag, string(t)
		default:
			n.kind = aNull
		}
	}
	return n
}

func parseYAML(b []byte) (*node, error) {
	l, err := yaml.NewLoader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	var doc, more yaml.Node
	err = l.Load(&doc)
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return &node{kind: anObject, line: 1, column: 1}, nil
	}
	if err == nil {
		if err = l.Load(&more); err == nil {
			return nil, &Problem{Line: more.Line, Text: "a second document begins here: there must be one"}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	var le *yaml.LoadError
	if errors.As(err, &le) {
		text := le.Message
		if le.ContextMsg != "" {
			text = le.ContextMsg + ": " + text
		}
		return nil, &Problem{Line: le.Mark.Line, Column: le.Mark.Column, Text: text}
	}
	if err != nil {
		return nil, &Problem{Text: err.Error()}
	}
	count := 0
	return yamlNode(doc.Content[0], 0, &count)
}

// yamlNode converts a YAML node; it counts the values that aliases repeat.
func yamlNode(y *yaml.Node, depth int, count *int) (*node, error) {
	if *count++; *count > maxNodes || depth > maxDepth {
		return nil, &Problem{Line: y.Line, Column: y.Column, Text: fmt.Sprintf("more than %d values, or nested more than %d deep", maxNodes, maxDepth)}
	}
	n := &node{line: y.Line, column: y.Column, text: y.Value}
	switch y.Kind {
	case yaml.AliasNode:
		return yamlNode(y.Alias, depth+1, count)
	case yaml.SequenceNode:
		n.kind = aList
		for _, c := range y.Content {
			e, err := yamlNode(c, depth+1, count)
			if err != nil {
				return nil, err
			}
			n.list = append(n.list, e)
		}
	case yaml.MappingNode:
		n.kind = anObject
		for i := 0; i+1 < len(y.Content); i += 2 {
			k := y.Content[i]
			if k.Kind != yaml.ScalarNode {
				return nil, &Problem{Line: k.Line, Column: k.Column, Text: "a field's name must be a word"}
			}
			v, err := yamlNode(y.Content[i+1], depth+1, count)
			if err != nil {
				return nil, err
			}
			n.fields = append(n.fields, field{k.Value, k.Line, k.Column, v})
		}
	default:
		n.kind = scalarKind(y)
		if n.kind == aFlag {
			n.text = strings.ToLower(n.text)
		}
		if _, ok := n.parseNumber(); n.kind == aNumber && !ok {
			n.kind = aText
		}
	}
	return n, nil
}

func scalarKind(y *yaml.Node) kind {
	switch y.ShortTag() {
	case "!!int", "!!float":
		return aNumber
	case "!!bool":
		return aFlag
	case "!!null":
		return aNull
	}
	return aText
}
