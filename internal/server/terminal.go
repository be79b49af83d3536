package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

type (
	// TerminalKey names the terminal of a path. It is exported because huma
	// reads only embedded structs that are.
	TerminalKey struct {
		SandboxKey

		Terminal string `path:"terminal" doc:"The terminal's name."`
	}
	openTerminal struct {
		SandboxKey

		Body atoll.TerminalSpec
	}
	sendTerminal struct {
		TerminalKey

		Body wire.Input
	}
)

// terminals adds terminals that stay.
func (s *Server) terminals(api huma.API) {
	noun := []string{"commands"}
	register(s, api, huma.Operation{
		OperationID: "list-terminals", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/terminals", Tags: noun,
		Summary: "The terminals, oldest first", Description: "Those whose command has ended stay for a while.", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[wire.List[atoll.Terminal]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return list(sb.ListTerminals(ctx))
	})
	register(s, api, huma.Operation{
		OperationID: "open-terminal", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/terminals", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Start a command, or a shell, on a terminal that stays when nobody looks at it", Errors: []int{404, 409, 501, 507},
	}, func(ctx context.Context, a *fleet.Account, in *openTerminal) (*created[atoll.Terminal], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		t, err := sb.OpenTerminal(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return &created[atoll.Terminal]{Location: "/v1/sandboxes/" + sb.ID() + "/terminals/" + t.Name, Body: t}, nil
	})
	register(s, api, huma.Operation{
		OperationID: "close-terminal", Method: http.MethodDelete, Path: "/v1/sandboxes/{id}/terminals/{terminal}", Tags: noun,
		Summary: "End what runs on a terminal, and forget it", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *TerminalKey) (*none, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return done(sb.CloseTerminal(ctx, in.Terminal))
	})
	s.terminalUse(api)
}

// terminalUse adds what is done before a terminal.
func (s *Server) terminalUse(api huma.API) {
	noun := []string{"commands"}
	register(s, api, huma.Operation{
		OperationID: "read-terminal", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/terminals/{terminal}/screen", Tags: noun,
		Summary: "What a terminal shows, as text", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *TerminalKey) (*reply[atoll.Screen], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return one(sb.ReadTerminal(ctx, in.Terminal))
	})
	register(s, api, huma.Operation{
		OperationID: "send-to-terminal", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/terminals/{terminal}/input", Tags: noun,
		Summary: "Type on a terminal", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *sendTerminal) (*none, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return done(sb.SendTerminal(ctx, in.Terminal, in.Body.Input))
	})
	s.handle(api, huma.Operation{
		OperationID: "attach-terminal", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/terminals/{terminal}/attach", Tags: noun, DefaultStatus: http.StatusSwitchingProtocols,
		Summary: "Be before a terminal",
		Description: "A WebSocket of the subprotocol " + wire.ExecProtocol + ", without a start: the screen as it is, then what comes. Who does not acknowledge what is shown " +
			"gets the newest screen later. The terminal stays when the connection ends; its command's end is the last message.",
		Parameters: append(pathParams("id"),
			&huma.Param{Name: "terminal", In: "path", Required: true, Description: "The terminal's name.", Schema: &huma.Schema{Type: "string"}},
			param("rows", "integer", "The height of the client's window; the terminal takes on the smallest of those who may type. Later ones are resize messages."),
			param("cols", "integer", "The width of the client's window."),
			param("read_only", "boolean", "Only look: nothing is typed, and the window's size does not count."),
			param("history", "boolean", "Show the lines above the screen too, in place of those that the window has."),
			param("sized", "boolean", "Tell the terminal's size ({\"size\": SIZE}) before what is shown in it: the window takes it on. Otherwise a window of another size is sent as much of the screen as fits."),
			windowParam),
		Errors: []int{404, 409, 426, 501},
	}, s.attachTerminal)
}

// attachTerminal connects a WebSocket to a terminal.
func (s *Server) attachTerminal(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	q := newQuery(r.URL.Query())
	window := q.number("window", math.MaxInt32)
	at := atoll.Attachment{ReadOnly: q.flag("read_only"), History: q.flag("history")}
	at.Rows, at.Cols = uint16(q.number("rows", math.MaxUint16)), uint16(q.number("cols", math.MaxUint16))
	sized := q.flag("sized")
	if err := q.err(); err != nil {
		return err
	}
	sb, err := a.Open(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	name := r.PathValue("terminal")
	if err := hasTerminal(r.Context(), sb, name); err != nil {
		return err
	}
	conn, err := upgrade(w, r, wire.ExecProtocol)
	if err != nil {
		return err
	}
	defer s.metrics.stream("terminal")()
	s.newExec(r.Context(), conn, sb, window).serve(func(e *execStream) (*wire.Exit, error) {
		conn.Limit(1 + wire.MaxPayload)
		at.Stdin, at.Stdout, at.Resize = e.in, &output{e: e, to: wire.Stdout}, e.resize
		if sized {
			at.Sized = func(size atoll.Size) { _ = e.tell(wire.ServerControl{Size: &size}) } // the receiver says why
		}
		e.begin()
		exit, err := sb.AttachTerminal(e.ctx, name, at)
		if cause := context.Cause(e.ctx); err != nil && errors.Is(cause, errDetached) {
			err = cause
		}
		return exitOf("", exit), err
	})
	return nil
}

// hasTerminal says that a terminal is not there while that can be answered
// plainly.
func hasTerminal(ctx context.Context, sb *fleet.Sandbox, name string) error {
	list, err := sb.ListTerminals(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.Name == name {
			return nil
		}
	}
	return &atoll.Error{Op: "attach", ID: sb.ID(), Err: fmt.Errorf("terminal %s: %w", name, atoll.ErrNotFound)}
}
