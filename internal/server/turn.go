package server

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/assistant"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/turn"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// turnBody is how long a request for a turn may be: files are in it.
const turnBody = 32 << 20

// TurnKey names the turn of a path. It is exported because huma reads only
// embedded structs that are.
type TurnKey struct {
	ID string `path:"id" doc:"The turn's id."`
}

// listTurns is what a list of turns is asked with.
type listTurns struct {
	Chat  string `query:"chat" doc:"Only those of this chat."`
	State string `query:"state" enum:"running,waiting,finished" doc:"Only those in this state."`
	Limit int    `query:"limit" minimum:"0" maximum:"1000" doc:"How many, the newest; 100 if it is not given."`
}

// answerPermission decides about a request for permission.
type answerPermission struct {
	TurnKey

	Body agent.Answer
}

// turns adds what agents and assistants are asked for.
func (s *Server) turns(api huma.API) {
	noun := []string{"agents"}
	s.startTurns(api)
	s.turnEvents(api)
	register(s, api, huma.Operation{
		OperationID: "list-turns", Method: http.MethodGet, Path: "/v1/turns", Tags: noun, Summary: "List turns, oldest first",
	}, func(ctx context.Context, a *fleet.Account, in *listTurns) (*reply[wire.List[agent.Record]], error) {
		d, err := s.desk(a, "list turns", atoll.ScopeRead)
		if d == nil || err != nil {
			return list[agent.Record](nil, err)
		}
		chat := in.Chat
		if chat != "" {
			chat = assistant.ChatKey(chat)
		}
		return list(d.List(a.Caller().Owner, turn.Filter{Chat: chat, State: in.State, Limit: in.Limit}))
	})
	register(s, api, huma.Operation{
		OperationID: "get-turn", Method: http.MethodGet, Path: "/v1/turns/{id}", Tags: noun, Summary: "All about a turn", Errors: []int{404},
	}, func(_ context.Context, a *fleet.Account, in *TurnKey) (*reply[agent.Record], error) {
		d, err := s.deskOf(a, "turn", in.ID, atoll.ScopeRead)
		if err != nil {
			return nil, err
		}
		return one(d.Get(a.Caller().Owner, in.ID))
	})
	register(s, api, huma.Operation{
		OperationID: "decide", Method: http.MethodPost, Path: "/v1/turns/{id}/decisions", Tags: noun, Summary: "Answer a request for permission",
		Description: "What nobody answers until its deadline is denied.", Errors: []int{404, 409},
	}, func(_ context.Context, a *fleet.Account, in *answerPermission) (*none, error) {
		d, err := s.deskOf(a, "decide", in.ID, atoll.ScopeRun)
		if err != nil {
			return nil, err
		}
		return done(d.Decide(a.Caller().Owner, in.ID, in.Body.Permission, callerName(a), in.Body.Decision))
	})
	register(s, api, huma.Operation{
		OperationID: "interrupt-turn", Method: http.MethodPost, Path: "/v1/turns/{id}/interrupt", Tags: noun, Summary: "Have the agent stop what it does", Errors: []int{404, 409},
	}, func(_ context.Context, a *fleet.Account, in *TurnKey) (*none, error) {
		d, err := s.deskOf(a, "interrupt", in.ID, atoll.ScopeRun)
		if err != nil {
			return nil, err
		}
		return done(d.Interrupt(a.Caller().Owner, in.ID))
	})
	register(s, api, huma.Operation{
		OperationID: "cancel-turn", Method: http.MethodDelete, Path: "/v1/turns/{id}", Tags: noun, Summary: "End a turn, or forget one that has ended", Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *TurnKey) (*none, error) {
		d, err := s.deskOf(a, "cancel turn", in.ID, atoll.ScopeRun)
		if err != nil {
			return nil, err
		}
		return done(d.Cancel(ctx, a.Caller().Owner, in.ID))
	})
}

// callerName names who decides.
func callerName(a *fleet.Account) string {
	if t := a.Caller().Token; t != "" {
		return t
	}
	return a.Caller().Owner.String()
}

// desk returns the desk, for a caller who may; nil: there is none.
func (s *Server) desk(a *fleet.Account, op string, scope atoll.Scope) (*turn.Desk, error) {
	if err := a.May(op, scope); err != nil {
		return nil, err
	}
	if s.opts.Agents == nil {
		return nil, nil
	}
	has, err := s.agents()
	if err != nil {
		return nil, err
	}
	return has.Desk, nil
}

// deskOf returns the desk that a turn would be on.
func (s *Server) deskOf(a *fleet.Account, op, id string, scope atoll.Scope) (*turn.Desk, error) {
	d, err := s.desk(a, op, scope)
	if err == nil && d == nil {
		err = &atoll.Error{Op: op, ID: clip(id), Err: atoll.ErrNotFound}
	}
	return d, err
}

