package assistant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// conversation returns all that was said, the newest last: what the client
// sent, else what the chat has kept and the prompt.
func (t *Turn) conversation() []dialect.Message {
	if len(t.ask.Messages) > 0 {
		return t.ask.Messages
	}
	all := append([]dialect.Message(nil), t.chat.Messages...)
	if s := t.ask.System; s != "" {
		all = append([]dialect.Message{{Role: dialect.System, Parts: textParts(s)}}, all...)
	}
	return append(all, promptMessage(t.ask.Prompt))
}

func textParts(s string) []dialect.Part { return []dialect.Part{{Type: dialect.TextPart, Text: s}} }

// promptMessage is a prompt as a message.
func promptMessage(prompt []agent.Content) dialect.Message {
	m := dialect.Message{Role: dialect.User}
	for _, c := range prompt {
		switch {
		case c.Data == nil:
			m.Parts = append(m.Parts, dialect.Part{Type: dialect.TextPart, Text: c.Text})
		case strings.HasPrefix(c.Type, "image/"):
			m.Parts = append(m.Parts, dialect.Part{Type: dialect.ImagePart, Media: c.Type, Data: c.Data, Name: c.Name})
		default:
			m.Parts = append(m.Parts, dialect.Part{Type: dialect.FilePart, Media: c.Type, Data: c.Data, Name: c.Name})
		}
	}
	return m
}

// promptOf is a message as a prompt. What is elsewhere (a URL) is named.
func promptOf(m dialect.Message) []agent.Content {
	var list []agent.Content
	for _, p := range m.Parts {
		switch {
		case p.Type == dialect.TextPart:
			list = append(list, agent.Content{Text: p.Text})
		case len(p.Data) > 0:
			name := p.Name
			if name == "" {
				name = fmt.Sprintf("attachment-%d%s", len(list)+1, suffixes[p.Media])
			}
			list = append(list, agent.Content{Name: name, Type: p.Media, Data: p.Data})
		case p.URL != "":
			list = append(list, agent.Content{Text: p.URL})
		case p.Type == dialect.ToolResult:
			list = append(list, agent.Content{Text: said(dialect.Message{Parts: p.Parts})})
		}
	}
	return list
}

// suffixes of files that have no name.
var suffixes = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "application/pdf": ".pdf", "text/plain": ".txt", "text/markdown": ".md",
}

// split parts a conversation into what the system says, what was said before,
// and the newest message.
func split(messages []dialect.Message) (system string, before []dialect.Message, last dialect.Message) {
	var rest []dialect.Message
	var texts []string
	for _, m := range messages {
		if m.Role == dialect.System {
			texts = append(texts, said(m))
			continue
		}
		rest = append(rest, m)
	}
	i := len(rest)
	for i > 0 && rest[i-1].Role == dialect.User { // several in a row are one
		i--
	}
	last.Role = dialect.User
	for _, m := range rest[i:] {
		last.Parts = append(last.Parts, m.Parts...)
	}
	return strings.Join(texts, "\n\n"), rest[:i], last
}

// transcript writes a conversation down for an agent that was not there.
func transcript(messages []dialect.Message) []byte {
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
				fmt.Fprintf(&b, "(result: %s)\n", said(dialect.Message{Parts: p.Parts}))
			case dialect.ImagePart, dialect.FilePart:
				fmt.Fprintf(&b, "(a file: %s %s)\n", p.Name, p.Media)
			case dialect.ThinkingPart:
			}
		}
	}
	return b.Bytes()
}

// spoken is a message as hooks see it, in the words of OpenAI's API. Parts that
// are no text are named by where they are.
type spoken struct {
	Role    dialect.Role    `json:"role"`
	Content json.RawMessage `json:"content"`
}

// piece is a part of a message as hooks see it.
type piece struct {
	Type dialect.PartType `json:"type"`
	Text string           `json:"text,omitempty"`
	Name string           `json:"name,omitempty"`
	ID   string           `json:"id,omitempty"`
	Ref  string           `json:"ref,omitempty"` // MESSAGE.PART of what a hook was given
}

// forHook writes messages down for a hook.
func forHook(messages []dialect.Message) []spoken {
	list := make([]spoken, 0, len(messages))
	for i, m := range messages {
		s := spoken{Role: m.Role}
		var pieces []piece
		plain := true
		for j, p := range m.Parts {
			if p.Type == dialect.TextPart {
				pieces = append(pieces, piece{Type: p.Type, Text: p.Text})
				continue
			}
			plain = false
			pieces = append(pieces, piece{Type: p.Type, Name: p.Name, ID: p.ID, Ref: fmt.Sprintf("%d.%d", i, j)})
		}
		if plain {
			s.Content, _ = json.Marshal(said(m)) // a string
		} else {
			s.Content, _ = json.Marshal(pieces) // strings
		}
		list = append(list, s)
	}
	return list
}

// fromHook reads the messages that a hook returned; given are those that it got.
func fromHook(raw json.RawMessage, given []dialect.Message) ([]dialect.Message, error) {
	var list []spoken
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
			return nil, fmt.Errorf("%w: hook Create: messages[%d].role %q: must be user, assistant or system", atoll.ErrInvalid, i, short(string(s.Role)))
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
	var pieces []piece
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

// created is what a Create hook returned, as far as it is understood.
type created struct {
	Messages    json.RawMessage `json:"messages"`
	Connector   string          `json:"connector"`
	Model       string          `json:"model"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	MaxTokens   int             `json:"max_tokens"`
	Skip        bool            `json:"skip"`    // the model is not asked
	Content     *string         `json:"content"` // with skip: the answer
}

// next is what a Next hook returned, as far as it is understood.
type next struct {
	Content *string         `json:"content"`
	Data    json.RawMessage `json:"data"`
}

// replaced is the answer that a Next hook wants instead; ok: it wants one.
func replaced(raw json.RawMessage) (text string, structured json.RawMessage, ok bool) {
	if raw == nil || string(raw) == "null" {
		return "", nil, false
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, nil, true
	}
	var n next
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
