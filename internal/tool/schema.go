package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// schema is what the input of a tool must be.
type schema struct {
	raw      json.RawMessage
	doc      map[string]any
	resolved *jsonschema.Resolved // nil: who answers checks it
}

const maxSchema = 256 << 10 // bytes

// readSchema reads a schema; nil is any object.
func readSchema(raw json.RawMessage, foreign bool) (*schema, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage(`{"type":"object"}`)
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("its schema has %d bytes: at most %d are taken", len(raw), maxSchema)
	}
	if err := shallow(raw); err != nil {
		return nil, fmt.Errorf("its schema %w", err)
	}
	s := &schema{}
	if err := json.Unmarshal(raw, &s.doc); err != nil {
		return nil, fmt.Errorf("its schema is no JSON object: %w", err)
	}
	switch list, _ := s.doc["type"].([]any); { // else one type
	case s.doc["type"] == nil, slices.Contains(list, any("object")):
		s.doc["type"] = "object"
	case s.doc["type"] == "object":
	default:
		return nil, fmt.Errorf("its schema has type %v: the input of a tool is an object", s.doc["type"])
	}
	b, err := json.Marshal(s.doc)
	if err != nil {
		return nil, err
	}
	s.raw = b
	if foreign {
		return s, nil
	}
	var js jsonschema.Schema
	if err := json.Unmarshal(b, &js); err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	}
	if s.resolved, err = js.Resolve(&jsonschema.ResolveOptions{}); err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	}
	return s, nil
}

// accept returns the input with its defaults, each key once, if it is what it
// must be. Else the *Error says which field is wrong.
func (s *schema) accept(input json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(input)) == 0 || string(bytes.TrimSpace(input)) == "null" {
		input = json.RawMessage("{}")
	}
	if len(input) > maxInput {
		return nil, &Error{fmt.Sprintf("The input has %d bytes: at most %d are taken.", len(input), maxInput)}
	}
	if err := shallow(input); err != nil {
		return nil, &Error{"The input " + err.Error() + "."}
	}
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	var exact map[string]any
	if err := dec.Decode(&exact); err != nil {
		return nil, &Error{"The input is no JSON object."}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &Error{"The input is more than one JSON object."}
	}
	s.defaults(exact)
	clean, err := json.Marshal(exact)
	if err != nil || s.resolved == nil {
		return clean, err
	}
	var value map[string]any
	if err := json.Unmarshal(clean, &value); err != nil {
		return nil, &Error{"The input has a number that is too large."}
	}
	if err := s.resolved.Validate(value); err != nil {
		why := explain(s.doc, value, "")
		if why == "" {
			why = clip(err.Error(), 1000)
		}
		return nil, &Error{"Invalid input: " + why}
	}
	return clean, nil
}

// defaults fills in what the schema has for fields that are not there.
func (s *schema) defaults(input map[string]any) {
	props, _ := s.doc["properties"].(map[string]any) // no properties: no defaults
	for name, p := range props {
		m, _ := p.(map[string]any) // true is a schema too
		if v, ok := m["default"]; ok {
			if _, there := input[name]; !there {
				input[name] = v
			}
		}
	}
}

// shallow refuses JSON that is too deep, before anybody walks down it.
func shallow(b []byte) error {
	depth, text := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("is nested more than %d levels deep", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// explain says what is wrong with a value, for those who are to mend it; empty:
// it is nothing that this function knows.
func explain(doc map[string]any, v any, at string) string {
	if want, ok := doc["type"]; ok && !isType(want, v) {
		return fmt.Sprintf("%s must be %s, not %s", field(at), article(want), shown(v))
	}
	if list, ok := doc["enum"].([]any); ok && !slices.ContainsFunc(list, func(e any) bool { return jsonschema.Equal(e, v) }) {
		b, _ := json.Marshal(list) // it was JSON
		return fmt.Sprintf("%s must be one of %s, not %s", field(at), clip(string(b), 300), shown(v))
	}
	switch v := v.(type) {
	case map[string]any:
		return explainObject(doc, v, at)
	case []any:
		items, _ := doc["items"].(map[string]any) // else any
		for i, e := range v {
			if why := explain(items, e, at+"["+strconv.Itoa(i)+"]"); why != "" {
				return why
			}
		}
	case float64:
		if low, ok := doc["minimum"].(float64); ok && v < low {
			return fmt.Sprintf("%s must be at least %v, not %v", field(at), low, v)
		}
		if high, ok := doc["maximum"].(float64); ok && v > high {
			return fmt.Sprintf("%s must be at most %v, not %v", field(at), high, v)
		}
	case string:
		if pattern, ok := doc["pattern"].(string); ok {
			return fmt.Sprintf("%s must match %s, not %s", field(at), clip(pattern, 200), shown(v))
		}
	}
	return ""
}

func explainObject(doc map[string]any, v map[string]any, at string) string {
	props, _ := doc["properties"].(map[string]any) // none: nothing to say of them
	required, _ := doc["required"].([]any)         // the same
	for _, r := range required {
		name, _ := r.(string) // the schema was checked
		if _, ok := v[name]; !ok {
			return field(join(at, name)) + " is missing"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		p, known := props[name]
		if more, ok := doc["additionalProperties"].(bool); !known && ok && !more {
			return fmt.Sprintf("there is no %s; there is: %s", field(join(at, name)), strings.Join(slices.Sorted(maps.Keys(props)), ", "))
		}
		if sub, ok := p.(map[string]any); ok {
			// A pattern is only looked at if nothing else of its value is wrong.
			if why := explain(without(sub, v[name]), v[name], join(at, name)); why != "" {
				return why
			}
		}
	}
	return ""
}

// without returns a schema less the pattern that a text follows.
func without(doc map[string]any, v any) map[string]any {
	pattern, ok := doc["pattern"].(string)
	if !ok {
		return doc
	}
	s := &jsonschema.Schema{Pattern: pattern}
	if r, err := s.Resolve(nil); err == nil && r.Validate(v) == nil {
		doc = maps.Clone(doc)
		delete(doc, "pattern")
	}
	return doc
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func field(at string) string {
	if at == "" {
		return "the input"
	}
	return "field " + strconv.Quote(clip(at, 200))
}

// isType reports whether a value is of a type, or of one of a list of types.
func isType(want, v any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(w any) bool { return isType(w, v) })
	}
	switch want {
	case "object":
		_, ok := v.(map[string]any)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "number":
		_, ok := v.(float64)
		return ok
	case "integer":
		f, ok := v.(float64)
		return ok && f == float64(int64(f))
	case "null":
		return v == nil
	}
	return true
}

func article(want any) string {
	if list, ok := want.([]any); ok {
		var names []string
		for _, w := range list {
			names = append(names, article(w))
		}
		return strings.Join(names, " or ")
	}
	s := fmt.Sprint(want)
	if s != "" && strings.ContainsRune("aeiou", rune(s[0])) {
		return "an " + s
	}
	return "a " + s
}

func shown(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "that"
	}
	return clip(string(b), 80)
}
