package acp

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/skill"
)

// promptCapabilities are the kinds of content that an agent accepts in a prompt
// besides text and links.
type promptCapabilities struct {
	Image    bool `json:"image"`
	Audio    bool `json:"audio"`
	Embedded bool `json:"embeddedContext"`
}

type block map[string]any

// encodePrompt returns a prompt in the protocol's format. Content that the agent
// does not accept becomes a link to the placed file.
func (c promptCapabilities) encodePrompt(system string, prompt []agent.Content) []block {
	var list []block
	if system != "" {
		list = append(list, block{"type": "text", "text": system})
	}
	for _, p := range prompt {
		list = append(list, c.encodeContent(p))
	}
	return list
}

func (c promptCapabilities) encodeContent(p agent.Content) block {
	family, _, _ := strings.Cut(p.Type, "/")
	switch {
	case len(p.Data) == 0 && p.Path == "":
		return block{"type": "text", "text": p.Text}
	case family == "image" && c.Image && len(p.Data) > 0:
		return block{"type": "image", "mimeType": p.Type, "data": p.Data}
	case family == "audio" && c.Audio && len(p.Data) > 0:
		return block{"type": "audio", "mimeType": p.Type, "data": p.Data}
	case p.Path != "":
		return block{"type": "resource_link", "uri": fileURI(p.Path), "name": fileName(p), "mimeType": p.Type}
	case c.Embedded && utf8.Valid(p.Data):
		return block{"type": "resource", "resource": map[string]string{"uri": fileURI("/" + fileName(p)), "mimeType": p.Type, "text": string(p.Data)}}
	case c.Embedded:
		return block{"type": "resource", "resource": map[string]any{"uri": fileURI("/" + fileName(p)), "mimeType": p.Type, "blob": p.Data}}
	}
	return block{"type": "text", "text": fmt.Sprintf("[A file that could not be sent: %s (%s)]", fileName(p), p.Type)}
}

func fileName(p agent.Content) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Path != "":
		return path.Base(p.Path)
	}
	return "attachment"
}

func fileURI(name string) string { return (&url.URL{Scheme: "file", Path: name}).String() }

// SystemPrompt returns the text to send before the first prompt, for agents without
// a place for it: the turn's system prompt, and the name and description of the
// skills in dir, so that the agent reads them when it needs them.
func SystemPrompt(t *agent.Turn, dir string) string {
	var b strings.Builder
	b.WriteString(t.System)
	for i, s := range t.Skills {
		if i == 0 {
			if b.Len() > 0 {
				b.WriteString("\n\n")
			}
			b.WriteString("Skills are directories with instructions for certain tasks. When a task matches one, read its SKILL.md first and follow it.\n")
		}
		fmt.Fprintf(&b, "- %s (%s): %s\n", s.Name, path.Join(dir, s.Name, "SKILL.md"), skillDescription(s))
	}
	return b.String()
}

// skillDescription returns a skill's description on one line; "" if it has none
// that can be read.
func skillDescription(s agent.Skill) string {
	return strings.Join(strings.Fields(skill.Open(s.Files, s.Name).Description), " ")
}
