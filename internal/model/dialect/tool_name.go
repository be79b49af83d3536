package dialect

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// encodedPrefix is the prefix of an id that encodes another API's, which has characters
// that the messages API forbids.
const encodedPrefix = "toolu_as_"

// maxID is the longest id of a call: the smallest limit of all APIs.
const maxID = 64

// toolID returns the id of a call in the characters that all APIs allow: letters, digits,
// - and _. originalID reverses it.
func toolID(id string) string {
	if id != "" && len(id) <= maxID && isPlain(id) && !strings.HasPrefix(id, encodedPrefix) {
		return id
	}
	if c := encodedPrefix + base64.RawURLEncoding.EncodeToString([]byte(id)); len(c) <= 2*maxID {
		return c
	}
	return "toolu_" + hashID(id)
}

// originalID returns the id that toolID encoded.
func originalID(id string) string {
	rest, ok := strings.CutPrefix(id, encodedPrefix)
	if !ok {
		return id
	}
	b, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil || toolID(string(b)) != id {
		return id
	}
	return string(b)
}

// callID returns the id of a call within the length that OpenAI's APIs allow.
func callID(id string) string {
	if id != "" && len(id) <= 40 {
		return id
	}
	return "call_" + hashID(id)
}

func hashID(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:12])
}

func isPlain(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// maxName is the longest tool name in every API.
const maxName = 64

// toolName returns a tool's name in the characters that all APIs allow.
func toolName(name string) string {
	if name != "" && len(name) <= maxName && isPlain(name) && (name[0] < '0' || name[0] > '9') && name[0] != '-' {
		return name
	}
	b := []byte(name)
	for i, c := range b {
		if !isPlain(string(c)) || c >= 0x80 {
			b[i] = '_'
		}
	}
	if len(b) == 0 || b[0] >= '0' && b[0] <= '9' || b[0] == '-' {
		b = append([]byte("t_"), b...)
	}
	return string(b[:min(len(b), maxName-13)]) + "_" + hashID(name)[:12]
}

// FitToolNames returns q with tool names that all APIs allow, and a function that returns
// the original of such a name. Allowed names are unchanged.
func FitToolNames(q *Request) (fitted *Request, back func(name string) string) {
	names := map[string]string{}
	for _, t := range q.Tools {
		if n := toolName(t.Name); n != t.Name {
			names[n] = t.Name
		}
	}
	back = func(name string) string {
		if was, ok := names[name]; ok {
			return was
		}
		return name
	}
	c := *q
	c.Tools = make([]Tool, len(q.Tools))
	for i, t := range q.Tools {
		t.Name = toolName(t.Name)
		c.Tools[i] = t
	}
	if c.ToolChoice != "" && c.ToolChoice != "none" && c.ToolChoice != "required" {
		c.ToolChoice = toolName(c.ToolChoice)
	}
	c.Messages = make([]Message, len(q.Messages))
	for i, m := range q.Messages {
		parts := make([]Part, len(m.Parts))
		for j, p := range m.Parts {
			if p.Type == ToolUse {
				p.Name = toolName(p.Name)
			}
			parts[j] = p
		}
		m.Parts = parts
		c.Messages[i] = m
	}
	return &c, back
}
