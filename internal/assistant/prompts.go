package assistant

import (
	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// maxPrompts is how many messages a conversation may begin with.
const maxPrompts = 100

// prompts reads a list of messages.
func (r *reader) prompts(n *node, at string) []dialect.Message {
	if n.kind == anObject && len(n.fields) == 0 {
		return nil // an empty file
	}
	if !r.want(n, at, aList) {
		return nil
	}
	if len(n.list) > maxPrompts {
		r.bad(n, at, "%d messages are too many: at most %d", len(n.list), maxPrompts)
		return nil
	}
	var list []dialect.Message
	r.each(func(n *node, at string) {
		var role, text string
		r.fields(n, at, map[string]read{
			"role":    r.word(&role, "system", "developer", "user", "assistant"),
			"content": r.text(&text),
			"name":    nil,
		})
		switch {
		case n.kind != anObject:
			return
		case role == "" && !has(n, "role"):
			r.bad(n, joined(at, "role"), "is missing")
		case !has(n, "content"):
			r.bad(n, joined(at, "content"), "is missing")
		}
		if role == "developer" {
			role = "system"
		}
		list = append(list, dialect.Message{Role: dialect.Role(role), Parts: []dialect.Part{{Type: dialect.TextPart, Text: text}}})
	})(n, at)
	return list
}

func has(n *node, name string) bool {
	for _, f := range n.fields {
		if f.name == name {
			return true
		}
	}
	return false
}
