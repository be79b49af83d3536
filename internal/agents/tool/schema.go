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

// schema is the compiled schema of a tool's input.
type schema struct {
	raw      json.RawMessage
	doc      map[string]any
	resolved *jsonschema.Resolved // nil: the tool's server checks the input
}

const maxSchema = 256 << 10 // bytes

// readSchema compiles a schema; nil is any object.
func readSchema(raw json.RawMessage, foreign bool) (*schema, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage(`{"type":"object"}`)
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("its schema has %d bytes: the limit is %d", len(raw), maxSchema)
	}
	if err := CheckDepth(raw); err != nil {
		return nil, fmt.Errorf("its schema %w", err)
	}
	s := &schema{}
	if err := json.Unmarshal(raw, &s.doc); err != nil {
		return nil, fmt.Errorf("its schema is not a JSON object: %w", err)
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

// checkInput returns a valid input with defaults and without repeated keys. Else it
// returns an *Error that names the wrong field.
func (s *schema) checkInput(input json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(input)) == 0 || string(bytes.TrimSpace(input)) == "null" {
		input = json.RawMessage("{}")
	}
	if len(input) > maxInput {
		return nil, &Error{fmt.Sprintf("The input has %d bytes: the limit is %d.", len(input), maxInput)}
	}
	if err := CheckDepth(input); err != nil {
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
	s.applyDefaults(exact)
	clean, err := json.Marshal(exact)
	if err != nil || s.resolved == nil {
		return clean, err
	}
	var value map[string]any
	if err := json.Unmarshal(clean, &value); err != nil {
		return nil, &Error{"The input has a number that is too large."}
	}
	if err := s.resolved.Validate(value); err != nil {
		why := explainMismatch(s.doc, value, "")
		if why == "" {
			why = clipText(err.Error(), 1000)
		}
		return nil, &Error{"Invalid input: " + why}
	}
	return clean, nil
}

// applyDefaults sets the schema's defaults for missing fields.
func (s *schema) applyDefaults(input map[string]any) {
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

// CheckDepth returns an error for JSON that is nested more than 64 levels deep. It does not decode it.
func CheckDepth(b []byte) error {
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

// explainMismatch explains to the model why a value does not match; "" if the
// cause is unknown to this function.
func explainMismatch(doc map[string]any, v any, at string) string {
	if want, ok := doc["type"]; ok && !isType(want, v) {
		return fmt.Sprintf("%s must be %s, not %s", fieldName(at), withArticle(want), shortJSON(v))
	}
	if list, ok := doc["enum"].([]any); ok && !slices.ContainsFunc(list, func(e any) bool { return jsonschema.Equal(e, v) }) {
		b, _ := json.Marshal(list) // can't fail: it was JSON
		return fmt.Sprintf("%s must be one of %s, not %s", fieldName(at), clipText(string(b), 300), shortJSON(v))
	}
	switch v := v.(type) {
	case map[string]any:
		return explainObject(doc, v, at)
	case []any:
		items, _ := doc["items"].(map[string]any) // else any
		for i, e := range v {
			if why := explainMismatch(items, e, at+"["+strconv.Itoa(i)+"]"); why != "" {
				return why
			}
		}
	case float64:
		if low, ok := doc["minimum"].(float64); ok && v < low {
			return fmt.Sprintf("%s must be at least %v, not %v", fieldName(at), low, v)
		}
		if high, ok := doc["maximum"].(float64); ok && v > high {
			return fmt.Sprintf("%s must be at most %v, not %v", fieldName(at), high, v)
		}
	case string:
		if pattern, ok := doc["pattern"].(string); ok {
			return fmt.Sprintf("%s must match %s, not %s", fieldName(at), clipText(pattern, 200), shortJSON(v))
		}
	}
	return ""
}

func explainObject(doc map[string]any, v map[string]any, at string) string {
	props, _ := doc["properties"].(map[string]any) // nil: any property
	required, _ := doc["required"].([]any)         // nil: none
	for _, r := range required {
		name, _ := r.(string) // the schema was checked
		if _, ok := v[name]; !ok {
			return fieldName(joinPath(at, name)) + " is missing"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		p, known := props[name]
		if more, ok := doc["additionalProperties"].(bool); !known && ok && !more {
			return fmt.Sprintf("there is no %s; there is: %s", fieldName(joinPath(at, name)), strings.Join(slices.Sorted(maps.Keys(props)), ", "))
		}
		if sub, ok := p.(map[string]any); ok {
			// A pattern is only looked at if nothing else of its value is wrong.
			if why := explainMismatch(withoutPattern(sub, v[name]), v[name], joinPath(at, name)); why != "" {
				return why
			}
		}
	}
	return ""
}

// withoutPattern returns a schema without its pattern if the text matches it.
func withoutPattern(doc map[string]any, v any) map[string]any {
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

func joinPath(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func fieldName(at string) string {
	if at == "" {
		return "the input"
	}
	return "field " + strconv.Quote(clipText(at, 200))
}

// isType reports whether a value has a type, or one of a list of types.
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

func withArticle(want any) string {
	if list, ok := want.([]any); ok {
		var names []string
		for _, w := range list {
			names = append(names, withArticle(w))
		}
		return strings.Join(names, " or ")
	}
	s := fmt.Sprint(want)
	if s != "" && strings.ContainsRune("aeiou", rune(s[0])) {
		return "an " + s
	}
	return "a " + s
}

func shortJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "that"
	}
	return clipText(string(b), 80)
}
