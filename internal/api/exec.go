package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
	"github.com/danielgtaylor/huma/v2"
)

// registerCommands registers commands in sandboxes.
func (s *Server) registerCommands(api huma.API) {
	noun := []string{"commands"}
	schemas := api.OpenAPI().Components.Schemas
	command := schemas.Schema(reflect.TypeFor[wire.Command](), true, "")
	start := schemas.Schema(reflect.TypeFor[wire.ClientControl](), true, "")
	s.registerRaw(api, huma.Operation{
		OperationID: "exec", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/exec", Tags: noun, Summary: "Run a command and wait for its end",
		Description: "The response has its output, and in error the reason why it was ended early. The command ends with the request. " +
			"For live streams, open a WebSocket (GET).",
		Parameters: pathParams("id"), Errors: []int{404, 409, 413, 415, 501, 507},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: command}}},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemas.Schema(reflect.TypeFor[wire.Exit](), true, "")},
		}}},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		return s.runExec(w, r, a, command)
	})
	s.registerRaw(api, huma.Operation{
		OperationID: "exec-stream", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/exec", Tags: noun, DefaultStatus: http.StatusSwitchingProtocols,
		Summary: "Run a command with live streams",
		Description: "A WebSocket of the subprotocol " + wire.ExecProtocol + ". The first byte of each binary message is the stream: 0 standard input, 1 standard output, 2 standard error, " +
			"3 control (JSON). The client begins with the control message {\"start\": COMMAND}; the server ends with {\"exit\": EXIT}. The command ends with the connection, " +
			"unless it was started with detach.",
		Parameters: append(pathParams("id"), windowParam), Errors: []int{404, 409, 426, 501},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		return s.openExecStream(w, r, a, start)
	})
	s.registerProcesses(api)
	s.registerTerminals(api)
}

// windowParam is the parameter for the number of unacknowledged output bytes.
var windowParam = queryParam("window", "integer", "Maximum number of output bytes that the client has not acknowledged ({\"ack\": BYTES}); unlimited by default.")

// runExec runs a command and answers with its output.
func (s *Server) runExec(w http.ResponseWriter, r *http.Request, a *fleet.Account, schema *huma.Schema) error {
	ctx := r.Context()
	if err := newQuery(r.URL.Query()).checkErrors(); err != nil {
		return err
	}
	sb, err := a.Open(ctx, r.PathValue("id"))
	if err != nil {
		return err
	}
	var c wire.Command
	if err := s.readBody(r, schema, &c); err != nil {
		return err
	}
	if c.Detach {
		return invalidField("detach", "use POST …/processes to start detached commands")
	}
	if c.MaxOutput > wire.MaxInlineOutput {
		return invalidField("max_output", "%d: a response holds at most %d bytes of each stream; use a WebSocket for more", c.MaxOutput, wire.MaxInlineOutput)
	}
	owner := callOf(ctx).caller.Owner.String()
	if err := s.outputs.checkRoom(owner); err != nil {
		return err
	}
	stdout, stderr := s.outputs.newBuffer(owner, c.MaxOutput), s.outputs.newBuffer(owner, c.MaxOutput)
	defer stdout.releaseBuffer()
	defer stderr.releaseBuffer()
	cmd := commandOf(&c)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	ctx, left := leaveIfKept(ctx, &c, &cmd, sb)
	defer left(nil)
	p, exit, err := sb.Run(ctx, c.Process, cmd)
	exit.Stdout, exit.Truncated = stdout.takeResult(exit.Truncated)
	exit.Stderr, exit.Truncated = stderr.takeResult(exit.Truncated)
	if errors.Is(err, atoll.ErrLeft) {
		panic(http.ErrAbortHandler) // breaks the connection: a client that is still there continues the command
	}
	s.metrics.countExec(exit, err)
	if err = s.endCause(ctx, err); err != nil && !hasResult(exit, err) {
		return err
	}
	e := exitOf(p.ID, exit)
	e.Stdout, e.Stderr = exit.Stdout, exit.Stderr
	if err != nil {
		e.Error = s.problemOf(ctx, err).Problem
	}
	return sendExit(w, e)
}

// leaveIfKept returns a context whose end leaves a command running that its client wants to keep when
// the connection is lost, or this server ends. The caller calls cancel when the command has ended.
func leaveIfKept(ctx context.Context, c *wire.Command, cmd *atoll.Cmd, sb *fleet.Sandbox) (_ context.Context, cancel context.CancelCauseFunc) {
	if !c.Keep || c.Process == "" || !sb.CanResume() {
		return ctx, func(error) {}
	}
	cmd.ID = c.Process
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, errTokenInvalid) {
			cancel(cause)
			return
		}
		cancel(atoll.ErrLeft)
	})
	return lasting, cancel
}

// commandOf returns the command of a request, with its standard input.
func commandOf(c *wire.Command) atoll.Cmd {
	cmd := c.Cmd()
	if len(c.Stdin) > 0 {
		cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	return cmd
}

// exitOf returns the wire form of an exit, without output.
func exitOf(process string, e atoll.Exit) *wire.Exit {
	return &wire.Exit{Process: process, Code: e.Code, Signal: e.Signal, Truncated: e.Truncated, Duration: e.Duration}
}

// hasResult reports whether a command that ended with err has a result besides the error: it ran
// and was ended.
func hasResult(exit atoll.Exit, err error) bool {
	if len(exit.Stdout)+len(exit.Stderr) > 0 {
		return true
	}
	for _, end := range []error{atoll.ErrTimeout, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

var errShutdown = fmt.Errorf("%w: the server is shutting down", atoll.ErrUnavailable)

// endCause returns why a command was ended: the shutdown of the server, a token that became
// invalid, or err.
func (s *Server) endCause(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && s.lifetime.Err() != nil {
		return &atoll.Error{Op: "exec", Err: errShutdown}
	}
	if err != nil && errors.Is(context.Cause(ctx), errTokenInvalid) {
		return &atoll.Error{Op: "exec", Err: errTokenInvalid}
	}
	return err
}
