// Package openai has the parts of OpenAI's API besides chat completions, with the assistants of a
// server as its models.
package openai

import "github.com/atoll-sandbox/atoll/agent"

// Model is an assistant as a model.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // "model"
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// List is the list of all models.
type List struct {
	Object string  `json:"object"` // "list"
	Data   []Model `json:"data"`
}

// ModelOf returns an assistant as a model.
func ModelOf(a agent.AssistantInfo) Model {
	return Model{ID: a.ID, Object: "model", Created: a.Created, OwnedBy: "atoll"}
}

// ListOf returns assistants as models.
func ListOf(all []agent.AssistantInfo) List {
	l := List{Object: "list", Data: make([]Model, 0, len(all))}
	for _, a := range all {
		l.Data = append(l.Data, ModelOf(a))
	}
	return l
}
