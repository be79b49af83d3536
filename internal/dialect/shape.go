package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// What a body may have at most: what is read of a few bytes takes hundreds.
const (
	mostNested   = 256     // lists and objects in each other
	mostValues   = 300_000 // members and elements, all together
	mostObjects  = 30_000  // that are elements of lists: parts and the like
	mostMessages = 10_000
	mostTools    = 2_000
)

// Bound looks at a body before anything is made of it; one that has more of
// anything than conversations do is ErrInvalid.
func Bound(body []byte) error {
	values, objects := 0, 0
	return walk(body, func(at []frame, v []byte) error {
		if len(at) > mostNested {
			return fmt.Errorf("%w: the body: it is nested more than %d deep", atoll.ErrInvalid, mostNested)
		}
		if len(at) == 0 {
			return nil
		}
		if values++; values > mostValues {
			return fmt.Errorf("%w: the body: it has more than %d values", atoll.ErrInvalid, mostValues)
		}
		in := &at[len(at)-1]
		if !in.list {
			return nil
		}
		if v[0] == '{' {
			if objects++; objects > mostObjects {
				return fmt.Errorf("%w: the body: it has more than %d messages and parts", atoll.ErrInvalid, mostObjects)
			}
		}
		if in.most > 0 && in.n > in.most {
			return fmt.Errorf("%w: %s: there are more than %d", atoll.ErrInvalid, in.key, in.most)
		}
		return nil
	})
}

// mostOf is how many a list of a name may have; 0: what all may.
func mostOf(name []byte) int {
	switch {
	case is(name, "messages", "contents"):
		return mostMessages
	case is(name, "tools", "functions", "functionDeclarations", "function_declarations"):
		return mostTools
	}
	return 0
}

// is reports whether a name is one of some, in any case.
func is(name []byte, some ...string) bool {
	return slices.ContainsFunc(some, func(s string) bool { return len(s) == len(name) && strings.EqualFold(s, string(name)) })
}

// talk are the fields of bodies that hold a conversation.
var talk = []string{"messages", "system", "input", "contents", "systemInstruction", "system_instruction", "instructions", "generateContentRequest"}

// given are the fields within a conversation that hold what tools were given
// and gave: nothing that an API looks into.
var given = []string{"input", "args", "arguments", "response", "action", "annotations", "citations"}

// Reaches says what in a body an API would fetch from elsewhere, which field
// it is in: pictures and files that are not there as data. Empty: nothing.
func Reaches(body []byte) (string, error) {
	found := ""
	err := walk(body, func(at []frame, v []byte) error {
		if found != "" || v[0] != '"' || len(at) == 0 || !is(at[0].key, talk...) {
			return nil
		}
		for _, f := range at[1:] {
			if !f.list && slices.Contains(given, string(f.key)) {
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

// frame is a list or an object that is walked through.
type frame struct {
	list bool
	key  []byte // object: the member under way; list: its own name
	n    int    // values so far
	most int    // list: how many there may be; 0: any number
}

// walk calls f for each value, with what it is in and its first byte, or all
// of it where it is a string. It makes nothing of them.
func walk(body []byte, f func(at []frame, v []byte) error) error {
	if !json.Valid(body) {
		return read(body, new(json.RawMessage)) // says what is wrong
	}
	var at []frame
	key := false // a string is a member's name
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
			if err := visit(at, text, f); err != nil {
				return err
			}
		default:
			if err := visit(at, body[i:i+1], f); err != nil {
				return err
			}
			if c == '{' || c == '[' {
				in := frame{list: c == '['}
				if in.list && len(at) > 0 {
					in.key = at[len(at)-1].key
					in.most = mostOf(in.key)
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

func visit(at []frame, v []byte, f func([]frame, []byte) error) error {
	if len(at) > 0 {
		at[len(at)-1].n++
	}
	return f(at, v)
}

// nameOf is the name that a string is.
func nameOf(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1]
	}
	s, _ := isText(text)
	return []byte(s)
}
