package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// Prompt does a turn, and tells the editor of it as it goes on.
func (s *acpAgent) Prompt(ctx context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	s.mu.Lock()
	session, ok := s.sessions[string(p.SessionId)]
	busy := ok && session.busy
	if ok && !busy {
		session.busy = true
	}
	s.mu.Unlock()
	switch {
	case !ok:
		return acp.PromptResponse{}, acp.NewInvalidParams(map[string]any{"error": "there is no such session"})
	case busy:
		return acp.PromptResponse{}, acp.NewInvalidRequest(map[string]any{"error": "the last prompt is not over"})
	}
	defer s.setIdle(session)
	r, err := s.buildRequest(session, p.Prompt)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	var warning string
	r.ClientTools, warning = session.tools.list(ctx)
	made, err := s.c.StartTurn(ctx, r)
	if err != nil {
		return acp.PromptResponse{}, acpError(err)
	}
	s.setTurn(session, made.ID)
	defer s.setTurn(session, "")
	t := &acpTurn{s: s, session: session, id: made.ID, decided: make(map[string]context.CancelFunc)}
	if warning != "" && warning != session.warning {
		session.warning = warning
		_ = t.sendEvent(ctx, agent.Event{Type: agent.Warning, Text: warning}) // an editor that is gone ends the connection
	}
	result, err := t.followTurn(ctx)
	if err != nil {
		return acp.PromptResponse{}, acpError(err)
	}
	reason, ok := outcomes[result.Outcome]
	if result.Code == "max_output" {
		reason, ok = acp.StopReasonMaxTokens, true
	}
	if !ok {
		return acp.PromptResponse{}, &acp.RequestError{Code: -32603, Message: result.Message, Data: map[string]any{"outcome": result.Outcome, "code": result.Code}}
	}
	u := result.Usage
	return acp.PromptResponse{StopReason: reason, Usage: &acp.Usage{
		InputTokens: int(u.Input), OutputTokens: int(u.Output), CachedReadTokens: acp.Ptr(int(u.CacheRead)),
		CachedWriteTokens: acp.Ptr(int(u.CacheWrite)), TotalTokens: int(u.Input + u.Output + u.CacheRead + u.CacheWrite),
	}}, nil
}

// setIdle marks that a session has no prompt.
func (s *acpAgent) setIdle(session *acpSession) {
	s.mu.Lock()
	session.busy = false
	s.mu.Unlock()
}

func (s *acpAgent) setTurn(session *acpSession, turn string) {
	s.mu.Lock()
	session.turn = turn
	s.mu.Unlock()
}

// acpTurn is a turn that an editor watches.
type acpTurn struct {
	s       *acpAgent
	session *acpSession
	id      string
	pieces  map[agent.Type]bool // texts of which pieces have come
	outputs map[string]string   // of calls, so far: the protocol wants all of it again

	asking  sync.WaitGroup
	mu      sync.Mutex
	decided map[string]context.CancelFunc // guarded by mu; ends the question to the editor
}

// followTurn sends the editor the events of the turn until its end. When ctx is done it
// interrupts the agent, and cancels the turn if that does not end it.
func (t *acpTurn) followTurn(ctx context.Context) (agent.Result, error) {
	var result agent.Result
	away := context.WithoutCancel(ctx)
	stop := context.AfterFunc(ctx, func() { t.cancelTurn(away) })
	defer stop()
	err := t.s.c.TurnEvents(away, t.id, 0, func(e agent.Event) error {
		if e.Type == agent.Finished {
			result = *e.Result
			return nil
		}
		return t.sendEvent(away, e)
	})
	t.mu.Lock()
	for _, cancel := range t.decided {
		cancel()
	}
	t.mu.Unlock()
	t.asking.Wait()
	return result, err
}

// haltGrace is how long an agent gets to stop when it was asked to.
const haltGrace = 10 * time.Second

// cancelTurn interrupts the turn; where that is not possible, or leads to nothing,
// it is ended.
func (t *acpTurn) cancelTurn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, haltGrace)
	defer cancel()
	if err := t.s.c.InterruptTurn(ctx, t.id); err == nil || errors.Is(err, atoll.ErrState) {
		return // the server ends what does not stop
	}
	_ = t.s.c.CancelTurn(ctx, t.id) // it may have ended
}