// startTurns adds how turns begin.
func (s *Server) startTurns(api huma.API) {
	schemas := api.OpenAPI().Components.Schemas
	ask := schemas.Schema(reflect.TypeFor[agent.Request](), true, "")
	s.handle(api, huma.Operation{
		OperationID: "start-turn", Method: http.MethodPost, Path: "/v1/turns", Tags: []string{"agents"}, DefaultStatus: http.StatusAccepted,
		Summary: "Ask an agent or an assistant for something",
		Description: "The turn goes on by itself: its events tell of it. With stream=true, or where text/event-stream is accepted, the answer is those events; " +
			"that nobody reads them any more does not end the turn.",
		Parameters:  []*huma.Param{param("stream", "boolean", "Answer with the events of the turn.")},
		Errors:      []int{404, 409, 413, 415, 501, 507},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: ask}}},
		Responses: map[string]*huma.Response{
			"202": {Description: "Accepted", Content: map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(reflect.TypeFor[agent.Record](), true, "")}}},
			"200": {Description: "OK", Content: map[string]*huma.MediaType{eventStream: {Schema: &huma.Schema{Type: "string"}}}},
		},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		follow := q.flag("stream") || strings.Contains(r.Header.Get("Accept"), eventStream)
		if err := q.err(); err != nil {
			return err
		}
		if err := a.May("turn", atoll.ScopeRun); err != nil {
			return err
		}
		var in agent.Request
		if err := s.readLong(r, ask, turnBody, &in); err != nil {
			return err
		}
		has, err := s.agents()
		if err != nil {
			return err
		}
		t, err := s.startTurn(r.Context(), has, &assistant.Ask{Request: in, Account: a, Locale: r.Header.Get("Accept-Language")})
		if err != nil {
			return err
		}
		w.Header().Set("Location", "/v1/turns/"+t.ID())
		if !follow {
			return writeJSON(w, http.StatusAccepted, t.Record())
		}
		return s.followTurn(w, r, has.Desk, a, t.ID(), 0)
	})
}

// startTurn begins a turn that goes on until it ends, or the token that asked
// for it is not good any more.
func (s *Server) startTurn(ctx context.Context, has *Agents, ask *assistant.Ask) (*turn.Turn, error) {
	job, err := has.Pipeline.Prepare(ctx, ask)
	if err != nil {
		return nil, err
	}
	who := callOf(ctx)
	t, err := has.Desk.Start(job.Record(), func(ctx context.Context, t *turn.Turn) (agent.Result, error) { //nolint:contextcheck // it goes on
		defer s.leash(ctx, who, t)()
		return job.Do(ctx, t.ID(), t)
	})
	if err != nil {
		job.Drop()
	}
	return t, err
}

// leash ends a turn with the token that asked for it, until it is let go.
func (s *Server) leash(ctx context.Context, who *call, t *turn.Turn) (leave func()) {
	if who.caller.Token == "" {
		return func() {}
	}
	c := &call{id: who.id, caller: who.caller}
	return s.bearers.enter(ctx, c, s.bearers.now()-1, func() { t.Cancel(errSpent) }) // tokens revoked up to now are looked up
}

// readLong reads a body of JSON that may be longer than others.
func (s *Server) readLong(r *http.Request, schema *huma.Schema, limit int64, v any) error {
	if err := s.readSchema(r, schema, limit); err != nil {
		return err
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return cutOff(err)
	}
	if len(b) == 0 {
		return refuse(http.StatusBadRequest, "body: must be JSON, and is empty")
	}
	return strict(b, v)
}

// turnEvents adds what happens in a turn.
func (s *Server) turnEvents(api huma.API) {
	s.handle(api, huma.Operation{
		OperationID: "turn-events", Method: http.MethodGet, Path: "/v1/turns/{id}/events", Tags: []string{"agents"}, Summary: "What happens in a turn, as it happens",
		Description: "Server-sent events: first those that were, then those that come, until the one of type finished. id is the event's seq, event its type, data the event as JSON. " +
			"A client that comes again sends Last-Event-ID and misses nothing.",
		Parameters: []*huma.Param{
			{Name: "id", In: "path", Required: true, Description: "The turn's id.", Schema: &huma.Schema{Type: "string"}},
			param("after", "integer", "Only events with a higher seq; Last-Event-ID says the same."),
			{Name: "Last-Event-ID", In: "header", Description: "The id of the last event received.", Schema: &huma.Schema{Type: "integer"}},
		},
		Errors:    []int{404},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{eventStream: {Schema: &huma.Schema{Type: "string"}}}}},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		after := q.number("after", math.MaxInt64)
		if last := r.Header.Get("Last-Event-ID"); last != "" {
			n, bad := strconv.ParseInt(last, 10, 64)
			if bad != nil || n < 0 {
				q.wrong("header.Last-Event-ID", "must be the id of an event", last)
			}
			after = max(after, n)
		}
		if err := q.err(); err != nil {
			return err
		}
		id := r.PathValue("id")
		d, err := s.deskOf(a, "turn events", id, atoll.ScopeRead)
		if err != nil {
			return err
		}
		if _, err := d.Get(a.Caller().Owner, id); err != nil {
			return &atoll.Error{Op: "turn events", ID: clip(id), Err: errors.Unwrap(err)}
		}
		return s.followTurn(w, r, d, a, id, after)
	})
}

// followTurn answers with the events of a turn.
func (s *Server) followTurn(w http.ResponseWriter, r *http.Request, d *turn.Desk, a *fleet.Account, id string, after int64) error {
	owner := a.Caller().Owner
	return s.stream(w, r, "turns", func(ctx context.Context, out *stream) error {
		return d.Follow(ctx, owner, id, after, func(e agent.Event) error {
			return out.send(strconv.FormatInt(e.Seq, 10), string(e.Type), e)
		})
	})
}
