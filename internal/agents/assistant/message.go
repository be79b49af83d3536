package assistant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// allMessages returns the whole conversation, the newest message last: the client's
// messages, else the stored ones and the prompt.
func (t *Turn) allMessages() []dialect.Message {
	if len(t.request.Messages) > 0 {
		return t.request.Messages
	}
	all := append([]dialect.Message(nil), t.chat.Messages...)
	if s := t.request.System; s != "" {
		all = append([]dialect.Message{{Role: dialect.System, Parts: textParts(s)}}, all...)
	}
	return append(all, promptMessage(t.request.Prompt))
}

func textParts(s string) []dialect.Part { return []dialect.Part{{Type: dialect.TextPart, Text: s}} }

// promptMessage converts a prompt to a message.
func promptMessage(prompt []agent.Content) dialect.Message {
	m := dialect.Message{Role: dialect.User}
	for _, c := range prompt {
		switch {
		case c.Data == nil:
			m.Parts = append(m.Parts, dialect.Part{Type: dialect.TextPart, Text: c.Text})
		case strings.HasPrefix(c.Type, "image/"):
			m.Parts = append(m.Parts, dialect.Part{Type: dialect.ImagePart, MediaType: c.Type, Data: c.Data, Name: c.Name})
		default:
			m.Parts = append(m.Parts, dialect.Part{Type: dialect.FilePart, MediaType: c.Type, Data: c.Data, Name: c.Name})
		}
	}
	return m
}

// promptOf converts a message to a prompt. Content at a URL is only named.
func promptOf(m dialect.Message) []agent.Content {
	var list []agent.Content
	for _, p := range m.Parts {
		switch {
		case p.Type == dialect.TextPart:
			list = append(list, agent.Content{Text: p.Text})
		case len(p.Data) > 0:
			name := p.Name
			if name == "" {
				name = fmt.Sprintf("attachment-%d%s", len(list)+1, fileSuffixes[p.MediaType])
			}
			list = append(list, agent.Content{Name: name, Type: p.MediaType, Data: p.Data})
		case p.URL != "":
			list = append(list, agent.Content{Text: p.URL})
		case p.Type == dialect.ToolResult:
			list = append(list, agent.Content{Text: messageText(dialect.Message{Parts: p.Parts})})
		}
	}
	return list
}

// fileSuffixes are the suffixes for files without a name.
var fileSuffixes = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "application/pdf": ".pdf", "text/plain": ".txt", "text/markdown": ".md",
}

// splitConversation splits a conversation into the system prompt, the earlier
// messages, and the newest message.
func splitConversation(messages []dialect.Message) (system string, before []dialect.Message, last dialect.Message) {
	var rest []dialect.Message
	var texts []string
	for _, m := range messages {
		if m.Role == dialect.System {
			texts = append(texts, messageText(m))
			continue
		}
		rest = append(rest, m)
	}
	i := len(rest)
	for i > 0 && rest[i-1].Role == dialect.User { // join several in a row
		i--
	}
	last.Role = dialect.User
	for _, m := range rest[i:] {
		last.Parts = append(last.Parts, m.Parts...)
	}
	return strings.Join(texts, "\n\n"), rest[:i], last
}

// formatTranscript formats a conversation as Markdown for an agent without its session.
func formatTranscript(messages []dialect.Message) []byte {
	var b bytes.Buffer
	b.WriteString("# The conversation so far\n")
	for _, m := range messages {
		name := "User"
		if m.Role == dialect.Assistant {
			name = "Assistant"
		}
		fmt.Fprintf(&b, "\n## %s\n\n", name)
		for _, p := range m.Parts {
			switch p.Type {
			case dialect.TextPart:
				b.WriteString(p.Text + "\n")
			case dialect.ToolUse:
				fmt.Fprintf(&b, "(called %s with %s)\n", p.Name, p.Input)
			case dialect.ToolResult:
				fmt.Fprintf(&b, "(result: %s)\n", messageText(dialect.Message{Parts: p.Parts}))
			case dialect.ImagePart, dialect.FilePart:
				fmt.Fprintf(&b, "(a file: %s %s)\n", p.Name, p.MediaType)
			case dialect.ThinkingPart:
			}
		}
	}
	return b.Bytes()
}

// hookMessage is a message for hooks, in the format of OpenAI's API. Parts other than
// text are references.
type hookMessage struct {
	Role    dialect.Role    `json:"role"`
	Content json.RawMessage `json:"content"`
}

