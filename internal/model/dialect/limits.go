package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Limits of a body: a few bytes decode to hundreds.
const (
	maxNesting  = 256     // nested lists and objects
	maxValues   = 300_000 // members and elements, all together
	maxObjects  = 30_000  // that are elements of lists, such as parts
	maxMessages = 10_000
	maxTools    = 2_000
)

// CheckLimits checks a body before it is decoded. A body over a limit that conversations
// never reach is ErrInvalid.
func CheckLimits(body []byte) error {
	values, objects := 0, 0
	return walkValues(body, func(at []frame, v []byte) error {
		if len(at) > maxNesting {
			return fmt.Errorf("%w: the body: it is nested more than %d deep", atoll.ErrInvalid, maxNesting)
		}
		if len(at) == 0 {
			return nil
		}
		if values++; values > maxValues {
			return fmt.Errorf("%w: the body: it has more than %d values", atoll.ErrInvalid, maxValues)
		}
		in := &at[len(at)-1]
		if !in.list {
			return nil
		}
		if v[0] == '{' {
			if objects++; objects > maxObjects {
				return fmt.Errorf("%w: the body: it has more than %d messages and parts", atoll.ErrInvalid, maxObjects)
			}
		}
		if in.max > 0 && in.n > in.max {
			return fmt.Errorf("%w: %s: there are more than %d", atoll.ErrInvalid, in.key, in.max)
		}
		return nil
	})
}

// maxOf returns the limit of a list with a name; 0: only the general limits.
func maxOf(name []byte) int {
	switch {
	case isOneOf(name, "messages", "contents"):
		return maxMessages
	case isOneOf(name, "tools", "functions", "functionDeclarations", "function_declarations"):
		return maxTools
	}
	return 0
}

// isOneOf reports whether a name is among some, ignoring case.
func isOneOf(name []byte, some ...string) bool {
	return slices.ContainsFunc(some, func(s string) bool { return len(s) == len(name) && strings.EqualFold(s, string(name)) })
}

// conversationFields are the fields of bodies that hold a conversation.
var conversationFields = []string{"messages", "system", "input", "contents", "systemInstruction", "system_instruction", "instructions", "generateContentRequest"}

// toolFields are the fields within a conversation that hold input and output of tools,
// which an API does not interpret.
var toolFields = []string{"input", "args", "arguments", "response", "action", "annotations", "citations"}

// FindRemoteURL returns the field of a body whose URL an API would fetch: images and files
// that are not included as data. Empty: there is none.
func FindRemoteURL(body []byte) (string, error) {
	found := ""
	err := walkValues(body, func(at []frame, v []byte) error {
		if found != "" || v[0] != '"' || len(at) == 0 || !isOneOf(at[0].key, conversationFields...) {
			return nil
		}
		for _, f := range at[1:] {
			if !f.list && slices.Contains(toolFields, string(f.key)) {
				return nil
			}
		}
		name := strings.ToLower(string(at[len(at)-1].key))
		s := string(v[1:min(len(v)-1, 64)])
		switch {
		case name == "file_id", strings.HasSuffix(name, "url"), strings.HasSuffix(name, "uri"):
			if s != "" && !strings.HasPrefix(s, "data:") {
				found = name
			}
		case name == "file_data" && strings.Contains(s, ":") && !strings.HasPrefix(s, "data:"):
			found = name
		}
		return nil
	})
	return found, err
}

// frame is a list or an object during a walk.
type frame struct {
	list bool
	key  []byte // object: the current member; list: its own name
	n    int    // values so far
	max  int    // list: limit of values; 0: none
}

// walkValues calls f for each value, with its parents and its first byte, or the whole
// text of a string. It decodes nothing.
func walkValues(body []byte, f func(at []frame, v []byte) error) error {
	if !json.Valid(body) {
		return read(body, new(json.RawMessage)) // returns the error
	}
	var at []frame
	key := false // the next string is a member's name
	for i := 0; i < len(body); i++ {
		switch c := body[i]; c {
		case ' ', '\t', '\r', '\n', ':':
		case ',':
			key = !at[len(at)-1].list
		case '}', ']':
			at, key = at[:len(at)-1], false
		case '"':
			end := i + 1
			for body[end] != '"' {
				if body[end] == '\\' {
					end++
				}
				end++
			}
			text := body[i : end+1]
			i = end
			if key {
				in := &at[len(at)-1]
				in.key, key = nameOf(text), false
				continue
			}
			if err := visitValue(at, text, f); err != nil {
				return err
			}
		default:
			if err := visitValue(at, body[i:i+1], f); err != nil {
				return err
			}
			if c == '{' || c == '[' {
				in := frame{list: c == '['}
				if in.list && len(at) > 0 {
					in.key = at[len(at)-1].key
					in.max = maxOf(in.key)
				}
				at, key = append(at, in), !in.list
				continue
			}
			for i+1 < len(body) && !strings.ContainsRune(",]} \t\r\n", rune(body[i+1])) {
				i++
			}
		}
	}
	return nil
}

func visitValue(at []frame, v []byte, f func([]frame, []byte) error) error {
	if len(at) > 0 {
		at[len(at)-1].n++
	}
	return f(at, v)
}

// nameOf returns the name in a string.
func nameOf(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1]
	}
	s, _ := parseText(text)
	return []byte(s)
}
