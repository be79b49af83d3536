// Package jsonlines decodes loosely formatted JSON lines written by agent CLIs.
package jsonlines

import (
	"encoding/json"
	"errors"
)

// Decode decodes a JSON object into v and ignores members of unexpected types. It
// reports whether b is a JSON object.
func Decode(b []byte, v any) bool {
	err := json.Unmarshal(b, v)
	var typ *json.UnmarshalTypeError
	return err == nil || errors.As(err, &typ) && typ.Field != ""
}

// Raw returns a line as JSON: itself if it is JSON, else a string of it.
func Raw(line []byte) json.RawMessage {
	if json.Valid(line) {
		return append(json.RawMessage(nil), line...)
	}
	b, _ := json.Marshal(string(line)) // can't fail for a string
	return b
}
