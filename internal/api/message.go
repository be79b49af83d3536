package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// sendMessage is a message to a turn.
type sendMessage struct {
	TurnKey

	Body messageRequest
}

// messageRequest is the body of sendMessage.
type messageRequest struct {
	ID     string          `json:"id,omitempty" pattern:"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" doc:"A UUID; a request that repeats it sends nothing again. Empty: a new one."`
	Prompt []agent.Content `json:"prompt" minItems:"1" doc:"The message."`
}

// answerTool is the result of a tool of the client.
type answerTool struct {
	TurnKey

	Body agent.ToolAnswer
}

// registerMessages registers messages to turns, and the repetition of failed ones.
func (s *Server) registerMessages(api huma.API) {
	noun := []string{"agents"}
	registerJSON(s, api, huma.Operation{
		OperationID: "send-message", Method: http.MethodPost, Path: "/v1/turns/{id}/messages", Tags: noun, Summary: "Send a message to a turn",
		Description: "An agent that reads messages while it works gets it at once; its result then answers it, too. " +
			"For every other one it becomes the prompt of a queued turn of the chat, and the response says why.",
		Errors: []int{404, 409, 507}, MaxBodyBytes: turnBody,
	}, func(ctx context.Context, a *fleet.Account, in *sendMessage) (*reply[agent.Delivery], error) {
		d, err := s.turnRegistryFor(a, "send", in.ID, atoll.ScopeRun)
		if err != nil {
			return nil, err
		}
		return oneReply(s.deliverMessage(ctx, d, a, in.ID, agent.Message{ID: in.Body.ID, Prompt: in.Body.Prompt}))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "answer-tool-call", Method: http.MethodPost, Path: "/v1/turns/{id}/tool-answers", Tags: noun, Summary: "Send the result of a tool of the client",
		Description: "For each event of type tool.wanted of a turn with client_tools.", Errors: []int{404, 409}, MaxBodyBytes: turnBody,
	}, func(ctx context.Context, a *fleet.Account, in *answerTool) (*noBody, error) {
		d, err := s.turnRegistryFor(a, "answer tool call", in.ID, atoll.ScopeRun)
		if err != nil {
			return nil, err
		}
		return emptyReply(d.AnswerTurn(ctx, a.Caller().Owner, in.ID, in.Body.Call, turn.ToolAnswer{Text: in.Body.Text, Failed: in.Body.Failed}))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "retry-turn", Method: http.MethodPost, Path: "/v1/turns/{id}/retry", Tags: noun, Summary: "Repeat a turn that has failed",
		Description: "The new turn has the same request, in the same chat, after the turns that are queued in it.", Errors: []int{404, 409, 507},
	}, func(ctx context.Context, a *fleet.Account, in *TurnKey) (*reply[agent.Record], error) {
		d, err := s.turnRegistryFor(a, "retry", in.ID, atoll.ScopeRun)
		if err != nil {
			return nil, err
		}
		return oneReply(s.retryTurn(ctx, d, a, in.ID))
	})
}

// deliverMessage sends a message to the agent of a turn, or queues it as the prompt of the next one.
func (s *Server) deliverMessage(ctx context.Context, d *turn.Registry, a *fleet.Account, id string, m agent.Message) (agent.Delivery, error) {
	if err := assistant.CheckPrompt(m.Prompt); err != nil {
		return agent.Delivery{}, &atoll.Error{Op: "send", ID: shorten(id), Err: err}
	}
	if m.ID == "" {
		m.ID = agent.NewMessageID()
	}
	owner := a.Caller().Owner
	next := messageTurn(m.ID)
	if r, err := d.Get(owner, next); err == nil { // the request is repeated
		return agent.Delivery{ID: m.ID, State: turn.Queued, Turn: &r}, nil
	}
	err := d.Send(ctx, owner, id, m)
	if err == nil {
		return agent.Delivery{ID: m.ID, State: string(agent.MessageSent)}, nil
	}
	rec, has := d.Get(owner, id)
	if has != nil || rec.State == turn.Finished || !errors.Is(err, atoll.ErrState) && !errors.Is(err, atoll.ErrUnsupported) {
		return agent.Delivery{}, err
	}
	q, qerr := s.queueMessage(ctx, d, a, rec, m)
	if qerr != nil {
		return agent.Delivery{}, qerr
	}
	var why *atoll.Error
	reason := err
	if errors.As(err, &why) {
		reason = why.Err
	}
	return agent.Delivery{ID: m.ID, State: turn.Queued, Turn: &q, Reason: reason.Error()}, nil
}

// messageTurn returns the id of the turn whose prompt a message becomes.
func messageTurn(message string) string { return "m" + strings.ReplaceAll(message, "-", "") }

