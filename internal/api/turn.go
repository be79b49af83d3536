package api

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
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// turnBody is the largest request for a turn, including files.
const turnBody = 32 << 20

// TurnKey is the turn in a path. It is exported because huma reads only exported embedded structs.
type TurnKey struct {
	ID string `path:"id" doc:"The turn's id."`
}

// listTurns are the parameters of the turn list.
type listTurns struct {
	Chat  string `query:"chat" doc:"Only turns of this chat."`
	State string `query:"state" enum:"queued,running,waiting,finished" doc:"Only turns in this state."`
	Limit int    `query:"limit" minimum:"0" maximum:"1000" doc:"Maximum number of the newest turns; 100 by default."`
}

// answerPermission is the answer to a request for permission.
type answerPermission struct {
	TurnKey

	Body agent.Answer
}

// registerTurns registers turns of agents and assistants.
func (s *Server) registerTurns(api huma.API) {
	noun := []string{"agents"}
	s.registerStartTurn(api)
	s.registerTurnEvents(api)
	registerJSON(s, api, huma.Operation{
		OperationID: "list-turns", Method: http.MethodGet, Path: "/v1/turns", Tags: noun, Summary: "List turns, oldest first",
	}, func(ctx context.Context, a *fleet.Account, in *listTurns) (*reply[wire.List[agent.Record]], error) {
		d, err := s.turnRegistry(a, "list turns", atoll.ScopeRead)
		if d == nil || err != nil {
			return listReply[agent.Record](nil, err)
		}
		chat := in.Chat
		if chat != "" {
			chat = assistant.ChatKey(chat)
		}
		return listReply(d.List(a.Caller().Owner, turn.Filter{Chat: chat, State: in.State, Limit: in.Limit}))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "get-turn", Method: http.MethodGet, Path: "/v1/turns/{id}", Tags: noun, Summary: "Get a turn", Errors: []int{404},
	}, func(_ context.Context, a *fleet.Account, in *TurnKey) (*reply[agent.Record], error) {
		d, err := s.turnRegistryFor(a, "turn", in.ID, atoll.ScopeRead)
		if err != nil {
			return nil, err
		}
		return oneReply(d.Get(a.Caller().Owner, in.ID))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "decide", Method: http.MethodPost, Path: "/v1/turns/{id}/decisions", Tags: noun, Summary: "Answer a request for permission",
		Description: "A request that is not answered before its deadline is denied.", Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *answerPermission) (*noBody, error) {
		d, err := s.turnRegistryFor(a, "decide", in.ID, atoll.ScopeRun)
		if err != nil {
			return nil, err
		}
		return emptyReply(d.Decide(ctx, a.Caller().Owner, in.ID, in.Body.Permission, callerName(a), in.Body.Decision))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "interrupt-turn", Method: http.MethodPost, Path: "/v1/turns/{id}/interrupt", Tags: noun, Summary: "Interrupt the agent", Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *TurnKey) (*noBody, error) {
		d, err := s.turnRegistryFor(a, "interrupt", in.ID, atoll.ScopeRun)
		if err != nil {
			return nil, err
		}
		return emptyReply(d.Interrupt(ctx, a.Caller().Owner, in.ID))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "cancel-turn", Method: http.MethodDelete, Path: "/v1/turns/{id}", Tags: noun, Summary: "Cancel a turn, or remove one that has ended", Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *TurnKey) (*noBody, error) {
		d, err := s.turnRegistryFor(a, "cancel turn", in.ID, atoll.ScopeRun)
		if err != nil {
			return nil, err
		}
		return emptyReply(d.Cancel(ctx, a.Caller().Owner, in.ID))
	})
	s.registerMessages(api)
}

// callerName names the caller who decides.
func callerName(a *fleet.Account) string {
	if t := a.Caller().Token; t != "" {
		return t
	}
	return a.Caller().Owner.String()
}

// turnRegistry returns the registry of turns for a caller with the scope; nil: the server has no
// agents.
func (s *Server) turnRegistry(a *fleet.Account, op string, scope atoll.Scope) (*turn.Registry, error) {
	if err := a.RequireScope(op, scope); err != nil {
		return nil, err
	}
	if s.opts.Agents == nil {
		return nil, nil
	}
	has, err := s.agents()
	if err != nil {
		return nil, err
	}
	return has.Turns, nil
}

// turnRegistryFor is turnRegistry, with ErrNotFound for a turn if there is none.
func (s *Server) turnRegistryFor(a *fleet.Account, op, id string, scope atoll.Scope) (*turn.Registry, error) {
	d, err := s.turnRegistry(a, op, scope)
	if err == nil && d == nil {
		err = &atoll.Error{Op: op, ID: shorten(id), Err: atoll.ErrNotFound}
	}
	return d, err
}