// sendEvent passes on an event. What the editor can't be told is left out; that it
// is gone ends the turn by the connection.
func (t *acpTurn) sendEvent(ctx context.Context, e agent.Event) error {
	switch e.Type {
	case agent.PermissionRequested:
		t.askPermission(ctx, *e.Permission)
		return nil
	case agent.ClientToolCalled:
		t.runTool(ctx, *e.Tool)
		return nil
	case agent.PermissionResolved:
		t.mu.Lock()
		if cancel, ok := t.decided[e.Permission.ID]; ok {
			cancel()
		}
		t.mu.Unlock()
		return nil
	}
	u, ok := t.convertEvent(e)
	if !ok {
		return nil
	}
	return t.s.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: acp.SessionId(t.session.id), Update: u})
}

// convertEvent is an event as the protocol has it.
func (t *acpTurn) convertEvent(e agent.Event) (acp.SessionUpdate, bool) {
	if t.pieces == nil {
		t.pieces = make(map[agent.Type]bool)
	}
	switch e.Type {
	case agent.TextDelta, agent.ThoughtDelta:
		t.pieces[e.Type] = true
		return textChunk(e.Type, e.Text), e.Text != ""
	case agent.TextDone:
		told := t.pieces[agent.TextDelta]
		t.pieces[agent.TextDelta] = false
		return textChunk(agent.TextDelta, e.Text), !told && e.Text != ""
	case agent.ThoughtDone:
		told := t.pieces[agent.ThoughtDelta]
		t.pieces[agent.ThoughtDelta] = false
		return textChunk(agent.ThoughtDelta, e.Text), !told && e.Text != ""
	case agent.ToolStarted, agent.ToolUpdated, agent.ToolFinished:
		return t.convertTool(e.Type, e.Tool), true
	case agent.PlanChanged:
		entries := make([]acp.PlanEntry, len(e.Plan))
		for i, p := range e.Plan {
			entries[i] = acp.PlanEntry{Content: p.Text, Status: acp.PlanEntryStatus(p.Status), Priority: acp.PlanEntryPriorityMedium}
		}
		return acp.UpdatePlan(entries...), true
	case agent.Warning, agent.Dropped:
		return textChunk(agent.ThoughtDelta, "("+e.Text+")\n"), true
	}
	return acp.SessionUpdate{}, false
}

func textChunk(kind agent.Type, text string) acp.SessionUpdate {
	if kind == agent.ThoughtDelta {
		return acp.UpdateAgentThoughtText(text)
	}
	return acp.UpdateAgentMessageText(text)
}

// convertTool converts a tool call to an update for the editor.
func (t *acpTurn) convertTool(kind agent.Type, c *agent.ToolCall) acp.SessionUpdate {
	var where []acp.ToolCallLocation
	for _, l := range c.Locations {
		where = append(where, acp.ToolCallLocation{Path: t.session.sandboxPath(l)})
	}
	var content []acp.ToolCallContent
	for _, d := range c.Diffs {
		diff := acp.ToolDiffContent(t.session.sandboxPath(d.Path), d.New)
		diff.Diff.OldText = d.Old
		content = append(content, diff)
	}
	if output := t.toolOutput(kind, c); output != "" {
		content = append(content, acp.ToolContent(acp.TextBlock(output)))
	}
	id := acp.ToolCallId(c.ID)
	if kind == agent.ToolStarted {
		return acp.StartToolCall(id, toolTitle(c), acp.WithStartKind(toolKind(c.Kind)), acp.WithStartStatus(acp.ToolCallStatusInProgress),
			acp.WithStartLocations(where), acp.WithStartContent(content), acp.WithStartRawInput(c.Input))
	}
	var opts []acp.ToolCallUpdateOpt
	if c.Title != "" {
		opts = append(opts, acp.WithUpdateTitle(c.Title))
	}
	if where != nil {
		opts = append(opts, acp.WithUpdateLocations(where))
	}
	if content != nil {
		opts = append(opts, acp.WithUpdateContent(content))
	}
	switch {
	case kind != agent.ToolFinished:
	case c.Status == agent.Completed:
		opts = append(opts, acp.WithUpdateStatus(acp.ToolCallStatusCompleted))
	default:
		opts = append(opts, acp.WithUpdateStatus(acp.ToolCallStatusFailed))
	}
	return acp.UpdateToolCall(id, opts...)
}

