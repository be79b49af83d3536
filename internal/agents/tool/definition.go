package tool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
)

// node is a value of a file and its line, for both JSON with comments and YAML.
type node struct {
	line  int
	value any // nil, bool, string, number; []*node; *object
}

// number is the text of a number.
type number string

// object is the content of a mapping, in its order.
type object struct {
	names []string
	of    map[string]*node
}

// file is a file that is being decoded.
type file struct {
	name string
	env  func(string) (string, bool)
	errs []error
}

// addFault records a fault of a field.
func (f *file) addFault(n *node, field, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.line
	}
	f.errs = append(f.errs, &Problem{File: f.name, Line: line, Field: field, Text: fmt.Sprintf(format, args...)})
}

// Problem is an error in a file.
type Problem struct {
	File  string
	Line  int // 0: the whole file
	Field string
	Text  string
}

func (e *Problem) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	return b.String() + e.Text
}

// parse parses a file's only value. It returns nil after a fault.
func (f *file) parse(b []byte) *node {
	if strings.HasSuffix(f.name, ".yaml") || strings.HasSuffix(f.name, ".yml") {
		return f.parseYAML(b)
	}
	if err := CheckDepth(b); err != nil {
		f.errs = append(f.errs, &Problem{File: f.name, Text: "it " + err.Error()})
		return nil
	}
	v, err := hujson.Parse(b)
	if err != nil {
		f.errs = append(f.errs, &Problem{File: f.name, Text: "it is not valid JSON: " + err.Error()})
		return nil
	}
	return f.fromJSON(&v, b)
}

func (f *file) fromJSON(v *hujson.Value, b []byte) *node {
	n := &node{line: 1 + bytes.Count(b[:min(v.StartOffset, len(b))], []byte("\n"))}
	switch w := v.Value.(type) {
	case *hujson.Object:
		o := &object{of: make(map[string]*node)}
		for i := range w.Members {
			name, _ := w.Members[i].Name.Value.(hujson.Literal) // guaranteed by the parser
			child := f.fromJSON(&w.Members[i].Value, b)
			f.put(o, name.String(), child)
		}
		n.value = o
	case *hujson.Array:
		list := make([]*node, len(w.Elements))
		for i := range w.Elements {
			list[i] = f.fromJSON(&w.Elements[i], b)
		}
		n.value = list
	case hujson.Literal:
		switch w.Kind() {
		case '"':
			n.value = w.String()
		case '0':
			n.value = number(w)
		case 't', 'f':
			n.value = w.Bool()
		}
	}
	return n
}

func (f *file) put(o *object, name string, child *node) {
	if first, twice := o.of[name]; twice {
		f.addFault(child, name, "is set already in line %d", first.line)
		return
	}
	o.names = append(o.names, name)
	o.of[name] = child
}

