// Package anthropic has the parts of Anthropic's API besides messages, with the assistants of a
// server as its models.
package anthropic

import (
	"time"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// Model is an assistant as a model.
type Model struct {
	Type    string    `json:"type"` // "model"
	ID      string    `json:"id"`
	Name    string    `json:"display_name"`
	Created time.Time `json:"created_at"`
}

// List is the list of all models, on one page.
type List struct {
	Data    []Model `json:"data"`
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
}

// ModelOf returns an assistant as a model.
func ModelOf(a agent.AssistantInfo) Model {
	m := Model{Type: "model", ID: a.ID, Name: a.Name, Created: time.Unix(a.Created, 0).UTC()}
	if m.Name == "" {
		m.Name = a.ID
	}
	return m
}

// ListOf returns assistants as models.
func ListOf(all []agent.AssistantInfo) List {
	l := List{Data: make([]Model, 0, len(all))}
	for _, a := range all {
		l.Data = append(l.Data, ModelOf(a))
	}
	if n := len(l.Data); n > 0 {
		l.FirstID, l.LastID = &l.Data[0].ID, &l.Data[n-1].ID
	}
	return l
}

// Count is the response of token counting.
type Count struct {
	InputTokens int64 `json:"input_tokens"`
}

// Estimates of tokens: only the vendor of a model can count them, and an assistant may use any
// model.
const (
	bytesOfToken  = 4
	tokensOfImage = 1600
	tokensOfTurn  = 4
)

// CountOf estimates the tokens of a request.
func CountOf(q *dialect.Request) Count {
	text, tokens := 0, int64(0)
	for _, m := range q.Messages {
		tokens += tokensOfTurn
		for _, p := range append([]dialect.Part(nil), m.Parts...) {
			text += len(p.Text) + len(p.Input) + len(p.Name)
			for _, inner := range p.Parts {
				text += len(inner.Text)
			}
			if p.Type == dialect.ImagePart {
				tokens += tokensOfImage
			}
		}
	}
	for _, t := range q.Tools {
		text += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return Count{InputTokens: tokens + int64((text+bytesOfToken-1)/bytesOfToken)}
}
