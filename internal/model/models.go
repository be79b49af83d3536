package model

import (
	"net/http"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// listModels writes the list of models in a format for clients of every dialect.
func (a *Access) listModels(w http.ResponseWriter, t route) {
	names := a.modelNames()
	if t.api == dialect.Gemini {
		models := []map[string]any{}
		for _, n := range names {
			models = append(models, geminiModel(n))
		}
		writeJSON(w, map[string]any{"models": models})
		return
	}
	data := []map[string]any{}
	for _, n := range names {
		data = append(data, a.describeModel(n))
	}
	doc := map[string]any{"object": "list", "data": data, "has_more": false, "first_id": nil, "last_id": nil}
	if len(names) > 0 {
		doc["first_id"], doc["last_id"] = names[0], names[len(names)-1]
	}
	writeJSON(w, doc)
}

func geminiModel(name string) map[string]any {
	return map[string]any{
		"name": "models/" + name, "displayName": name, "supportedGenerationMethods": []string{"generateContent", "streamGenerateContent", "countTokens"},
	}
}

// describeModel describes a model in the formats of both OpenAI and Anthropic.
func (a *Access) describeModel(name string) map[string]any {
	return map[string]any{
		"id": name, "object": "model", "type": "model", "display_name": name, "owned_by": a.Connector.Name,
		"created": 0, "created_at": time.Unix(0, 0).UTC().Format(time.RFC3339),
	}
}

// writeModel writes the description of one model.
func (a *Access) writeModel(w http.ResponseWriter, t route, d dialect.Dialect) {
	if !slices.Contains(a.modelNames(), t.model) && !slices.Contains(a.Connector.Models, "*") {
		d.WriteError(w, &dialect.Error{Status: http.StatusNotFound, Code: "not_found", Message: "atoll: there is no such model"})
		return
	}
	doc := a.describeModel(t.model)
	for k, v := range geminiModel(t.model) {
		doc[k] = v
	}
	writeJSON(w, doc)
}
