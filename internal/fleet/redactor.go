package fleet

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Redactor hides the secrets of a sandbox's configuration in texts. The zero Redactor hides
// nothing. Its methods may be called concurrently.
type Redactor struct{ m *mask }

// Redactor returns a Redactor of the present secrets of the sandbox.
func (s *Sandbox) Redactor() Redactor { return Redactor{s.secretMask(nil)} }

// IsEmpty reports whether there is nothing to hide.
func (r Redactor) IsEmpty() bool { return r.m == nil }

// RedactText returns s with its secrets hidden.
func (r Redactor) RedactText(s string) string { return r.m.redact(s) }

// Error returns err, or an error with the secrets in its text hidden.
func (r Redactor) Error(err error) error { return r.m.redactError(err) }

// RedactJSON returns a value with the secrets in its strings, names and numbers hidden. Invalid JSON
// becomes a string.
func (r Redactor) RedactJSON(b json.RawMessage) json.RawMessage {
	if r.m == nil || len(b) == 0 || !bytes.Contains(b, []byte(`\`)) && r.m.redact(string(b)) == string(b) {
		return b
	}
	from := json.NewDecoder(bytes.NewReader(b))
	from.UseNumber()
	var v any
	if from.Decode(&v) != nil {
		v = string(b)
	}
	out, err := json.Marshal(r.redactValue(v))
	if err != nil {
		return json.RawMessage(`"` + hidden + `"`)
	}
	return out
}

// redactValue hides the secrets in a decoded JSON value.
func (r Redactor) redactValue(v any) any {
	switch v := v.(type) {
	case string:
		return r.m.redact(v)
	case json.Number:
		if text := r.m.redact(v.String()); text != v.String() {
			return text
		}
	case []any:
		for i := range v {
			v[i] = r.redactValue(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[r.m.redact(k)] = r.redactValue(x)
		}
		return out
	}
	return v
}

// Split splits a text that will be continued: told can be shown, with its secrets hidden; rest may
// be the beginning of a secret and is to be put before the continuation.
func (r Redactor) Split(s string) (told, rest string) {
	if r.m == nil {
		return s, ""
	}
	at := r.m.pendingFrom(s)
	if len(s)-at > 2*r.m.longest { // overlapping secrets without end
		at = len(s)
	}
	return r.m.redact(s[:at]), s[at:]
}

// pendingFrom returns where a secret begins that may extend past the end of s, including those
// that overlap it; len(s): none.
func (m *mask) pendingFrom(s string) int {
	at := len(s)
	for i := max(0, len(s)-m.longest+1); i < len(s); i++ {
		if m.startsForm(s[i:]) {
			at = i
			break
		}
	}
	for i := at - 1; i >= 0 && at < len(s) && at-i < m.longest; i-- {
		if i+m.matchAt(s[i:]) > at {
			at = i // a whole secret is not cut in two
		}
	}
	return at
}

// startsForm reports whether a form is longer than s and begins with it.
func (m *mask) startsForm(s string) bool {
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
