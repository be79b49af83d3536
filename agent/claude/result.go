package claude

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

// handleResult handles the result of a prompt, or of work that the agent did on
// its own after one: the last result is the prompt's.
func (t *conversation) handleResult(x agent.Exchange, b []byte) {
	var e resultMessage
	jsonlines.Decode(b, &e)
	t.endBlock(x, "")
	t.running, t.answered, t.queued = false, true, e.Queued > 0
	u := t.usageSinceLast(e)
	u.Requests = 0 // counted from the messages
	if u != (agent.Usage{Model: u.Model}) {
		t.emitEvent(x, "", agent.Event{Type: agent.UsageReported, Usage: &u})
	}
	r := &t.result
	r.Usage = r.Usage.Add(u)
	for _, d := range e.Denials {
		t.recordDenial(agent.ToolCall{ID: d.ID, Name: d.Name, Kind: toolKind(d.Name), Title: toolTitle(d.Name, d.Input), Input: nonNull(d.Input)})
	}
	r.Outcome, r.Code = t.decideOutcome(e)
	r.Text, r.Message, r.Structured = e.Result, "", nonNull(e.Structured)
	switch {
	case r.Outcome == agent.OK:
	case t.failure != "":
		r.Text, r.Message = "", badKeyMessage
	case r.Outcome == agent.Aborted: // its message is about the interrupt
		r.Text = ""
	default:
		r.Text, r.Message = "", failureMessage(e)
	}
	t.apiError = ""
}

// nonNull returns raw, or nil for JSON null.
func nonNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// outcomeBySubtype maps subtypes of results to outcomes.
var outcomeBySubtype = map[string]agent.Outcome{
	"error_max_turns":      agent.MaxTurns,
	"error_max_budget_usd": agent.BudgetExceeded,
}

// outcomeByReason maps terminal reasons to outcomes.
var outcomeByReason = map[string]agent.Outcome{
	"max_turns":         agent.MaxTurns,
	"budget_exhausted":  agent.BudgetExceeded,
	"aborted_tools":     agent.Aborted,
	"aborted_streaming": agent.Aborted,
}

// codeByError maps the program's error names to codes of results.
var codeByError = map[string]string{
	"authentication_failed": "authentication",
	"oauth_org_not_allowed": "authentication",
	"billing_error":         "billing",
	"rate_limit":            "rate_limit",
	"overloaded":            "overloaded",
	"server_error":          "server_error",
	"invalid_request":       "invalid_request",
	"model_not_found":       "not_found",
	"max_output_tokens":     "max_output",
}

// decideOutcome returns the outcome and code of a prompt. The program may report
// an error with the subtype success, and reports causes in several members.
func (t *conversation) decideOutcome(e resultMessage) (agent.Outcome, string) {
	if t.failure != "" {
		return agent.Failed, t.failure
	}
	if e.Stop == "refusal" && (e.IsError || e.Subtype != "success") {
		return agent.Refused, ""
	}
	for _, o := range []agent.Outcome{outcomeBySubtype[e.Subtype], outcomeByReason[e.Reason]} {
		if o != "" {
			return o, ""
		}
	}
	if !e.IsError && (e.Subtype == "success" || e.Subtype == "") {
		return agent.OK, ""
	}
	switch {
	case !t.started && t.turn.Session != "" && e.Subtype == "error_during_execution":
		return agent.Failed, "session_not_found" // it failed before its init line
	case e.Reason == "prompt_too_long":
		return agent.Failed, "prompt_too_long"
	case e.Subtype == "error_max_structured_output_retries":
		return agent.Failed, "structured_output"
	}
	if code := agent.ErrorCode(e.Status); code != "" {
		return agent.Failed, code
	}
	for _, w := range []string{e.APIError, t.apiError} {
		if code := codeByError[w]; code != "" {
			return agent.Failed, code
		}
	}
	return agent.Failed, ""
}

// failureMessage returns a line for display about a failure.
func failureMessage(e resultMessage) string {
	if e.Result != "" {
		return e.Result
	}
	return strings.Join(e.Errors, "; ")
}

// usageSinceLast returns the usage since the last result. Some versions report
// that, others the usage of this result with the total cost.
func (t *conversation) usageSinceLast(e resultMessage) agent.Usage {
	before := t.cost
	t.cost = e.Cost
	u := agent.Usage{Model: t.model}
	if e.Since != nil {
		var most int64 = -1
		for _, name := range slices.Sorted(maps.Keys(e.Since)) {
			s := e.Since[name]
			u = u.Add(agent.Usage{Input: clampTokens(s.Input), Output: clampTokens(s.Output), CacheRead: clampTokens(s.CacheRead), CacheWrite: clampTokens(s.CacheWrite), Cost: clampCost(s.Cost)})
			if s.Output > most {
				u.Model, most = name, s.Output
			}
		}
		return u
	}
	if e.Usage != nil {
		s := e.Usage
		u.Input, u.Output, u.CacheRead, u.CacheWrite = clampTokens(s.Input), clampTokens(s.Output), clampTokens(s.CacheRead), clampTokens(s.CacheWrite)
	}
	u.Cost = clampCost(e.Cost - before)
	return u
}

// clampTokens and clampCost replace impossible values.
func clampTokens(n int64) int64 { return max(0, min(n, 1<<50)) }

func clampCost(v float64) float64 {
	if math.IsNaN(v) || v < 0 || v > 1e12 {
		return 0
	}
	return v
}
