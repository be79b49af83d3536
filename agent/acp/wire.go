package acp

import (
	"encoding/json"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/jsonrpc"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

type agentInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type capabilities struct {
	Load    bool       `json:"loadSession"`
	Prompt  promptable `json:"promptCapabilities"`
	Session struct {
		Resume json.RawMessage `json:"resume"`
	} `json:"sessionCapabilities"`
}

// opening is the answer to a call for a session. Agents tell their models in
// one of two ways.
type opening struct {
	Session string `json:"sessionId"`
	Modes   struct {
		Current string `json:"currentModeId"`
	} `json:"modes"`
	Models struct {
		Current   string            `json:"currentModelId"`
		Available []json.RawMessage `json:"availableModels"`
	} `json:"models"`
	Options []struct {
		ID       string          `json:"id"`
		Category string          `json:"category"`
		Current  json.RawMessage `json:"currentValue"`
	} `json:"configOptions"`
}

// model returns the one that the session begins with.
func (o *opening) model() string {
	if o.Models.Current != "" {
		return o.Models.Current
	}
	for _, option := range o.Options {
		if option.Category == "model" {
			var value string
			lenient.Decode(option.Current, &value)
			return value
		}
	}
	return ""
}

// modelOption returns the id of the option that is the model.
func (o *opening) modelOption() (string, bool) {
	for _, option := range o.Options {
		if option.Category == "model" && option.ID != "" {
			return option.ID, true
		}
	}
	return "", false
}

// ending is the answer to a prompt. Tokens are told in one of two ways, or not
// at all.
type ending struct {
	Reason string `json:"stopReason"`
	Usage  *struct {
		Input      int64 `json:"inputTokens"`
		Output     int64 `json:"outputTokens"`
		Thought    int64 `json:"thoughtTokens"`
		CacheRead  int64 `json:"cachedReadTokens"`
		CacheWrite int64 `json:"cachedWriteTokens"`
	} `json:"usage"`
	Meta struct {
		Quota struct {
			Count struct {
				Input  int64 `json:"input_tokens"`
				Output int64 `json:"output_tokens"`
			} `json:"token_count"`
			Models []struct {
				Model string `json:"model"`
			} `json:"model_usage"`
		} `json:"quota"`
	} `json:"_meta"`
}

func (e *ending) usage() agent.Usage {
	if e.Usage != nil {
		return agent.Usage{Input: e.Usage.Input, Output: e.Usage.Output + e.Usage.Thought, CacheRead: e.Usage.CacheRead, CacheWrite: e.Usage.CacheWrite}
	}
	u := agent.Usage{Input: e.Meta.Quota.Count.Input, Output: e.Meta.Quota.Count.Output}
	if len(e.Meta.Quota.Models) > 0 {
		u.Model = e.Meta.Quota.Models[0].Model
	}
	return u
}

// failure makes a result of an error. Agents tell a status of HTTP, if any,
// in the error's data, or as its code.
func failure(e *jsonrpc.Error) agent.Result {
	var data struct {
		Status  int    `json:"statusCode"`
		Code    int    `json:"code"`
		Message string `json:"message"`
		Details string `json:"details"`
	}
	lenient.Decode(e.Data, &data)
	r := agent.Result{Outcome: agent.Failed, Message: e.Message, Code: "agent"}
	var text string
	switch {
	case data.Details != "":
		r.Message += ": " + data.Details
	case data.Message != "":
		r.Message += ": " + data.Message
	case lenient.Decode(e.Data, &text) && text != "":
		r.Message += ": " + text
	}
	switch {
	case e.Code == authRequired:
		r.Code = "authentication"
	case e.Code == resourceAbsent:
		r.Code = "not_found"
	}
	for _, status := range []int{data.Status, data.Code, e.Code} {
		if code := agent.Code(status); code != "" {
			r.Code = code
		}
	}
	return r
}
