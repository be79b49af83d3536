package assistant

import (
	"context"
	"slices"
	"sync"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/session"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// redactingTurn is a TurnHandle that removes the secrets of the turn's sandbox from
// events. Its methods are safe for concurrent use.
type redactingTurn struct {
	TurnHandle

	journal *session.Journal

	mu        sync.Mutex
	sb        *fleet.Sandbox // nil: not created yet; guarded by mu, as all below
	heldDelta agent.Event    // a delta whose Text may be the beginning of a secret; without Text: none
}

// setSandbox sets the sandbox whose secrets are removed from now on.
func (v *redactingTurn) setSandbox(sb *fleet.Sandbox) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sb = sb
}

func (v *redactingTurn) lockedRedactor() fleet.Redactor {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.currentRedactor()
}

// currentRedactor returns the sandbox's redactor. The caller holds mu.
func (v *redactingTurn) currentRedactor() fleet.Redactor {
	if v.sb == nil {
		return fleet.Redactor{}
	}
	return v.sb.Redactor()
}

// Emit emits an event without secrets. The end of a delta that may begin a secret is
// held back until the next event.
func (v *redactingTurn) Emit(e agent.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.currentRedactor()
	goesOn := e.Type == v.heldDelta.Type && e.Parent == v.heldDelta.Parent && e.Session == v.heldDelta.Session
	if v.heldDelta.Text != "" && !goesOn && !slices.Contains([]agent.Type{agent.UsageReported, agent.Raw, agent.Retrying}, e.Type) {
		v.flush(r)
	}
	if e.Type != agent.TextDelta && e.Type != agent.ThoughtDelta {
		e = hideEvent(r, e)
		v.journal.NoteEvent(&e)
		v.TurnHandle.Emit(e)
		return
	}
	told, rest := r.Split(v.heldDelta.Text + e.Text)
	v.heldDelta = e
	v.heldDelta.Text = rest
	if e.Text = told; told != "" {
		v.TurnHandle.Emit(e)
	}
}

// flush emits the held delta: it is no secret, or an incomplete one. The caller holds
// mu.
func (v *redactingTurn) flush(r fleet.Redactor) {
	e := v.heldDelta
	v.heldDelta = agent.Event{}
	if e.Text = r.RedactText(e.Text); e.Text != "" {
		v.TurnHandle.Emit(e)
	}
}

// finishTurn emits the held delta, and returns the result of a turn without secrets.
func (v *redactingTurn) finishTurn(res agent.Result) agent.Result {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.currentRedactor()
	v.flush(r)
	return hideResult(r, res)
}

// Decide waits for the decision about a permission.
func (v *redactingTurn) Decide(ctx context.Context, p agent.Permission) (agent.Decision, error) {
	p.Tool = hideCall(v.lockedRedactor(), p.Tool)
	return v.TurnHandle.Decide(ctx, p)
}

// CallClientTool calls a tool of the client.
func (v *redactingTurn) CallClientTool(ctx context.Context, call agent.ToolCall) (string, bool, error) {
	v.journal.SetState(agent.SessionWaitingInput)
	defer v.journal.SetState(agent.SessionWorking)
	return v.TurnHandle.CallClientTool(ctx, hideCall(v.lockedRedactor(), call))
}

// hideEvent returns an event without secrets; it copies data behind pointers.
func hideEvent(r fleet.Redactor, e agent.Event) agent.Event {
	if r.IsEmpty() {
		return e
	}
	e.Text, e.Raw = r.RedactText(e.Text), r.RedactJSON(e.Raw)
	if e.Started != nil {
		s := *e.Started
		s.Version, s.Model, s.Tools, s.Skills = r.RedactText(s.Version), r.RedactText(s.Model), hideAll(r, s.Tools), hideAll(r, s.Skills)
		s.MCP = slices.Clone(s.MCP)
		for i := range s.MCP {
			s.MCP[i] = agent.MCPServer{Name: r.RedactText(s.MCP[i].Name), Status: r.RedactText(s.MCP[i].Status)}
		}
		e.Started = &s
	}
	if e.Tool != nil {
		c := hideCall(r, *e.Tool)
		e.Tool = &c
	}
	if e.Permission != nil {
		p := *e.Permission
		p.Tool = hideCall(r, p.Tool)
		e.Permission = &p
	}
	e.Plan = slices.Clone(e.Plan)
	for i := range e.Plan {
		e.Plan[i].Text = r.RedactText(e.Plan[i].Text)
	}
	if e.Retry != nil {
		again := *e.Retry
		again.Message = r.RedactText(again.Message)
		e.Retry = &again
	}
	if e.Result != nil {
		res := hideResult(r, *e.Result)
		e.Result = &res
	}
	return e
}

func hideResult(r fleet.Redactor, res agent.Result) agent.Result {
	if r.IsEmpty() {
		return res
	}
	res.Text, res.Message, res.Stderr, res.Structured = r.RedactText(res.Text), r.RedactText(res.Message), r.RedactText(res.Stderr), r.RedactJSON(res.Structured)
	res.Denials = slices.Clone(res.Denials)
	for i := range res.Denials {
		res.Denials[i] = hideCall(r, res.Denials[i])
	}
	return res
}

func hideCall(r fleet.Redactor, c agent.ToolCall) agent.ToolCall {
	if r.IsEmpty() {
		return c
	}
	c.Name, c.Title, c.Output, c.Reason = r.RedactText(c.Name), r.RedactText(c.Title), r.RedactText(c.Output), r.RedactText(c.Reason)
	c.Input, c.Locations, c.Diffs = r.RedactJSON(c.Input), hideAll(r, c.Locations), slices.Clone(c.Diffs)
	for i := range c.Diffs {
		d := &c.Diffs[i]
		d.Path, d.New = r.RedactText(d.Path), r.RedactText(d.New)
		if d.Old != nil {
			old := r.RedactText(*d.Old)
			d.Old = &old
		}
	}
	return c
}

func hideAll(r fleet.Redactor, list []string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = r.RedactText(list[i])
	}
	return list
}
