package assistant

import (
	"context"
	"slices"
	"sync"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// veil is a desk that hears nothing of the secrets of the turn's sandbox. Its
// methods may be called at once.
type veil struct {
	Desk

	mu   sync.Mutex
	sb   *fleet.Sandbox // nil: not made yet; guarded by mu, as all below
	held agent.Event    // a delta, of which Text may be the beginning of a secret; without Text: none
}

// over hides the secrets of a sandbox from now on.
func (v *veil) over(sb *fleet.Sandbox) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sb = sb
}

func (v *veil) redactor() fleet.Redactor {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now()
}

// now is called with mu held.
func (v *veil) now() fleet.Redactor {
	if v.sb == nil {
		return fleet.Redactor{}
	}
	return v.sb.Redactor()
}

// Emit tells of an event. A delta's end that may begin a secret waits for what
// comes next.
func (v *veil) Emit(e agent.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.now()
	goesOn := e.Type == v.held.Type && e.Parent == v.held.Parent && e.Session == v.held.Session
	if v.held.Text != "" && !goesOn && !slices.Contains([]agent.Type{agent.UsageTold, agent.Raw, agent.Retrying}, e.Type) {
		v.flush(r)
	}
	if e.Type != agent.TextDelta && e.Type != agent.ThoughtDelta {
		v.Desk.Emit(hideEvent(r, e))
		return
	}
	told, rest := r.Hold(v.held.Text + e.Text)
	v.held = e
	v.held.Text = rest
	if e.Text = told; told != "" {
		v.Desk.Emit(e)
	}
}

// flush tells what was held back: it is no secret, or one that was not said to
// its end. It is called with mu held.
func (v *veil) flush(r fleet.Redactor) {
	e := v.held
	v.held = agent.Event{}
	if e.Text = r.Text(e.Text); e.Text != "" {
		v.Desk.Emit(e)
	}
}

// end tells what is held back, and returns the result and the error of a turn as
// they may be told.
func (v *veil) end(res agent.Result, err error) (agent.Result, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.now()
	v.flush(r)
	return hideResult(r, res), r.Error(err)
}

// Decide asks for a permission.
func (v *veil) Decide(ctx context.Context, p agent.Permission) (agent.Decision, error) {
	p.Tool = hideCall(v.redactor(), p.Tool)
	return v.Desk.Decide(ctx, p)
}

// Want has the client call a tool.
func (v *veil) Want(ctx context.Context, call agent.ToolCall) (string, bool, error) {
	return v.Desk.Want(ctx, hideCall(v.redactor(), call))
}

// hideEvent returns an event without secrets; what it points to stays as it is.
func hideEvent(r fleet.Redactor, e agent.Event) agent.Event {
	if r.Idle() {
		return e
	}
	e.Text, e.Raw = r.Text(e.Text), r.JSON(e.Raw)
	if e.Started != nil {
		s := *e.Started
		s.Version, s.Model, s.Tools, s.Skills = r.Text(s.Version), r.Text(s.Model), hideAll(r, s.Tools), hideAll(r, s.Skills)
		s.MCP = slices.Clone(s.MCP)
		for i := range s.MCP {
			s.MCP[i] = agent.MCPServer{Name: r.Text(s.MCP[i].Name), Status: r.Text(s.MCP[i].Status)}
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
		e.Plan[i].Text = r.Text(e.Plan[i].Text)
	}
	if e.Retry != nil {
		again := *e.Retry
		again.Message = r.Text(again.Message)
		e.Retry = &again
	}
	if e.Result != nil {
		res := hideResult(r, *e.Result)
		e.Result = &res
	}
	return e
}

func hideResult(r fleet.Redactor, res agent.Result) agent.Result {
	if r.Idle() {
		return res
	}
	res.Text, res.Message, res.Stderr, res.Structured = r.Text(res.Text), r.Text(res.Message), r.Text(res.Stderr), r.JSON(res.Structured)
	res.Denials = slices.Clone(res.Denials)
	for i := range res.Denials {
		res.Denials[i] = hideCall(r, res.Denials[i])
	}
	return res
}

func hideCall(r fleet.Redactor, c agent.ToolCall) agent.ToolCall {
	if r.Idle() {
		return c
	}
	c.Name, c.Title, c.Output, c.Reason = r.Text(c.Name), r.Text(c.Title), r.Text(c.Output), r.Text(c.Reason)
	c.Input, c.Locations, c.Diffs = r.JSON(c.Input), hideAll(r, c.Locations), slices.Clone(c.Diffs)
	for i := range c.Diffs {
		d := &c.Diffs[i]
		d.Path, d.New = r.Text(d.Path), r.Text(d.New)
		if d.Old != nil {
			old := r.Text(*d.Old)
			d.Old = &old
		}
	}
	return c
}

func hideAll(r fleet.Redactor, list []string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = r.Text(list[i])
	}
	return list
}
