package fleet

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Redactor hides the secrets of a sandbox's configuration in what is told of
// it. The zero Redactor hides nothing. Its methods may be called at once.
type Redactor struct{ m *mask }

// Redactor returns what hides the secrets that the sandbox has now.
func (s *Sandbox) Redactor() Redactor { return Redactor{s.mask(nil)} }

// Idle reports whether there is nothing to hide.
func (r Redactor) Idle() bool { return r.m == nil }

// Text returns s with its secrets hidden.
func (r Redactor) Text(s string) string { return r.m.text(s) }

// Error returns err, if it shows a secret as one that does not.
func (r Redactor) Error(err error) error { return r.m.error(err) }

// JSON returns a value with the secrets in its strings, names and numbers
// hidden. What is no JSON becomes a string.
func (r Redactor) JSON(b json.RawMessage) json.RawMessage {
	if r.m == nil || len(b) == 0 || !bytes.Contains(b, []byte(`\`)) && r.m.text(string(b)) == string(b) {
		return b
	}
	from := json.NewDecoder(bytes.NewReader(b))
	from.UseNumber()
	var v any
	if from.Decode(&v) != nil {
		v = string(b)
	}
	out, err := json.Marshal(r.value(v))
	if err != nil {
		return json.RawMessage(`"` + hidden + `"`)
	}
	return out
}

// value hides what JSON has made of it.
func (r Redactor) value(v any) any {
	switch v := v.(type) {
	case string:
		return r.m.text(v)
	case json.Number:
		if text := r.m.text(v.String()); text != v.String() {
			return text
		}
	case []any:
		for i := range v {
			v[i] = r.value(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[r.m.text(k)] = r.value(x)
		}
		return out
	}
	return v
}

// Hold returns what can be told of a text that goes on, with its secrets hidden,
// and the rest that may be the beginning of one: it is to be put before what
// comes next.
func (r Redactor) Hold(s string) (told, rest string) {
	if r.m == nil {
		return s, ""
	}
	at := r.m.begun(s)
	if len(s)-at > 2*r.m.longest { // secrets that overlap without end
		at = len(s)
	}
	return r.m.text(s[:at]), s[at:]
}

// begun returns where the secret begins that may go on past the end of s, with
// those that overlap it; len(s): there is none.
func (m *mask) begun(s string) int {
	at := len(s)
	for i := max(0, len(s)-m.longest+1); i < len(s); i++ {
		if m.begins(s[i:]) {
			at = i
			break
		}
	}
	for i := at - 1; i >= 0 && at < len(s) && at-i < m.longest; i-- {
		if i+m.at(s[i:]) > at {
			at = i // a whole secret is not cut in two
		}
	}
	return at
}

// begins reports whether a form is longer than s and begins with it.
func (m *mask) begins(s string) bool {
	if !m.first[s[0]] || len(s) > 1 && !m.second[s[1]] {
		return false
	}
	i, _ := slices.BinarySearch(m.needles, s)
	for ; i < len(m.needles) && strings.HasPrefix(m.needles[i], s); i++ {
		if len(m.needles[i]) > len(s) {
			return true
		}
	}
	return false
}
