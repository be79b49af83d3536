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

// node is a value of a file, with the line it stands in: the same for JSON with
// comments and YAML.
type node struct {
	line  int
	value any // nil, bool, string, number; []*node; *object
}

// number is a number as it was written.
type number string

// object is what a mapping holds, in its order.
type object struct {
	names []string
	of    map[string]*node
}

// file is one that is being read.
type file struct {
	name string
	env  func(string) (string, bool)
	errs []error
}

// bad notes what is wrong with a field.
func (f *file) bad(n *node, field, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.line
	}
	f.errs = append(f.errs, &Fault{File: f.name, Line: line, Field: field, Text: fmt.Sprintf(format, args...)})
}

// Fault is what is wrong with a file.
type Fault struct {
	File  string
	Line  int // 0: of the file
	Field string
	Text  string
}

func (e *Fault) Error() string {
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

// parse reads a file's one value; nil: f says why there is none.
func (f *file) parse(b []byte) *node {
	if strings.HasSuffix(f.name, ".yaml") || strings.HasSuffix(f.name, ".yml") {
		return f.parseYAML(b)
	}
	if err := shallow(b); err != nil {
		f.errs = append(f.errs, &Fault{File: f.name, Text: "it " + err.Error()})
		return nil
	}
	v, err := hujson.Parse(b)
	if err != nil {
		f.errs = append(f.errs, &Fault{File: f.name, Text: "it is no JSON: " + err.Error()})
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
			name, _ := w.Members[i].Name.Value.(hujson.Literal) // the parser sees to it
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
		f.bad(child, name, "it is there already, in line %d", first.line)
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
		f.errs = append(f.errs, &Fault{File: f.name, Line: le.Mark.Line, Text: "it is no YAML: " + le.Message})
		return nil
	case err != nil || len(doc.Content) == 0:
		f.errs = append(f.errs, &Fault{File: f.name, Text: "it is empty, or no YAML"})
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
		f.bad(n, "", "*%s: aliases are not taken: write it out", y.Value)
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

// plain returns the value as encoding/json would have it.
func (n *node) plain() any {
	switch v := n.value.(type) {
	case *object:
		m := make(map[string]any, len(v.names))
		for name, c := range v.of {
			m[name] = c.plain()
		}
		return m
	case []*node:
		list := make([]any, len(v))
		for i, c := range v {
			list[i] = c.plain()
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

// kind is what a value is, for people.
func (n *node) kind() string {
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

// reader reads the fields of an object; what it was not asked for is a mistake.
type reader struct {
	f      *file
	n      *node
	o      *object
	prefix string
	asked  []string
}

// object returns a reader of a node's fields; nil if it has none, which is told.
func (f *file) object(n *node, prefix string) *reader {
	o, ok := n.value.(*object)
	if !ok {
		f.bad(n, prefix, "it must be an object, not %s", n.kind())
		return nil
	}
	return &reader{f: f, n: n, o: o, prefix: prefix}
}

func (r *reader) path(name string) string {
	if r.prefix == "" {
		return name
	}
	return r.prefix + "." + name
}

func (r *reader) bad(name, format string, args ...any) {
	at := r.o.of[name]
	if at == nil {
		at = r.n
	}
	r.f.bad(at, r.path(name), format, args...)
}

// get returns a field; nil: it is not there.
func (r *reader) get(name string) *node {
	r.asked = append(r.asked, name)
	if n := r.o.of[name]; n != nil && n.value != nil {
		return n
	}
	return nil
}

// end tells of the fields that nobody has asked for.
func (r *reader) end() {
	for _, name := range r.o.names {
		if !slices.Contains(r.asked, name) {
			slices.Sort(r.asked)
			r.bad(name, "there is no such field here; there is: %s", strings.Join(r.asked, ", "))
		}
	}
}

func (r *reader) text(name string) string {
	n := r.get(name)
	if n == nil {
		return ""
	}
	s, ok := n.value.(string)
	if !ok {
		r.bad(name, "it must be a text, not %s", n.kind())
	}
	return s
}

func (r *reader) texts(name string) []string {
	n := r.get(name)
	if n == nil {
		return nil
	}
	items, ok := n.value.([]*node)
	if !ok {
		r.bad(name, "it must be a list of texts, not %s", n.kind())
		return nil
	}
	list := []string{}
	for i, c := range items {
		s, ok := c.value.(string)
		if !ok {
			r.f.bad(c, fmt.Sprintf("%s[%d]", r.path(name), i), "it must be a text, not %s", c.kind())
			continue
		}
		list = append(list, s)
	}
	return list
}

// duration reads "30s"; low and high bound it, and what is not there is usual.
func (r *reader) duration(name string, usual, low, high time.Duration) time.Duration {
	s := r.text(name)
	if s == "" {
		return usual
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < low || d > high {
		r.bad(name, "it must be a time like 30s, between %v and %v, not %q", low, high, s)
		return usual
	}
	return d
}

// size reads "64k" or a number of bytes.
func (r *reader) size(name string, usual, high int64) int64 {
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
		r.bad(name, "it must be a size like 64k, of at most %d bytes, not %s", high, s)
		return usual
	}
	return x
}

// Unwrap returns ErrInvalid.
func (e *Fault) Unwrap() error { return atoll.ErrInvalid }
