package acp

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/skill"
)

// promptable is what an agent takes in a prompt besides text and links.
type promptable struct {
	Image    bool `json:"image"`
	Audio    bool `json:"audio"`
	Embedded bool `json:"embeddedContext"`
}

type block map[string]any

// blocks returns a prompt in the protocol's form: what the agent does not take
// as it is becomes a link to the file that was placed.
func (c promptable) blocks(system string, prompt []agent.Content) []block {
	var list []block
	if system != "" {
		list = append(list, block{"type": "text", "text": system})
	}
	for _, p := range prompt {
		list = append(list, c.block(p))
	}
	return list
}

func (c promptable) block(p agent.Content) block {
	family, _, _ := strings.Cut(p.Type, "/")
	switch {
	case len(p.Data) == 0 && p.Path == "":
		return block{"type": "text", "text": p.Text}
	case family == "image" && c.Image && len(p.Data) > 0:
		return block{"type": "image", "mimeType": p.Type, "data": p.Data}
	case family == "audio" && c.Audio && len(p.Data) > 0:
		return block{"type": "audio", "mimeType": p.Type, "data": p.Data}
	case p.Path != "":
		return block{"type": "resource_link", "uri": fileURI(p.Path), "name": name(p), "mimeType": p.Type}
	case c.Embedded && utf8.Valid(p.Data):
		return block{"type": "resource", "resource": map[string]string{"uri": fileURI("/" + name(p)), "mimeType": p.Type, "text": string(p.Data)}}
	case c.Embedded:
		return block{"type": "resource", "resource": map[string]any{"uri": fileURI("/" + name(p)), "mimeType": p.Type, "blob": p.Data}}
	}
	return block{"type": "text", "text": fmt.Sprintf("[A file that could not be handed over: %s (%s)]", name(p), p.Type)}
}

func name(p agent.Content) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Path != "":
		return path.Base(p.Path)
	}
	return "attachment"
}

func fileURI(name string) string { return (&url.URL{Scheme: "file", Path: name}).String() }

// System returns what a turn's agent is to know before the first prompt, where
// there is no other place for it: the turn's own text, and the skills in dir by
// name and description, so that they are read when they are needed.
func System(t *agent.Turn, dir string) string {
	var b strings.Builder
	b.WriteString(t.System)
	for i, s := range t.Skills {
		if i == 0 {
			if b.Len() > 0 {
				b.WriteString("\n\n")
			}
			b.WriteString("Skills are directories with instructions for certain tasks. When a task matches one, read its SKILL.md first and follow it.\n")
		}
		fmt.Fprintf(&b, "- %s (%s): %s\n", s.Name, path.Join(dir, s.Name, "SKILL.md"), description(s))
	}
	return b.String()
}

// description is what a skill says of itself, on one line; empty if it says
// nothing that can be read.
func description(s agent.Skill) string {
	return strings.Join(strings.Fields(skill.Open(s.Files, s.Name).Description), " ")
}
