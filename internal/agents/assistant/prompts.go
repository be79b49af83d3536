package assistant

import (
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// maxPrompts limits the messages that a conversation begins with.
const maxPrompts = 100

// readPrompts decodes a list of messages.
func (r *fieldReader) readPrompts(n *node, at string) []dialect.Message {
	if n.kind == anObject && len(n.fields) == 0 {
		return nil // an empty file
	}
	if !r.checkKind(n, at, aList) {
		return nil
	}
	if len(n.list) > maxPrompts {
		r.addProblem(n, at, "%d messages are too many: at most %d", len(n.list), maxPrompts)
		return nil
	}
	var list []dialect.Message
	r.eachElement(func(n *node, at string) {
		var role, text string
		r.readFields(n, at, map[string]valueReader{
			"role":    r.wordInto(&role, "system", "developer", "user", "assistant"),
			"content": r.textInto(&text),
			"name":    nil,
		})
		switch {
		case n.kind != anObject:
			return
		case role == "" && !hasField(n, "role"):
			r.addProblem(n, joinPath(at, "role"), "is missing")
		case !hasField(n, "content"):
			r.addProblem(n, joinPath(at, "content"), "is missing")
		}
		if role == "developer" {
			role = "system"
		}
		list = append(list, dialect.Message{Role: dialect.Role(role), Parts: []dialect.Part{{Type: dialect.TextPart, Text: text}}})
	})(n, at)
	return list
}

func hasField(n *node, name string) bool {
	for _, f := range n.fields {
		if f.name == name {
			return true
		}
	}
	return false
}
