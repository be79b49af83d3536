package assistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/dialect"
	"github.com/atoll-sandbox/atoll/internal/tool"
)

// maxRounds is how often the model is asked in one turn, when it goes on calling
// tools.
const maxRounds = 32

// modelTurn asks the model itself, and calls for it what it may call here.
func (r *run) modelTurn(ctx context.Context) (agent.Result, error) {
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
		case <-r.desk.Interrupted():
			cancel(errInterrupted)
		case <-over:
		}
	}()
	defer func() {
		close(over)
		<-watched
	}()
	d := r.newDirect(ctx)
	r.emit(agent.Event{Type: agent.Started, Started: &agent.Start{Agent: "model", Model: d.query.Model}})
	res, err := d.rounds(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return agent.Result{Outcome: agent.Aborted, Code: "interrupted", Text: d.text, Turns: d.asked}, nil
	}
	return res, err
}

// errInterrupted ends a turn that somebody interrupts.
var errInterrupted = errors.New("interrupted")

// direct is a turn of a model without an agent.
type direct struct {
	r     *run
	query dialect.Request
	offer *tool.Offer
	mine  map[string]bool // tools that are called here
	used  bool            // one of them was: the client can't go on without this turn
	asked int
	text  string
	open  string // the kind of block that deltas are of
	block []byte
}

// newDirect says what the model is asked.
func (r *run) newDirect(ctx context.Context) *direct {
	d := &direct{r: r, query: r.query, mine: make(map[string]bool)}
	var more []tool.Tool
	if len(r.made.Skills) > 0 {
		more = append(more, skillTool(r.made.Skills))
	}
	d.offer = r.offer(ctx, more...)
	for _, l := range d.offer.List() {
		d.mine[l.Name] = true
		d.query.Tools = append(d.query.Tools, dialect.Tool{Name: l.Name, Description: l.Description, Schema: l.Schema})
	}
	for _, t := range r.ask.Tools {
		if !d.mine[t.Name] {
			d.query.Tools = append(d.query.Tools, t)
		}
	}
	d.query.Messages = append(slices.Clone(r.made.Prompts), r.messages...)
	if d.query.Model == "" {
		d.query.Model = r.conn.Model
	}
	d.query.Stream = true
	d.query.User = r.chat.Owner.String()
	return d
}

// rounds asks the model until it calls nothing any more.
func (d *direct) rounds(ctx context.Context) (agent.Result, error) {
	most := maxRounds
	if n := d.r.ask.MaxTurns; n > 0 {
		most = min(n, most)
	}
	for d.asked < most {
		d.asked++
		a, err := d.r.access.Ask(ctx, &d.query, d.delta)
		d.end()
		if err != nil {
			return d.refused(ctx, err)
		}
		d.say(a)
		uses := usesOf(a)
		if len(uses) == 0 || a.Stop != dialect.StopTool {
			return d.result(a), nil
		}
		results, wait, err := d.call(ctx, uses)
		if err != nil {
			return agent.Result{}, err
		}
		if wait {
			res := d.result(a)
			res.Code = "tool_calls"
			return res, nil
		}
		if d.query.ToolChoice != "none" {
			d.query.ToolChoice = "" // what it had to call was called
		}
		d.query.Messages = append(d.query.Messages,
			dialect.Message{Role: dialect.Assistant, Parts: a.Parts}, dialect.Message{Role: dialect.User, Parts: results})
	}
	return agent.Result{Outcome: agent.MaxTurns, Text: d.text, Turns: d.asked, Message: fmt.Sprintf("the model was asked %d times", d.asked)}, nil
}

func usesOf(a *dialect.Response) []dialect.Part {
	var list []dialect.Part
	for _, p := range a.Parts {
		if p.Type == dialect.ToolUse {
			list = append(list, p)
		}
	}
	return list
}

// refused is the result of a request that the model's API did not answer.
func (d *direct) refused(ctx context.Context, err error) (agent.Result, error) {
	var api *dialect.Error
	if ctx.Err() != nil || !errors.As(err, &api) {
		return agent.Result{}, err
	}
	return agent.Result{Outcome: agent.Failed, Code: api.Code, Message: api.Message, Text: d.text, Turns: d.asked}, nil
}

// result is what the last answer says.
func (d *direct) result(a *dialect.Response) agent.Result {
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

// delta tells a piece of the answer.
func (d *direct) delta(x dialect.Delta) error {
	switch x.Type {
	case dialect.TextDelta:
		d.turnTo("text")
		d.block = append(d.block, x.Text...)
		d.r.emit(agent.Event{Type: agent.TextDelta, Text: x.Text})
	case dialect.ThinkingDelta:
		d.turnTo("thought")
		d.block = append(d.block, x.Text...)
		d.r.emit(agent.Event{Type: agent.ThoughtDelta, Text: x.Text})
	case dialect.ToolBegin:
		d.end()
	case dialect.Begin, dialect.ThinkingEnd, dialect.ToolDelta, dialect.UsageTold, dialect.End, dialect.Failed:
	}
	return nil
}

// turnTo begins a block of a kind, if another is open.
func (d *direct) turnTo(kind string) {
	if d.open != kind {
		d.end()
		d.open = kind
	}
}

// end tells the block that has been told in pieces as a whole.
func (d *direct) end() {
	switch d.open {
	case "text":
		d.r.emit(agent.Event{Type: agent.TextDone, Text: string(d.block)})
	case "thought":
		d.r.emit(agent.Event{Type: agent.ThoughtDone, Text: string(d.block)})
	}
	d.open, d.block = "", nil
}

// say keeps the text of an answer.
func (d *direct) say(a *dialect.Response) {
	if text := said(dialect.Message{Parts: a.Parts}); text != "" {
		d.text = text
	}
}

// call does the calls of one answer: those of this side here, those of the
// client by telling it. wait: only the client's are open and nothing was done
// here that it does not know, so it goes on by asking anew.
func (d *direct) call(ctx context.Context, uses []dialect.Part) (results []dialect.Part, wait bool, err error) {
	for _, u := range uses {
		if d.mine[u.Name] {
			d.used = true
		}
	}
	if !d.used {
		for _, u := range uses {
			d.r.emit(agent.Event{Type: agent.ToolWanted, Tool: &agent.ToolCall{ID: u.ID, Name: u.Name, Kind: agent.Other, Input: u.Input}})
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
			p, err := d.callOne(ctx, i, u)
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

// callOne does one call.
func (d *direct) callOne(ctx context.Context, at int, u dialect.Part) (dialect.Part, error) {
	res := dialect.Part{Type: dialect.ToolResult, ID: u.ID, Name: u.Name}
	call := agent.ToolCall{ID: u.ID, Name: u.Name, Kind: agent.Other, Input: u.Input}
	if !d.mine[u.Name] {
		call.ID = fmt.Sprintf("call_%s_%d_%d", d.r.id, d.asked, at) // models may give the same twice
		text, failed, err := d.r.desk.Want(ctx, call)
		res.Parts, res.Failed = textParts(text), failed
		return res, err
	}
	call.Kind = agent.MCP
	d.r.emit(agent.Event{Type: agent.ToolStarted, Tool: &call})
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
		res.Parts = append(res.Parts, dialect.Part{Type: dialect.ImagePart, Media: img.Type, Data: img.Data})
	}
	call.Status, call.Output = agent.Completed, text
	if out.Failed {
		call.Status = agent.ToolFailed
	}
	d.r.emit(agent.Event{Type: agent.ToolFinished, Tool: &call})
	return res, nil
}