// registerStartTurn registers starting turns.
func (s *Server) registerStartTurn(api huma.API) {
	schemas := api.OpenAPI().Components.Schemas
	ask := schemas.Schema(reflect.TypeFor[agent.Request](), true, "")
	s.registerRaw(api, huma.Operation{
		OperationID: "start-turn", Method: http.MethodPost, Path: "/v1/turns", Tags: []string{"agents"}, DefaultStatus: http.StatusAccepted,
		Summary: "Start a turn of an agent or an assistant",
		Description: "The turn goes on in the background; follow its events. With stream=true, or if text/event-stream is accepted, the response is those events; " +
			"closing it does not end the turn.",
		Parameters:  []*huma.Param{queryParam("stream", "boolean", "Respond with the events of the turn.")},
		Errors:      []int{404, 409, 413, 415, 501, 507},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: ask}}},
		Responses: map[string]*huma.Response{
			"202": {Description: "Accepted", Content: map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(reflect.TypeFor[agent.Record](), true, "")}}},
			"200": {Description: "OK", Content: map[string]*huma.MediaType{sseContentType: {Schema: &huma.Schema{Type: "string"}}}},
		},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		follow := q.readBool("stream") || strings.Contains(r.Header.Get("Accept"), sseContentType)
		if err := q.checkErrors(); err != nil {
			return err
		}
		if err := a.RequireScope("turn", atoll.ScopeRun); err != nil {
			return err
		}
		var in agent.Request
		if err := s.readLargeBody(r, ask, turnBody, &in); err != nil {
			return err
		}
		has, err := s.agents()
		if err != nil {
			return err
		}
		ask := &assistant.TurnRequest{Tools: dialectTools(in.ClientTools), AnswersCalls: true, Request: in, Account: a, Locale: r.Header.Get("Accept-Language")}
		start := s.startTurn
		if in.Queue {
			start = s.queueTurn
		}
		t, err := start(r.Context(), has, ask)
		if err != nil {
			return err
		}
		w.Header().Set("Location", "/v1/turns/"+t.ID())
		if !follow {
			return writeJSON(w, http.StatusAccepted, t.Record())
		}
		return s.followTurn(w, r, has.Turns, a, t.ID(), 0)
	})
}

// startTurn starts a turn. It goes on until its end, or until the caller's token becomes invalid.
func (s *Server) startTurn(ctx context.Context, has *Agents, ask *assistant.TurnRequest) (*turn.Turn, error) {
	job, err := has.Pipeline.Prepare(ctx, ask)
	if err != nil {
		return nil, err
	}
	req := callOf(ctx)
	n := turn.NewTurn{Record: job.Record(), Request: ask.Stored(), Secret: ask.IsSecret()}
	t, err := has.Turns.StartTurn(n, func(ctx context.Context, t *turn.Turn) (agent.Result, error) { //nolint:contextcheck // the turn outlives the request
		defer s.endWithToken(ctx, req, t)()
		return s.runWithMessages(ctx, has.Turns, ask.Account, t, func() (agent.Result, error) { return job.Run(ctx, t.ID(), t) })
	})
	if err != nil {
		job.Release()
	}
	return t, err
}

// endWithToken cancels a turn when its caller's token becomes invalid, until leave is called.
func (s *Server) endWithToken(ctx context.Context, req *call, t *turn.Turn) (leave func()) {
	if req.caller.Token == "" {
		return func() {}
	}
	c := &call{id: req.id, caller: req.caller}
	return s.tokenCalls.addCall(ctx, c, s.tokenCalls.generation()-1, func() { t.Cancel(errTokenInvalid) }) // an earlier generation: tokens revoked up to now are checked
}

// readLargeBody reads a required JSON body with a limit of its own.
func (s *Server) readLargeBody(r *http.Request, schema *huma.Schema, limit int64, v any) error {
	if err := s.readSchema(r, schema, limit); err != nil {
		return err
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return bodyError(err)
	}
	if len(b) == 0 {
		return newRequestError(http.StatusBadRequest, "body: is empty; it must be JSON")
	}
	return decodeStrict(b, v)
}

// registerTurnEvents registers the events of a turn.
func (s *Server) registerTurnEvents(api huma.API) {
	s.registerRaw(api, huma.Operation{
		OperationID: "turn-events", Method: http.MethodGet, Path: "/v1/turns/{id}/events", Tags: []string{"agents"}, Summary: "Follow the events of a turn",
		Description: "Server-sent events: first the past ones, then new ones, until the one of type finished. id is the event's seq, event its type, data the event as JSON. " +
			"A client that reconnects with Last-Event-ID misses nothing.",
		Parameters: []*huma.Param{
			{Name: "id", In: "path", Required: true, Description: "The turn's id.", Schema: &huma.Schema{Type: "string"}},
			queryParam("after", "integer", "Only events with a higher seq, as with Last-Event-ID."),
			{Name: "Last-Event-ID", In: "header", Description: "The id of the last event received.", Schema: &huma.Schema{Type: "integer"}},
		},
		Errors:    []int{404},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{sseContentType: {Schema: &huma.Schema{Type: "string"}}}}},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		after := q.readUint("after", math.MaxInt64)
		if last := r.Header.Get("Last-Event-ID"); last != "" {
			n, bad := strconv.ParseInt(last, 10, 64)
			if bad != nil || n < 0 {
				q.addError("header.Last-Event-ID", "must be the id of an event", last)
			}
			after = max(after, n)
		}
		if err := q.checkErrors(); err != nil {
			return err
		}
		id := r.PathValue("id")
		d, err := s.turnRegistryFor(a, "turn events", id, atoll.ScopeRead)
		if err != nil {
			return err
		}
		if _, err := d.Get(a.Caller().Owner, id); err != nil {
			return &atoll.Error{Op: "turn events", ID: shorten(id), Err: errors.Unwrap(err)}
		}
		return s.followTurn(w, r, d, a, id, after)
	})
}

// followTurn answers with the events of a turn.
func (s *Server) followTurn(w http.ResponseWriter, r *http.Request, d *turn.Registry, a *fleet.Account, id string, after int64) error {
	owner := a.Caller().Owner
	return s.streamEvents(w, r, "turns", func(ctx context.Context, out *sseStream) error {
		return d.Follow(ctx, owner, id, after, func(e agent.Event) error {
			return out.send(strconv.FormatInt(e.Seq, 10), string(e.Type), e)
		})
	})
}
