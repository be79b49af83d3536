package output

import (
	"bytes"
	"encoding"
	"encoding/json"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// WriteJSON writes v as JSON and a newline. It differs from encoding/json in one
// thing: a [time.Duration] is a string like "1m30s". indent indents each level by two
// spaces.
func WriteJSON(w io.Writer, v any, indent bool) error {
	b, err := appendJSON(nil, reflect.ValueOf(v))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if indent {
		err = json.Indent(&out, b, "", "  ")
	} else {
		err = json.Compact(&out, b)
	}
	if err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = w.Write(out.Bytes())
	return err
}

var (
	durationType  = reflect.TypeFor[time.Duration]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
)

func appendJSON(b []byte, v reflect.Value) ([]byte, error) {
	if !v.IsValid() {
		return append(b, "null"...), nil
	}
	t := v.Type()
	if t == durationType {
		return appendValue(b, time.Duration(v.Int()).String())
	}
	if t.Implements(marshalerType) || t.Implements(textType) {
		return appendValue(b, v.Interface())
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return appendJSON(b, v.Elem())
	case reflect.Struct:
		return appendStruct(b, v)
	case reflect.Map:
		if t.Key().Kind() == reflect.String && !v.IsNil() {
			return appendMap(b, v)
		}
	case reflect.Slice:
		if v.IsNil() || t.Elem().Kind() == reflect.Uint8 {
			return appendValue(b, v.Interface())
		}
		return appendList(b, v)
	case reflect.Array:
		return appendList(b, v)
	}
	return appendValue(b, v.Interface())
}

// appendValue appends what encoding/json makes of v.
func appendValue(b []byte, v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...), nil
}

func appendList(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendMap(b []byte, v reflect.Value) (_ []byte, err error) {
	values := make(map[string]reflect.Value, v.Len())
	for key, value := range v.Seq2() {
		values[key.String()] = value
	}
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendMember(b, key, values[key]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendMember(b []byte, name string, v reflect.Value) ([]byte, error) {
	b, err := appendValue(b, name)
	if err != nil {
		return nil, err
	}
	return appendJSON(append(b, ':'), v)
}

// member is one member of the JSON object of a struct.
type member struct {
	name  string
	depth int // of embedding
	value reflect.Value
	omit  bool
}

func appendStruct(b []byte, v reflect.Value) (_ []byte, err error) {
	var members []member
	addMembers(&members, v, 0)
	shallowest := make(map[string]int)
	for _, m := range members {
		if d, ok := shallowest[m.name]; !ok || m.depth < d {
			shallowest[m.name] = m.depth
		}
	}
	b = append(b, '{')
	first := true
	for _, m := range members {
		if m.omit || m.depth != shallowest[m.name] {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		if b, err = appendMember(b, m.name, m.value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// addMembers adds the fields of a struct, and those of the structs embedded in it.
func addMembers(list *[]member, v reflect.Value, depth int) {
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" {
			continue
		}
		if f.Anonymous && name == "" {
			if value.Kind() == reflect.Pointer {
				value = value.Elem()
			}
			if value.Kind() == reflect.Struct {
				addMembers(list, value, depth+1)
			}
			if value.Kind() == reflect.Struct || !value.IsValid() {
				continue
			}
		}
		if !f.IsExported() {
			continue
		}
		if !tagged || name == "" {
			name = f.Name
		}
		*list = append(*list, member{name, depth, value, isOmitted(value, options)})
	}
}

func isOmitted(v reflect.Value, options string) bool {
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "omitzero":
			if z, ok := v.Interface().(interface{ IsZero() bool }); ok && z.IsZero() || v.IsZero() {
				return true
			}
		case "omitempty":
			switch v.Kind() {
			case reflect.Struct:
			case reflect.Map, reflect.Slice, reflect.Array, reflect.String:
				if v.Len() == 0 {
					return true
				}
			default:
				if v.IsZero() {
					return true
				}
			}
		}
	}
	return false
}