// hookPart is a part of a message for hooks.
type hookPart struct {
	Type dialect.PartType `json:"type"`
	Text string           `json:"text,omitempty"`
	Name string           `json:"name,omitempty"`
	ID   string           `json:"id,omitempty"`
	Ref  string           `json:"ref,omitempty"` // MESSAGE.PART of the messages passed to the hook
}

// encodeForHook encodes messages for a hook.
func encodeForHook(messages []dialect.Message) []hookMessage {
	list := make([]hookMessage, 0, len(messages))
	for i, m := range messages {
		s := hookMessage{Role: m.Role}
		var pieces []hookPart
		plain := true
		for j, p := range m.Parts {
			if p.Type == dialect.TextPart {
				pieces = append(pieces, hookPart{Type: p.Type, Text: p.Text})
				continue
			}
			plain = false
			pieces = append(pieces, hookPart{Type: p.Type, Name: p.Name, ID: p.ID, Ref: fmt.Sprintf("%d.%d", i, j)})
		}
		if plain {
			s.Content, _ = json.Marshal(messageText(m)) // can't fail for a string
		} else {
			s.Content, _ = json.Marshal(pieces) // can't fail for strings
		}
		list = append(list, s)
	}
	return list
}

// decodeFromHook decodes the messages that a hook returned; given are those it got.
func decodeFromHook(raw json.RawMessage, given []dialect.Message) ([]dialect.Message, error) {
	var list []hookMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%w: hook Create: messages: must be a list of {role, content}", atoll.ErrInvalid)
	}
	messages := make([]dialect.Message, 0, len(list))
	for i, s := range list {
		m := dialect.Message{Role: s.Role}
		switch s.Role {
		case dialect.User, dialect.Assistant, dialect.System:
		case "developer":
			m.Role = dialect.System
		default:
			return nil, fmt.Errorf("%w: hook Create: messages[%d].role %q: must be user, assistant or system", atoll.ErrInvalid, i, truncateName(string(s.Role)))
		}
		parts, err := partsOf(s.Content, given)
		if err != nil {
			return nil, fmt.Errorf("%w: hook Create: messages[%d].content: %w", atoll.ErrInvalid, i, err)
		}
		m.Parts = parts
		messages = append(messages, m)
	}
	return messages, nil
}

func partsOf(raw json.RawMessage, given []dialect.Message) ([]dialect.Part, error) {
	var text string
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if json.Unmarshal(raw, &text) == nil {
		return textParts(text), nil
	}
	var pieces []hookPart
	if err := json.Unmarshal(raw, &pieces); err != nil {
		return nil, fmt.Errorf("must be a text or a list of parts")
	}
	var parts []dialect.Part
	for _, p := range pieces {
		if p.Type == dialect.TextPart {
			parts = append(parts, dialect.Part{Type: dialect.TextPart, Text: p.Text})
			continue
		}
		var i, j int
		if _, err := fmt.Sscanf(p.Ref, "%d.%d", &i, &j); err != nil || i < 0 || i >= len(given) || j < 0 || j >= len(given[i].Parts) {
			return nil, fmt.Errorf("a part that is no text must be one that the hook was given")
		}
		parts = append(parts, given[i].Parts[j])
	}
	return parts, nil
}

// createResult has the known members of a Create hook's result.
type createResult struct {
	Messages    json.RawMessage `json:"messages"`
	Connector   string          `json:"connector"`
	Model       string          `json:"model"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	MaxTokens   int             `json:"max_tokens"`
	Skip        bool            `json:"skip"`    // do not call the model
	Content     *string         `json:"content"` // with skip: the answer
}

// nextResult has the known members of a Next hook's result.
type nextResult struct {
	Content *string         `json:"content"`
	Data    json.RawMessage `json:"data"`
}

// replacementAnswer returns the answer of a Next hook's result; ok: it has one.
func replacementAnswer(raw json.RawMessage) (text string, structured json.RawMessage, ok bool) {
	if raw == nil || string(raw) == "null" {
		return "", nil, false
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, nil, true
	}
	var n nextResult
	if json.Unmarshal(raw, &n) != nil {
		return "", nil, false
	}
	switch {
	case n.Content != nil:
		return *n.Content, n.Data, true
	case n.Data == nil || string(n.Data) == "null":
		return "", nil, false
	case json.Unmarshal(n.Data, &text) == nil:
		return text, nil, true
	}
	if json.Unmarshal(n.Data, &n) == nil && n.Content != nil {
		return *n.Content, n.Data, true
	}
	return string(n.Data), n.Data, true
}
