package api

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
	// TerminalKey is the terminal in a path. It is exported because huma reads only exported
	// embedded structs.
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

// registerTerminals registers persistent terminals.
func (s *Server) registerTerminals(api huma.API) {
	noun := []string{"commands"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-terminals", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/terminals", Tags: noun,
		Summary: "List the terminals, oldest first", Description: "Terminals whose command has ended are listed for a while.", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[wire.List[atoll.Terminal]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return listReply(sb.ListTerminals(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "open-terminal", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/terminals", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Open a persistent terminal with a command or a shell", Errors: []int{404, 409, 501, 507},
	}, func(ctx context.Context, a *fleet.Account, in *openTerminal) (*createdReply[atoll.Terminal], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		t, err := sb.OpenTerminal(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return &createdReply[atoll.Terminal]{Location: "/v1/sandboxes/" + sb.ID() + "/terminals/" + t.Name, Body: t}, nil
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "close-terminal", Method: http.MethodDelete, Path: "/v1/sandboxes/{id}/terminals/{terminal}", Tags: noun,
		Summary: "Close a terminal and end its program", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *TerminalKey) (*noBody, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return emptyReply(sb.CloseTerminal(ctx, in.Terminal))
	})
	s.registerTerminalUse(api)
}

// registerTerminalUse registers reading, writing and attaching to terminals.
func (s *Server) registerTerminalUse(api huma.API) {
	noun := []string{"commands"}
	registerJSON(s, api, huma.Operation{
		OperationID: "read-terminal", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/terminals/{terminal}/screen", Tags: noun,
		Summary: "Get the screen of a terminal as text", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *TerminalKey) (*reply[atoll.Screen], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return oneReply(sb.ReadTerminal(ctx, in.Terminal))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "send-to-terminal", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/terminals/{terminal}/input", Tags: noun,
		Summary: "Send input to a terminal", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *sendTerminal) (*noBody, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return emptyReply(sb.SendTerminal(ctx, in.Terminal, in.Body.Input))
	})
	s.registerRaw(api, huma.Operation{
		OperationID: "attach-terminal", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/terminals/{terminal}/attach", Tags: noun, DefaultStatus: http.StatusSwitchingProtocols,
		Summary: "Attach to a terminal",
		Description: "A WebSocket of the subprotocol " + wire.ExecProtocol + ", without a start: first the present screen, then the output. A client that does not acknowledge the output " +
			"gets the newest screen later. The terminal stays when the connection ends; the exit of its command is the last message.",
		Parameters: append(pathParams("id"),
			&huma.Param{Name: "terminal", In: "path", Required: true, Description: "The terminal's name.", Schema: &huma.Schema{Type: "string"}},
			queryParam("rows", "integer", "The height of the client's window; the terminal takes the smallest size of the clients that can type. Send later sizes as resize messages."),
			queryParam("cols", "integer", "The width of the client's window."),
			queryParam("read_only", "boolean", "Watch only: input and the window's size are ignored."),
			queryParam("history", "boolean", "Send the lines above the screen too, in place of those of the window."),
			queryParam("sized", "boolean", "Send the terminal's size ({\"size\": SIZE}) before output of that size, for windows that adapt. Otherwise a window of another size gets the part of the screen that fits."),
			windowParam),
		Errors: []int{404, 409, 426, 501},
	}, s.attachTerminal)
}

// attachTerminal attaches a WebSocket to a terminal.
func (s *Server) attachTerminal(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	q := newQuery(r.URL.Query())
	window := q.readUint("window", math.MaxInt32)
	at := atoll.Attachment{ReadOnly: q.readBool("read_only"), History: q.readBool("history")}
	at.Rows, at.Cols = uint16(q.readUint("rows", math.MaxUint16)), uint16(q.readUint("cols", math.MaxUint16))
	sized := q.readBool("sized")
	if err := q.checkErrors(); err != nil {
		return err
	}
	sb, err := a.Open(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	name := r.PathValue("terminal")
	if err := checkTerminal(r.Context(), sb, name); err != nil {
		return err
	}
	conn, err := acceptWebSocket(w, r, wire.ExecProtocol)
	if err != nil {
		return err
	}
	defer s.metrics.countStream("terminal")()
	s.newExec(r.Context(), conn, sb, window).serve(func(e *execStream) (*wire.Exit, error) {
		conn.Limit(1 + wire.MaxPayload)
		at.Stdin, at.Stdout, at.Resize = e.in, &outputWriter{e: e, to: wire.Stdout}, e.resize
		if sized {
			at.OnResize = func(size atoll.Size) { _ = e.sendControl(wire.ServerControl{Size: &size}) } // the receiver reports a broken connection
		}
		e.startReceiving()
		exit, err := sb.AttachTerminal(e.ctx, name, at)
		if cause := context.Cause(e.ctx); err != nil && errors.Is(cause, errDetached) {
			err = cause
		}
		return exitOf("", exit), err
	})
	return nil
}

// checkTerminal returns an error for a missing terminal before the upgrade, while it can still be
// answered.
func checkTerminal(ctx context.Context, sb *fleet.Sandbox, name string) error {
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
