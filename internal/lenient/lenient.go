// Package lenient reads what programs print that promise little of its form.
package lenient

import (
	"encoding/json"
	"errors"
)

// Decode reads a JSON object as far as it is as expected: members of other
// types are left as they were. It reports false for what is no JSON object.
func Decode(b []byte, v any) bool {
	err := json.Unmarshal(b, v)
	var typ *json.UnmarshalTypeError
	return err == nil || errors.As(err, &typ) && typ.Field != ""
}

// Raw returns a line as JSON: itself, or a string of it.
func Raw(line []byte) json.RawMessage {
	if json.Valid(line) {
		return append(json.RawMessage(nil), line...)
	}
	b, _ := json.Marshal(string(line)) // strings always are
	return b
}