// maxShown bounds the output of a running call that is sent to the editor, in bytes.
const maxShown = 64 << 10

// toolOutput returns the output of a call so far.
func (t *acpTurn) toolOutput(kind agent.Type, c *agent.ToolCall) string {
	if kind == agent.ToolFinished {
		delete(t.outputs, c.ID)
		return c.Output
	}
	if c.Output == "" || len(t.outputs[c.ID]) > maxShown {
		return ""
	}
	if t.outputs == nil {
		t.outputs = make(map[string]string)
	}
	t.outputs[c.ID] += c.Output
	return t.outputs[c.ID]
}

func toolTitle(c *agent.ToolCall) string {
	if c.Title != "" {
		return c.Title
	}
	return c.Name
}

// toolKind is a kind as the protocol knows it.
func toolKind(k agent.Kind) acp.ToolKind {
	switch k {
	case agent.MCP, "":
		return acp.ToolKindOther
	}
	return acp.ToolKind(k)
}

// askPermission asks the editor for permission. What it does not answer is for others to
// decide, or for the deadline, which denies.
func (t *acpTurn) askPermission(ctx context.Context, p agent.Permission) {
	ctx, cancel := context.WithCancel(ctx)
	t.mu.Lock()
	t.decided[p.ID] = cancel
	t.mu.Unlock()
	t.asking.Add(1)
	go func() {
		defer t.asking.Done()
		defer cancel()
		name, isEditors := t.session.tools.nameOf(&p.Tool)
		if isEditors {
			p.Tool.Title = editorToolTitle(name)
		}
		answer, err := t.s.conn.RequestPermission(ctx, t.permissionRequest(p))
		if err != nil || answer.Outcome.Selected == nil && ctx.Err() != nil {
			return
		}
		d := agent.Decision{Message: "the user does not permit this"}
		if o := answer.Outcome.Selected; o != nil {
			switch string(o.OptionId) {
			case "allow":
				d = agent.Decision{Allow: true}
			case "always":
				d = agent.Decision{Allow: true, Always: true}
			}
			if isEditors && d.Allow {
				t.session.tools.allow(name, p.Tool.Input, d.Always)
			}
		}
		_ = t.s.c.DecideTurn(context.WithoutCancel(ctx), t.id, p.ID, d) // somebody else was faster
	}()
}

// permissionRequest is a request for permission as the protocol has it.
func (t *acpTurn) permissionRequest(p agent.Permission) acp.RequestPermissionRequest {
	call := acp.ToolCallUpdate{
		ToolCallId: acp.ToolCallId(p.Tool.ID), Title: acp.Ptr(toolTitle(&p.Tool)), Kind: acp.Ptr(toolKind(p.Tool.Kind)),
		Status: acp.Ptr(acp.ToolCallStatusPending), RawInput: p.Tool.Input,
	}
	for _, d := range p.Tool.Diffs {
		diff := acp.ToolDiffContent(t.session.sandboxPath(d.Path), d.New)
		diff.Diff.OldText = d.Old
		call.Content = append(call.Content, diff)
	}
	for _, l := range p.Tool.Locations {
		call.Locations = append(call.Locations, acp.ToolCallLocation{Path: t.session.sandboxPath(l)})
	}
	return acp.RequestPermissionRequest{
		SessionId: acp.SessionId(t.session.id),
		ToolCall:  call,
		Options: []acp.PermissionOption{
			{OptionId: "allow", Name: "Allow", Kind: acp.PermissionOptionKindAllowOnce},
			{OptionId: "always", Name: "Always allow", Kind: acp.PermissionOptionKindAllowAlways},
			{OptionId: "reject", Name: "Reject", Kind: acp.PermissionOptionKindRejectOnce},
		},
	}
}
