package tool

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// template is a text with places for fields of the input and for who calls:
// "--user={{user.id}}", "{{who.user}}".
type template []part

// part is a piece of text, or the path of a field.
type part struct {
	text string
	path []string // nil: it is text
}

// whoFields are what a template may say of who calls.
var whoFields = []string{"app", "user", "chat", "assistant", "turn"}

var fieldPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*$`)

// template reads one. Variables of the host's environment ($ENV.NAME, ${NAME})
// are filled in now: what they hold is text and no template.
func (f *file) template(n *node, field, s string) template {
	var t template
	for s != "" {
		before, rest, found := strings.Cut(s, "{{")
		if before != "" {
			t = append(t, part{text: f.expand(n, field, before)})
		}
		if !found {
			break
		}
		inner, after, closed := strings.Cut(rest, "}}")
		name := strings.TrimSpace(inner)
		if !closed || !fieldPath.MatchString(name) {
			f.bad(n, field, "{{%s: it must be {{FIELD}}, of the input, or {{who.user}}", clip(inner, 40))
			return t
		}
		path := strings.Split(name, ".")
		if path[0] == "who" && (len(path) != 2 || !slices.Contains(whoFields, path[1])) {
			f.bad(n, field, "{{%s}}: there is who.%s", name, strings.Join(whoFields, ", who."))
		}
		t = append(t, part{path: path})
		s = after
	}
	return t
}

var variable = regexp.MustCompile(`\$ENV\.[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// expand fills in variables of the host's environment. One that is not set is
// told: it is a secret that is missing.
func (f *file) expand(n *node, field, s string) string {
	return variable.ReplaceAllStringFunc(s, func(m string) string {
		name, ok := strings.CutPrefix(m, "$ENV.")
		if !ok {
			name = strings.TrimSuffix(strings.TrimPrefix(m, "${"), "}")
		}
		v, ok := f.env(name)
		if !ok {
			f.bad(n, field, "%s is not set in the environment", name)
		}
		return v
	})
}

// fields returns the names of the input's fields in it.
func (t template) fields() []string {
	var list []string
	for _, p := range t {
		if p.path != nil && p.path[0] != "who" {
			list = append(list, p.path[0])
		}
	}
	return list
}

// fixed returns the text of a template without places.
func (t template) fixed() (string, bool) {
	var b strings.Builder
	for _, p := range t {
		if p.path != nil {
			return "", false
		}
		b.WriteString(p.text)
	}
	return b.String(), true
}

// scope is what templates are filled from.
type scope struct {
	who   Who
	input map[string]any // with numbers as json.Number
}

func newScope(c Call) (scope, error) {
	s := scope{who: c.Who}
	dec := json.NewDecoder(strings.NewReader(string(c.Input)))
	dec.UseNumber()
	return s, dec.Decode(&s.input)
}

// value returns what a path leads to; false: nothing is there.
func (s scope) value(path []string) (any, bool) {
	if path[0] == "who" {
		return map[string]string{
			"app": s.who.Owner.App, "user": s.who.Owner.User, "chat": s.who.Chat, "assistant": s.who.Assistant, "turn": s.who.Turn,
		}[path[1]], true
	}
	var v any = s.input
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[name]; !ok || v == nil {
			return nil, false
		}
	}
	return v, true
}

// whole returns the value itself where the template is nothing but its place.
func (s scope) whole(t template) (v any, only, there bool) {
	if len(t) != 1 || t[0].path == nil {
		return nil, false, false
	}
	v, there = s.value(t[0].path)
	return v, true, there
}

// text fills a template, each value through escape; false: one of them is not
// there.
func (s scope) text(t template, escape func(string) (string, error)) (string, bool, error) {
	var b strings.Builder
	for _, p := range t {
		if p.path == nil {
			b.WriteString(p.text)
			continue
		}
		v, ok := s.value(p.path)
		if !ok {
			return "", false, nil
		}
		x, err := escape(word(v))
		if err != nil {
			return "", false, &Error{fmt.Sprintf("Invalid input: field %q %v", strings.Join(p.path, "."), err)}
		}
		b.WriteString(x)
	}
	return b.String(), true, nil
}

// asIs escapes nothing.
func asIs(s string) (string, error) { return s, nil }

// word is a value as text.
func word(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

// filled is a value of a file in whose texts places are filled: a text that is
// nothing but a place becomes the value, of whatever type.
type filled struct {
	value any // nil, bool, number as float64; template; []filled; map[string]filled
}

// fill reads such a value.
func (f *file) fill(n *node, field string) filled {
	switch v := n.value.(type) {
	case string:
		return filled{f.template(n, field, v)}
	case []*node:
		list := make([]filled, len(v))
		for i, c := range v {
			list[i] = f.fill(c, fmt.Sprintf("%s[%d]", field, i))
		}
		return filled{list}
	case *object:
		m := make(map[string]filled, len(v.names))
		for _, name := range v.names {
			m[name] = f.fill(v.of[name], field+"."+name)
		}
		return filled{m}
	}
	return filled{n.plain()}
}

func (v filled) fields() []string {
	var list []string
	switch v := v.value.(type) {
	case template:
		return v.fields()
	case []filled:
		for _, c := range v {
			list = append(list, c.fields()...)
		}
	case map[string]filled:
		for _, c := range v {
			list = append(list, c.fields()...)
		}
	}
	return list
}

// with returns the value, and whether it is there.
func (v filled) with(s scope) (any, bool) {
	switch v := v.value.(type) {
	case template:
		if x, only, there := s.whole(v); only {
			return x, there
		}
		x, there, err := s.text(v, asIs)
		return x, there && err == nil
	case []filled:
		list := []any{}
		for _, c := range v {
			if x, there := c.with(s); there {
				list = append(list, x)
			}
		}
		return list, true
	case map[string]filled:
		m := make(map[string]any)
		for name, c := range v {
			if x, there := c.with(s); there {
				m[name] = x
			}
		}
		return m, true
	}
	return v.value, true
}
