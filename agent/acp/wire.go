package acp

import (
	"encoding/json"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonrpc"
)

type agentInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type capabilities struct {
	Load    bool               `json:"loadSession"`
	Prompt  promptCapabilities `json:"promptCapabilities"`
	Session struct {
		Resume json.RawMessage `json:"resume"`
	} `json:"sessionCapabilities"`
}

// sessionInfo is the response to a call for a session. Agents report their models
// in one of two ways.
type sessionInfo struct {
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

// currentModel returns the model that the session begins with.
func (o *sessionInfo) currentModel() string {
	if o.Models.Current != "" {
		return o.Models.Current
	}
	for _, option := range o.Options {
		if option.Category == "model" {
			var value string
			jsonlines.Decode(option.Current, &value)
			return value
		}
	}
	return ""
}

// modelOption returns the id of the configuration option for the model.
func (o *sessionInfo) modelOption() (string, bool) {
	for _, option := range o.Options {
		if option.Category == "model" && option.ID != "" {
			return option.ID, true
		}
	}
	return "", false
}

// promptResult is the response to a prompt. Agents report tokens in one of two
// ways, or not at all.
type promptResult struct {
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

func (e *promptResult) tokenUsage() agent.Usage {
	if e.Usage != nil {
		return agent.Usage{Input: e.Usage.Input, Output: e.Usage.Output + e.Usage.Thought, CacheRead: e.Usage.CacheRead, CacheWrite: e.Usage.CacheWrite}
	}
	u := agent.Usage{Input: e.Meta.Quota.Count.Input, Output: e.Meta.Quota.Count.Output}
	if len(e.Meta.Quota.Models) > 0 {
		u.Model = e.Meta.Quota.Models[0].Model
	}
	return u
}

// failureResult returns the result for an error. Agents report an HTTP status, if
// any, in the error's data or as its code.
func failureResult(e *jsonrpc.Error) agent.Result {
	var data struct {
		Status  int    `json:"statusCode"`
		Code    int    `json:"code"`
		Message string `json:"message"`
		Details string `json:"details"`
	}
	jsonlines.Decode(e.Data, &data)
	r := agent.Result{Outcome: agent.Failed, Message: e.Message, Code: "agent"}
	var text string
	switch {
	case data.Details != "":
		r.Message += ": " + data.Details
	case data.Message != "":
		r.Message += ": " + data.Message
	case jsonlines.Decode(e.Data, &text) && text != "":
		r.Message += ": " + text
	}
	switch {
	case e.Code == authRequired:
		r.Code = "authentication"
	case e.Code == resourceAbsent:
		r.Code = "not_found"
	}
	for _, status := range []int{data.Status, data.Code, e.Code} {
		if code := agent.ErrorCode(status); code != "" {
			r.Code = code
		}
	}
	return r
}
