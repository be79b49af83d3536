package dialect

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// carried begins an id that holds another API's, whose letters the messages
// API forbids.
const carried = "toolu_as_"

// mostID is how long an id of a call may be: the least that an API allows.
const mostID = 64

// toolID is the id of a call as all APIs allow it: letters, digits, - and _.
// original gives back what it was.
func toolID(id string) string {
	if id != "" && len(id) <= mostID && plain(id) && !strings.HasPrefix(id, carried) {
		return id
	}
	if c := carried + base64.RawURLEncoding.EncodeToString([]byte(id)); len(c) <= 2*mostID {
		return c
	}
	return "toolu_" + digest(id)
}

// original is the id that toolID was given.
func original(id string) string {
	rest, ok := strings.CutPrefix(id, carried)
	if !ok {
		return id
	}
	b, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil || toolID(string(b)) != id {
		return id
	}
	return string(b)
}

// callID is the id of a call as OpenAI's APIs allow it: any letters, but few.
func callID(id string) string {
	if id != "" && len(id) <= 40 {
		return id
	}
	return "call_" + digest(id)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:12])
}

func plain(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// mostName is how long a tool's name may be in every API.
const mostName = 64

// toolName is a tool's name as all APIs allow it.
func toolName(name string) string {
	if name != "" && len(name) <= mostName && plain(name) && (name[0] < '0' || name[0] > '9') && name[0] != '-' {
		return name
	}
	b := []byte(name)
	for i, c := range b {
		if !plain(string(c)) || c >= 0x80 {
			b[i] = '_'
		}
	}
	if len(b) == 0 || b[0] >= '0' && b[0] <= '9' || b[0] == '-' {
		b = append([]byte("t_"), b...)
	}
	return string(b[:min(len(b), mostName-13)]) + "_" + digest(name)[:12]
}

// Fit returns q with names of tools that all APIs allow, and what gives an
// answer's names back as they were. Names that are allowed stay.
func Fit(q *Request) (fitted *Request, back func(name string) string) {
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
