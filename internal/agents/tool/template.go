package tool

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// template is a text with placeholders for fields of the input and of the caller:
// "--user={{user.id}}", "{{who.user}}".
type template []part

// part is a literal text, or the path of a field.
type part struct {
	text string
	path []string // nil: a literal text
}

// whoFields are the fields of the caller.
var whoFields = []string{"app", "user", "chat", "assistant", "turn"}

var fieldPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*$`)

// parseTemplate parses a template. It expands variables of the host's environment
// ($ENV.NAME, ${NAME}); their values are literal text.
func (f *file) parseTemplate(n *node, field, s string) template {
	var t template
	for s != "" {
		before, rest, found := strings.Cut(s, "{{")
		if before != "" {
			t = append(t, part{text: f.expandEnv(n, field, before)})
		}
		if !found {
			break
		}
		inner, after, closed := strings.Cut(rest, "}}")
		name := strings.TrimSpace(inner)
		if !closed || !fieldPath.MatchString(name) {
			f.addFault(n, field, "{{%s: it must be {{FIELD}}, of the input, or {{who.user}}", clipText(inner, 40))
			return t
		}
		path := strings.Split(name, ".")
		if path[0] == "who" && (len(path) != 2 || !slices.Contains(whoFields, path[1])) {
			f.addFault(n, field, "{{%s}}: there is who.%s", name, strings.Join(whoFields, ", who."))
		}
		t = append(t, part{path: path})
		s = after
	}
	return t
}

var variable = regexp.MustCompile(`\$ENV\.[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// expandEnv expands variables of the host's environment. An unset variable is a
// fault, since it is usually a missing secret.
func (f *file) expandEnv(n *node, field, s string) string {
	return variable.ReplaceAllStringFunc(s, func(m string) string {
		name, ok := strings.CutPrefix(m, "$ENV.")
		if !ok {
			name = strings.TrimSuffix(strings.TrimPrefix(m, "${"), "}")
		}
		v, ok := f.env(name)
		if !ok {
			f.addFault(n, field, "%s is not set in the environment", name)
		}
		return v
	})
}

// inputFields returns the names of the input's fields in the template.
func (t template) inputFields() []string {
	var list []string
	for _, p := range t {
		if p.path != nil && p.path[0] != "who" {
			list = append(list, p.path[0])
		}
	}
	return list
}

// fixedText returns the text of a template without placeholders.
func (t template) fixedText() (string, bool) {
	var b strings.Builder
	for _, p := range t {
		if p.path != nil {
			return "", false
		}
		b.WriteString(p.text)
	}
	return b.String(), true
}

// scope holds the values for templates.
type scope struct {
	who   Caller
	input map[string]any // with numbers as json.Number
}

func newScope(c Call) (scope, error) {
	s := scope{who: c.Caller}
	dec := json.NewDecoder(strings.NewReader(string(c.Input)))
	dec.UseNumber()
	return s, dec.Decode(&s.input)
}

// lookUp returns the value at a path; false: there is none.
func (s scope) lookUp(path []string) (any, bool) {
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

// wholeValue returns the value itself for a template of only one placeholder.
func (s scope) wholeValue(t template) (v any, only, there bool) {
	if len(t) != 1 || t[0].path == nil {
		return nil, false, false
	}
	v, there = s.lookUp(t[0].path)
	return v, true, there
}

// fillText fills a template, each value through escape; false: a value is missing.
func (s scope) fillText(t template, escape func(string) (string, error)) (string, bool, error) {
	var b strings.Builder
	for _, p := range t {
		if p.path == nil {
			b.WriteString(p.text)
			continue
		}
		v, ok := s.lookUp(p.path)
		if !ok {
			return "", false, nil
		}
		x, err := escape(valueText(v))
		if err != nil {
			return "", false, &Error{fmt.Sprintf("Invalid input: field %q %v", strings.Join(p.path, "."), err)}
		}
		b.WriteString(x)
	}
	return b.String(), true, nil
}

// keepText escapes nothing.
func keepText(s string) (string, error) { return s, nil }

// valueText returns a value as text.
func valueText(v any) string {
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

// valueTemplate is a JSON value whose texts are templates: a text of only one
// placeholder becomes the value of the field, of any type.
type valueTemplate struct {
	value any // nil, bool, number as float64; template; []filled; map[string]filled
}

// parseValue parses a value with templates.
func (f *file) parseValue(n *node, field string) valueTemplate {
	switch v := n.value.(type) {
	case string:
		return valueTemplate{f.parseTemplate(n, field, v)}
	case []*node:
		list := make([]valueTemplate, len(v))
		for i, c := range v {
			list[i] = f.parseValue(c, fmt.Sprintf("%s[%d]", field, i))
		}
		return valueTemplate{list}
	case *object:
		m := make(map[string]valueTemplate, len(v.names))
		for _, name := range v.names {
			m[name] = f.parseValue(v.of[name], field+"."+name)
		}
		return valueTemplate{m}
	}
	return valueTemplate{n.toPlain()}
}

func (v valueTemplate) inputFields() []string {
	var list []string
	switch v := v.value.(type) {
	case template:
		return v.inputFields()
	case []valueTemplate:
		for _, c := range v {
			list = append(list, c.inputFields()...)
		}
	case map[string]valueTemplate:
		for _, c := range v {
			list = append(list, c.inputFields()...)
		}
	}
	return list
}

// fillValue returns the value, and whether it exists.
func (v valueTemplate) fillValue(s scope) (any, bool) {
	switch v := v.value.(type) {
	case template:
		if x, only, there := s.wholeValue(v); only {
			return x, there
		}
		x, there, err := s.fillText(v, keepText)
		return x, there && err == nil
	case []valueTemplate:
		list := []any{}
		for _, c := range v {
			if x, there := c.fillValue(s); there {
				list = append(list, x)
			}
		}
		return list, true
	case map[string]valueTemplate:
		m := make(map[string]any)
		for name, c := range v {
			if x, there := c.fillValue(s); there {
				m[name] = x
			}
		}
		return m, true
	}
	return v.value, true
}
