package assistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// maxRounds limits the requests to the model in one turn with tool calls.
const maxRounds = 32

// runModelTurn calls the model directly, and runs the tools that it calls.
func (r *turnRun) runModelTurn(ctx context.Context) (agent.Result, error) {
	if r.access == nil {
		return agent.Result{}, fmt.Errorf("%w: no connector", atoll.ErrInvalid)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-r.handle.Interrupted():
			cancel(errInterrupted)
		case <-over:
		}
	}()
	defer func() {
		close(over)
		<-watched
	}()
	d := r.newDirect(ctx)
	var err error
	if d.schema, err = compileSchema(d.query.Schema); err != nil {
		return agent.Result{}, err
	}
	r.emitEvent(agent.Event{Type: agent.Started, Started: &agent.Start{Agent: "model", Model: d.query.Model}})
	res, err := d.runRounds(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return agent.Result{Outcome: agent.Aborted, Code: "interrupted", Text: d.text, Turns: d.asked}, nil
	}
	return res, err
}

// errInterrupted is the cause that cancels an interrupted turn.
var errInterrupted = errors.New("interrupted")

// modelLoop is a turn of a model without an agent.
type modelLoop struct {
	r            *turnRun
	query        dialect.Request
	offer        *tool.Toolset
	hostTools    map[string]bool // names of the tools that the host runs
	clientTools  map[string]bool // names of the tools that the client runs
	usedHostTool bool            // the host ran a tool: the client can't continue without this turn
	asked        int
	text         string
	schema       *answerSchema // of the answer; nil: it is text
	held         []byte        // text of the current answer that is not emitted, since the answer may be corrected
	open         string        // kind of the current block of deltas
	block        []byte
}

// newDirect returns a loop with the request for the model.
func (r *turnRun) newDirect(ctx context.Context) *modelLoop {
	d := &modelLoop{r: r, query: r.query, hostTools: make(map[string]bool), clientTools: make(map[string]bool)}
	var more []tool.Tool
	if len(r.assistant.Skills) > 0 {
		more = append(more, skillTool(r.assistant.Skills))
	}
	d.offer = r.toolOffer(ctx, more...)
	for _, l := range d.offer.List() {
		d.hostTools[l.Name] = true
		d.query.Tools = append(d.query.Tools, dialect.Tool{Name: l.Name, Description: l.Description, Schema: l.Schema})
	}
	for _, t := range r.request.Tools {
		if !d.hostTools[t.Name] {
			d.clientTools[t.Name] = true
			d.query.Tools = append(d.query.Tools, t)
		}
	}
	d.query.Messages = append(slices.Clone(r.assistant.Prompts), r.messages...)
	if d.query.Model == "" {
		d.query.Model = r.connector.Model
	}
	d.query.Stream = true
	d.query.User = r.chat.Owner.String()
	return d
}

// runRounds calls the model until it calls no more tools.
func (d *modelLoop) runRounds(ctx context.Context) (agent.Result, error) {
	most := maxRounds
	if n := d.r.request.MaxTurns; n > 0 {
		most = min(n, most)
	}
	for d.asked < most {
		d.asked++
		a, err := d.r.access.Ask(ctx, &d.query, d.handleDelta)
		d.endBlock()
		if err != nil {
			return d.refusedResult(ctx, err)
		}
		d.storeText(a)
		uses := toolUses(a)
		if len(uses) == 0 || a.Stop != dialect.StopTool {
			res, more := d.checkAnswer(a)
			if !more {
				return res, nil
			}
			continue
		}
		d.emitHeld()
		results, wait, err := d.runCalls(ctx, uses)
		if err != nil {
			return agent.Result{}, err
		}
		if wait {
			res := d.buildResult(a)
			res.Code = "tool_calls"
			return res, nil
		}
		if d.query.ToolChoice != "none" {
			d.query.ToolChoice = "" // a required tool was called
		}
		d.query.Messages = append(d.query.Messages,
			dialect.Message{Role: dialect.Assistant, Parts: a.Parts}, dialect.Message{Role: dialect.User, Parts: results})
	}
	return agent.Result{Outcome: agent.MaxTurns, Text: d.text, Turns: d.asked, Message: fmt.Sprintf("the model was asked %d times", d.asked)}, nil
}

func toolUses(a *dialect.Response) []dialect.Part {
	var list []dialect.Part
	for _, p := range a.Parts {
		if p.Type == dialect.ToolUse {
			list = append(list, p)
		}
	}
	return list
}

// refusedResult returns the result for an error of the model's API.
func (d *modelLoop) refusedResult(ctx context.Context, err error) (agent.Result, error) {
	var api *dialect.Error
	if ctx.Err() != nil || !errors.As(err, &api) {
		return agent.Result{}, err
	}
	return agent.Result{Outcome: agent.Failed, Code: api.Code, Message: api.Message, Text: d.text, Turns: d.asked}, nil
}

// buildResult returns the result for the last answer.
func (d *modelLoop) buildResult(a *dialect.Response) agent.Result {
	res := agent.Result{Outcome: agent.OK, Text: d.text, Turns: d.asked, Usage: agent.Usage{Model: a.Model}}
	switch a.Stop {
	case dialect.StopLength:
		res.Code = "max_output"
	case dialect.StopRefused:
		res.Outcome = agent.Refused
	case dialect.StopEnd, dialect.StopTool, dialect.StopText:
	}
	if d.query.Schema != nil && json.Valid([]byte(d.text)) {
		res.Structured = json.RawMessage(d.text)
	}
	return res
}