func (f *file) parseYAML(b []byte) *node {
	l, err := yaml.NewLoader(bytes.NewReader(b))
	var doc, more yaml.Node
	if err == nil {
		err = l.Load(&doc)
	}
	if err == nil {
		if err = l.Load(&more); err == nil {
			err = &yaml.LoadError{Mark: yaml.Mark{Line: more.Line}, Message: "a second document begins here"}
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	var le *yaml.LoadError
	switch {
	case errors.As(err, &le):
		f.errs = append(f.errs, &Problem{File: f.name, Line: le.Mark.Line, Text: "it is not valid YAML: " + le.Message})
		return nil
	case err != nil || len(doc.Content) == 0:
		f.errs = append(f.errs, &Problem{File: f.name, Text: "it is empty, or no YAML"})
		return nil
	}
	return f.fromYAML(doc.Content[0])
}

func (f *file) fromYAML(y *yaml.Node) *node {
	n := &node{line: y.Line}
	switch y.Kind {
	case yaml.MappingNode:
		o := &object{of: make(map[string]*node)}
		for i := 0; i+1 < len(y.Content); i += 2 {
			f.put(o, y.Content[i].Value, f.fromYAML(y.Content[i+1]))
		}
		n.value = o
	case yaml.SequenceNode:
		list := make([]*node, len(y.Content))
		for i, c := range y.Content {
			list[i] = f.fromYAML(c)
		}
		n.value = list
	case yaml.AliasNode:
		f.addFault(n, "", "*%s: aliases are not supported: repeat the value", y.Value)
	case yaml.ScalarNode:
		switch y.ShortTag() {
		case "!!null":
		case "!!bool":
			n.value = strings.EqualFold(y.Value, "true") || strings.EqualFold(y.Value, "yes") || strings.EqualFold(y.Value, "on")
		case "!!int", "!!float":
			n.value = y.Value
			if _, err := strconv.ParseFloat(y.Value, 64); err == nil {
				n.value = number(y.Value)
			}
		default:
			n.value = y.Value
		}
	}
	return n
}

// toPlain returns the value in the types of encoding/json.
func (n *node) toPlain() any {
	switch v := n.value.(type) {
	case *object:
		m := make(map[string]any, len(v.names))
		for name, c := range v.of {
			m[name] = c.toPlain()
		}
		return m
	case []*node:
		list := make([]any, len(v))
		for i, c := range v {
			list[i] = c.toPlain()
		}
		return list
	case number:
		x, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return string(v)
		}
		return x
	}
	return n.value
}

// kindName returns the type of a value for an error message.
func (n *node) kindName() string {
	switch n.value.(type) {
	case nil:
		return "nothing"
	case bool:
		return "true or false"
	case string:
		return "a text"
	case number:
		return "a number"
	case []*node:
		return "a list"
	}
	return "an object"
}

// objectReader reads the fields of an object; fields that are never read are faults.
type objectReader struct {
	f      *file
	n      *node
	o      *object
	prefix string
	asked  []string
}

// openObject returns a reader of a node's fields; nil, and a fault, for other types.
func (f *file) openObject(n *node, prefix string) *objectReader {
	o, ok := n.value.(*object)
	if !ok {
		f.addFault(n, prefix, "it must be an object, not %s", n.kindName())
		return nil
	}
	return &objectReader{f: f, n: n, o: o, prefix: prefix}
}

func (r *objectReader) fieldPath(name string) string {
	if r.prefix == "" {
		return name
	}
	return r.prefix + "." + name
}

func (r *objectReader) addFault(name, format string, args ...any) {
	at := r.o.of[name]
	if at == nil {
		at = r.n
	}
	r.f.addFault(at, r.fieldPath(name), format, args...)
}

// get returns a field; nil: it is missing.
func (r *objectReader) get(name string) *node {
	r.asked = append(r.asked, name)
	if n := r.o.of[name]; n != nil && n.value != nil {
		return n
	}
	return nil
}

// checkUnknown reports the fields that were never read.
func (r *objectReader) checkUnknown() {
	for _, name := range r.o.names {
		if !slices.Contains(r.asked, name) {
			slices.Sort(r.asked)
			r.addFault(name, "unknown field; known are: %s", strings.Join(r.asked, ", "))
		}
	}
}

func (r *objectReader) readText(name string) string {
	n := r.get(name)
	if n == nil {
		return ""
	}
	s, ok := n.value.(string)
	if !ok {
		r.addFault(name, "it must be a text, not %s", n.kindName())
	}
	return s
}

func (r *objectReader) readTexts(name string) []string {
	n := r.get(name)
	if n == nil {
		return nil
	}
	items, ok := n.value.([]*node)
	if !ok {
		r.addFault(name, "it must be a list of texts, not %s", n.kindName())
		return nil
	}
	list := []string{}
	for i, c := range items {
		s, ok := c.value.(string)
		if !ok {
			r.f.addFault(c, fmt.Sprintf("%s[%d]", r.fieldPath(name), i), "it must be a text, not %s", c.kindName())
			continue
		}
		list = append(list, s)
	}
	return list
}

// readDuration reads a field like "30s" between low and high; a missing one is usual.
func (r *objectReader) readDuration(name string, usual, low, high time.Duration) time.Duration {
	s := r.readText(name)
	if s == "" {
		return usual
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < low || d > high {
		r.addFault(name, "it must be a time like 30s, between %v and %v, not %q", low, high, s)
		return usual
	}
	return d
}

// readSize reads a field like "64k" or a number of bytes.
func (r *objectReader) readSize(name string, usual, high int64) int64 {
	n := r.get(name)
	if n == nil {
		return usual
	}
	s := fmt.Sprint(n.value)
	digits := strings.TrimRight(strings.ToLower(s), "kmb")
	x, err := strconv.ParseInt(digits, 10, 64)
	switch strings.ToLower(s)[len(digits):] {
	case "k", "kb":
		x <<= 10
	case "m", "mb":
		x <<= 20
	case "", "b":
	default:
		err = strconv.ErrSyntax
	}
	if err != nil || x < 1 || x > high {
		r.addFault(name, "it must be a size like 64k, of at most %d bytes, not %s", high, s)
		return usual
	}
	return x
}

// Unwrap returns ErrInvalid.
func (e *Problem) Unwrap() error { return atoll.ErrInvalid }
