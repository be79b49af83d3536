package claude

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// ends takes the result of a prompt, or of what the program did on its own
// after one: the last is that of the prompt.
func (t *talk) ends(x agent.Exchange, b []byte) {
	var e ending
	lenient.Decode(b, &e)
	t.hush(x, "")
	t.running, t.answered, t.queued = false, true, e.Queued > 0
	u := t.used(e)
	u.Requests = 0 // they were counted as they came
	if u != (agent.Usage{Model: u.Model}) {
		t.emit(x, "", agent.Event{Type: agent.UsageTold, Usage: &u})
	}
	r := &t.result
	r.Usage = r.Usage.Add(u)
	for _, d := range e.Denials {
		t.denies(agent.ToolCall{ID: d.ID, Name: d.Name, Kind: kind(d.Name), Title: title(d.Name, d.Input), Input: object(d.Input)})
	}
	r.Outcome, r.Code = t.judge(e)
	r.Text, r.Message, r.Structured = e.Result, "", object(e.Structured)
	switch {
	case r.Outcome == agent.OK:
	case t.failure != "":
		r.Text, r.Message = "", refused
	case r.Outcome == agent.Aborted: // what it complains of is its own
		r.Text = ""
	default:
		r.Text, r.Message = "", complaint(e)
	}
	t.reason = ""
}

// object returns JSON that says something.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// subtypes of results, and the outcomes they are.
var subtypes = map[string]agent.Outcome{
	"error_max_turns":      agent.MaxTurns,
	"error_max_budget_usd": agent.Spent,
}

// reasons of ends, and the outcomes they are.
var reasons = map[string]agent.Outcome{
	"max_turns":         agent.MaxTurns,
	"budget_exhausted":  agent.Spent,
	"aborted_tools":     agent.Aborted,
	"aborted_streaming": agent.Aborted,
}

// codes of failures, as the program has them and as results do.
var codes = map[string]string{
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

// judge says how a prompt ended. An error may be called a success, and what
// matters is told in several places.
func (t *talk) judge(e ending) (agent.Outcome, string) {
	if t.failure != "" {
		return agent.Failed, t.failure
	}
	if e.Stop == "refusal" && (e.IsError || e.Subtype != "success") {
		return agent.Refused, ""
	}
	for _, o := range []agent.Outcome{subtypes[e.Subtype], reasons[e.Reason]} {
		if o != "" {
			return o, ""
		}
	}
	if !e.IsError && (e.Subtype == "success" || e.Subtype == "") {
		return agent.OK, ""
	}
	switch {
	case !t.begun && t.turn.Session != "" && e.Subtype == "error_during_execution":
		return agent.Failed, "session_not_found" // it has not even begun
	case e.Reason == "prompt_too_long":
		return agent.Failed, "prompt_too_long"
	case e.Subtype == "error_max_structured_output_retries":
		return agent.Failed, "structured_output"
	}
	if code := agent.Code(e.Status); code != "" {
		return agent.Failed, code
	}
	for _, w := range []string{e.APIError, t.reason} {
		if code := codes[w]; code != "" {
			return agent.Failed, code
		}
	}
	return agent.Failed, ""
}

// complaint is a line for people on what went wrong.
func complaint(e ending) string {
	if e.Result != "" {
		return e.Result
	}
	return strings.Join(e.Errors, "; ")
}

// used returns what was used since the last result. Some versions tell that,
// the others what this result is of; their costs are sums.
func (t *talk) used(e ending) agent.Usage {
	before := t.cost
	t.cost = e.Cost
	u := agent.Usage{Model: t.model}
	if e.Since != nil {
		var most int64 = -1
		for _, name := range slices.Sorted(maps.Keys(e.Since)) {
			s := e.Since[name]
			u = u.Add(agent.Usage{Input: count(s.Input), Output: count(s.Output), CacheRead: count(s.CacheRead), CacheWrite: count(s.CacheWrite), Cost: money(s.Cost)})
			if s.Output > most {
				u.Model, most = name, s.Output
			}
		}
		return u
	}
	if e.Usage != nil {
		s := e.Usage
		u.Input, u.Output, u.CacheRead, u.CacheWrite = count(s.Input), count(s.Output), count(s.CacheRead), count(s.CacheWrite)
	}
	u.Cost = money(e.Cost - before)
	return u
}

// count and money leave out what can't be.
func count(n int64) int64 { return max(0, min(n, 1<<50)) }

func money(v float64) float64 {
	if math.IsNaN(v) || v < 0 || v > 1e12 {
		return 0
	}
	return v
}