// handleDelta emits a part of the answer.
func (d *modelLoop) handleDelta(x dialect.Delta) error {
	switch x.Type {
	case dialect.TextDelta:
		if d.schema != nil {
			d.switchBlock("")
			d.held = append(d.held, x.Text...)
			return nil
		}
		d.switchBlock("text")
		d.block = append(d.block, x.Text...)
		d.r.emitEvent(agent.Event{Type: agent.TextDelta, Text: x.Text})
	case dialect.ThinkingDelta:
		d.switchBlock("thought")
		d.block = append(d.block, x.Text...)
		d.r.emitEvent(agent.Event{Type: agent.ThoughtDelta, Text: x.Text})
	case dialect.ToolBegin:
		d.endBlock()
	case dialect.Begin, dialect.ThinkingEnd, dialect.ToolDelta, dialect.UsageReported, dialect.End, dialect.Failed:
	}
	return nil
}

// switchBlock ends the current block if it is of another kind.
func (d *modelLoop) switchBlock(kind string) {
	if d.open != kind {
		d.endBlock()
		d.open = kind
	}
}

// endBlock emits the whole text of the current block.
func (d *modelLoop) endBlock() {
	switch d.open {
	case "text":
		d.r.emitEvent(agent.Event{Type: agent.TextDone, Text: string(d.block)})
	case "thought":
		d.r.emitEvent(agent.Event{Type: agent.ThoughtDone, Text: string(d.block)})
	}
	d.open, d.block = "", nil
}

// storeText stores the text of an answer.
func (d *modelLoop) storeText(a *dialect.Response) {
	if text := messageText(dialect.Message{Parts: a.Parts}); text != "" {
		d.text = text
	}
}

// runCalls runs the tool calls of one answer: host tools here, client tools through
// the client. A call of a tool that does not exist is answered with an error to the model. wait: only client
// tools were called and no host tool was used, so the turn ends and the client continues with a new request.
func (d *modelLoop) runCalls(ctx context.Context, uses []dialect.Part) (results []dialect.Part, wait bool, err error) {
	mine := 0 // calls that are answered here
	for _, u := range uses {
		if !d.clientTools[u.Name] {
			mine++
			d.usedHostTool = d.usedHostTool || d.hostTools[u.Name]
		}
	}
	d.usedHostTool = d.usedHostTool || mine > 0 && mine < len(uses) // the client does not know the others
	if !d.usedHostTool && mine == 0 && !d.r.request.AnswersCalls {
		for _, u := range uses {
			d.r.emitEvent(agent.Event{Type: agent.ClientToolCalled, Tool: &agent.ToolCall{ID: u.ID, Name: u.Name, Kind: agent.Other, Input: u.Input}})
		}
		return nil, true, nil
	}
	type done struct {
		at   int
		part dialect.Part
		err  error
	}
	ended := make(chan done, len(uses))
	for i, u := range uses {
		go func() {
			p, err := d.runCall(ctx, i, u)
			ended <- done{i, p, err}
		}()
	}
	results = make([]dialect.Part, len(uses))
	for range uses {
		x := <-ended
		results[x.at] = x.part
		err = errors.Join(err, x.err)
	}
	return results, false, err
}

// runCall runs one call.
func (d *modelLoop) runCall(ctx context.Context, at int, u dialect.Part) (dialect.Part, error) {
	res := dialect.Part{Type: dialect.ToolResult, ID: u.ID, Name: u.Name}
	call := agent.ToolCall{ID: u.ID, Name: u.Name, Kind: agent.Other, Input: u.Input}
	if !d.hostTools[u.Name] && !d.clientTools[u.Name] {
		return d.refuseCall(res, call), nil
	}
	if !d.hostTools[u.Name] {
		call.ID = fmt.Sprintf("call_%s_%d_%d", d.r.id, d.asked, at) // ids of models are not unique
		text, failed, err := d.r.handle.CallClientTool(ctx, call)
		res.Parts, res.Failed = textParts(text), failed
		return res, err
	}
	call.Kind = agent.MCP
	d.r.emitEvent(agent.Event{Type: agent.ToolStarted, Tool: &call})
	out, err := d.offer.Call(ctx, u.Name, u.Input, nil)
	if err != nil {
		return res, err
	}
	text := out.Text
	if text == "" && out.Structured != nil {
		if b, err := json.Marshal(out.Structured); err == nil {
			text = string(b)
		}
	}
	res.Parts, res.Failed = textParts(text), out.Failed
	for _, img := range out.Images {
		res.Parts = append(res.Parts, dialect.Part{Type: dialect.ImagePart, MediaType: img.Type, Data: img.Data})
	}
	call.Status, call.Output = agent.Completed, text
	if out.Failed {
		call.Status = agent.ToolFailed
	}
	d.r.emitEvent(agent.Event{Type: agent.ToolFinished, Tool: &call})
	return res, nil
}

// refuseCall answers a call of a tool that was not offered.
func (d *modelLoop) refuseCall(res dialect.Part, call agent.ToolCall) dialect.Part {
	var names []string
	for _, t := range d.query.Tools {
		names = append(names, t.Name)
	}
	text := fmt.Sprintf("there is no tool %q", truncateName(call.Name))
	if len(names) > 0 {
		text += "; the tools are: " + strings.Join(names, ", ")
	}
	d.r.emitEvent(agent.Event{Type: agent.ToolStarted, Tool: &call})
	call.Status, call.Output, call.Reason = agent.ToolFailed, text, "no such tool"
	d.r.emitEvent(agent.Event{Type: agent.ToolFinished, Tool: &call})
	res.Parts, res.Failed = textParts(text), true
	return res
}