// queueMessage queues a message as the prompt of the next turn of a turn's chat, with that turn's request. A message is queued once.
func (s *Server) queueMessage(ctx context.Context, d *turn.Registry, a *fleet.Account, rec agent.Record, m agent.Message) (agent.Record, error) {
	var stored assistant.StoredRequest
	if err := d.Request(rec.Owner, rec.ID, &stored); err != nil {
		return agent.Record{}, err
	}
	m.Prompt = slices.Clone(m.Prompt)
	for i := range m.Prompt {
		m.Prompt[i].Path = "" // where the agent that has dropped it was to find it
	}
	ask := stored.For(a)
	ask.Messages, ask.Tools = nil, nil
	ask.ID, ask.Chat, ask.Queue, ask.Prompt, ask.Turn.Session = messageTurn(m.ID), rec.Chat, true, m.Prompt, ""
	t, err := s.queueTurnAs(ctx, ask, "")
	if errors.Is(err, atoll.ErrExists) { // a request that repeats it was faster
		return d.Get(rec.Owner, messageTurn(m.ID))
	}
	if err != nil {
		return agent.Record{}, err
	}
	return t.Record(), nil
}

// runWithMessages runs a turn. Messages that its agent had and dropped are queued again, unless the turn was interrupted or cancelled.
func (s *Server) runWithMessages(ctx context.Context, d *turn.Registry, a *fleet.Account, t *turn.Turn, run func() (agent.Result, error)) (agent.Result, error) {
	res, err := run()
	select {
	case <-t.Interrupted():
		return res, err
	default:
	}
	if err != nil || res.Outcome == agent.Aborted || ctx.Err() != nil {
		return res, err
	}
	ctx = context.WithValue(ctx, callKey{}, &call{id: t.ID(), caller: a.Caller(), account: a}) // the request that started the turn is over
	for _, m := range t.Dropped() {
		q, err := s.queueMessage(ctx, d, a, t.Record(), m)
		if err != nil {
			t.Emit(agent.Event{Type: agent.Warning, Text: "a message that the agent has not read is not queued again: " + err.Error()})
			continue
		}
		t.Emit(agent.Event{Type: agent.MessageChanged, Message: &agent.Message{ID: m.ID, State: agent.MessageQueued, Turn: q.ID}})
	}
	return res, nil
}

// retryTurn starts a turn with the request of one that has failed.
func (s *Server) retryTurn(ctx context.Context, d *turn.Registry, a *fleet.Account, id string) (agent.Record, error) {
	owner := a.Caller().Owner
	rec, err := d.Get(owner, id)
	switch {
	case err != nil:
	case rec.State != turn.Finished:
		err = &atoll.Error{Op: "retry", ID: shorten(id), Err: fmt.Errorf("%w: the turn has not ended; cancel it first", atoll.ErrState)}
	case rec.Result != nil && rec.Result.Outcome == agent.OK:
		err = &atoll.Error{Op: "retry", ID: shorten(id), Err: fmt.Errorf("%w: the turn has not failed", atoll.ErrState)}
	}
	var stored assistant.StoredRequest
	if err == nil {
		err = d.Request(owner, id, &stored)
	}
	if err != nil {
		return agent.Record{}, err
	}
	ask := stored.For(a)
	ask.ID, ask.Chat, ask.Queue = "", rec.Chat, true
	t, err := s.queueTurnAs(ctx, ask, id)
	if err != nil {
		return agent.Record{}, err
	}
	return t.Record(), nil
}

// queueTurn queues a turn after those of its chat. It goes on as startTurn says.
func (s *Server) queueTurn(ctx context.Context, _ *Agents, ask *assistant.TurnRequest) (*turn.Turn, error) {
	return s.queueTurnAs(ctx, ask, "")
}

// queueTurnAs queues a turn that repeats another one, if that is named.
func (s *Server) queueTurnAs(ctx context.Context, ask *assistant.TurnRequest, retryOf string) (*turn.Turn, error) {
	has, err := s.agents()
	if err != nil {
		return nil, err
	}
	job, err := has.Pipeline.Queue(ctx, ask)
	if err != nil {
		return nil, err
	}
	req := callOf(ctx)
	n := turn.NewTurn{Record: job.Record(), Request: ask.Stored(), Queued: true, Secret: ask.IsSecret()}
	n.Record.RetryOf = retryOf
	t, err := has.Turns.StartTurn(n, func(ctx context.Context, t *turn.Turn) (agent.Result, error) { //nolint:contextcheck // the turn outlives the request
		defer s.endWithToken(ctx, req, t)()
		return s.runWithMessages(ctx, has.Turns, ask.Account, t, func() (agent.Result, error) { return job.Run(ctx, t.ID(), t) })
	})
	if err != nil {
		job.Release()
	}
	return t, err
}

// resumeQueued queues a turn again that another server has left in its queue.
func (s *Server) resumeQueued(a *Agents, left turn.Left) (turn.Work, error) {
	job, caller, err := a.Pipeline.QueueStored(s.lifetime, left.Record, left.Request, s.fleet.Account)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, handle *turn.Turn) (agent.Result, error) {
		defer s.endWithToken(ctx, &call{id: left.Record.ID, caller: caller}, handle)()
		return s.runWithMessages(ctx, a.Turns, s.fleet.Account(caller), handle, func() (agent.Result, error) { return job.Run(ctx, handle.ID(), handle) })
	}, nil
}

// dialectTools returns the tools of a client as requests to models have them.
func dialectTools(list []agent.ClientTool) []dialect.Tool {
	var tools []dialect.Tool
	for _, t := range list {
		tools = append(tools, dialect.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	return tools
}
