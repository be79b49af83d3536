package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// commands adds what runs in sandboxes.
func (s *Server) commands(api huma.API) {
	noun := []string{"commands"}
	schemas := api.OpenAPI().Components.Schemas
	command := schemas.Schema(reflect.TypeFor[wire.Command](), true, "")
	start := schemas.Schema(reflect.TypeFor[wire.ClientControl](), true, "")
	s.handle(api, huma.Operation{
		OperationID: "exec", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/exec", Tags: noun, Summary: "Run a command to its end",
		Description: "The answer has its output; error says why it was ended, if it was. The command ends when the request does. " +
			"For live streams, open a WebSocket (GET).",
		Parameters: pathParams("id"), Errors: []int{404, 409, 413, 415, 501, 507},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: command}}},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemas.Schema(reflect.TypeFor[wire.Exit](), true, "")},
		}}},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		return s.execOnce(w, r, a, command)
	})
	s.handle(api, huma.Operation{
		OperationID: "exec-stream", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/exec", Tags: noun, DefaultStatus: http.StatusSwitchingProtocols,
		Summary: "Run a command with live streams",
		Description: "A WebSocket of the subprotocol " + wire.ExecProtocol + ". The first byte of each binary message is the stream: 0 standard input, 1 output, 2 errors, " +
			"3 control (JSON). The client begins with a control message {\"start\": COMMAND}; the server ends with {\"exit\": EXIT}. The command ends when the connection does, " +
			"unless it was started with detach.",
		Parameters: append(pathParams("id"), windowParam), Errors: []int{404, 409, 426, 501},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		return s.execStream(w, r, a, start)
	})
	s.processes(api)
	s.terminals(api)
}

// windowParam is how many bytes of output may be under way.
var windowParam = param("window", "integer", "How many bytes of output may be under way that the client has not acknowledged ({\"ack\": BYTES}); without it, any number.")

// pathParams describes parameters of the path.
func pathParams(names ...string) []*huma.Param {
	docs := map[string]string{"id": "The sandbox's id, or its name.", "process": "The process's id.", "name": "The workspace's name."}
	var list []*huma.Param
	for _, n := range names {
		list = append(list, &huma.Param{Name: n, In: "path", Required: true, Description: docs[n], Schema: &huma.Schema{Type: "string"}})
	}
	return list
}

// execOnce runs a command whose output is the answer.
func (s *Server) execOnce(w http.ResponseWriter, r *http.Request, a *fleet.Account, schema *huma.Schema) error {
	ctx := r.Context()
	if err := newQuery(r.URL.Query()).err(); err != nil {
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
		return invalid("detach", "POST …/processes starts commands that go on")
	}
	if c.MaxOutput > wire.MaxKept {
		return invalid("max_output", "%d: one answer holds at most %d bytes of each stream; a WebSocket carries any number", c.MaxOutput, wire.MaxKept)
	}
	owner := callOf(ctx).caller.Owner.String()
	if err := s.kept.mayKeep(owner); err != nil {
		return err
	}
	stdout, stderr := s.kept.keep(owner, c.MaxOutput), s.kept.keep(owner, c.MaxOutput)
	defer stdout.release()
	defer stderr.release()
	cmd := commandOf(&c)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	p, exit, err := sb.Run(ctx, c.Process, cmd)
	exit.Stdout, exit.Truncated = stdout.with(exit.Truncated)
	exit.Stderr, exit.Truncated = stderr.with(exit.Truncated)
	s.metrics.exec(exit, err)
	if err = s.endedBy(ctx, err); err != nil && !ran(exit, err) {
		return err
	}
	e := exitOf(p.ID, exit)
	e.Stdout, e.Stderr = exit.Stdout, exit.Stderr
	if err != nil {
		e.Error = s.problemOf(ctx, err).Problem
	}
	return sendExit(w, e)
}

// sendJSON writes v as JSON, with its length.
func sendJSON(w http.ResponseWriter, v any) error {
	b := scratch.Get().(*bytes.Buffer)
	defer release(b)
	if err := marshal(b, v); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	_, _ = w.Write(b.Bytes()) // who is gone reads no answers
	return nil
}

// readBody reads a body of JSON that must be there.
func (s *Server) readBody(r *http.Request, schema *huma.Schema, v any) error {
	if err := s.readSchema(r, schema, s.limits.Body); err != nil {
		return err
	}
	b := scratch.Get().(*bytes.Buffer)
	defer release(b)
	if _, err := b.ReadFrom(r.Body); err != nil {
		return cutOff(err)
	}
	if b.Len() == 0 {
		return refuse(http.StatusBadRequest, "body: must be JSON, and is empty")
	}
	return strict(b.Bytes(), v)
}

// strict reads JSON that says nothing unknown.
func strict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return invalid(wrong.Field, "%s does not fit", clip(wrong.Value))
	case err != nil:
		return refuse(http.StatusUnprocessableEntity, "body: %s", clip(err.Error()))
	}
	return nil
}

// commandOf reads a command, with the standard input that it brings.
func commandOf(c *wire.Command) atoll.Cmd {
	cmd := c.Cmd()
	if len(c.Stdin) > 0 {
		cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	return cmd
}

// exitOf writes an exit down, without what was kept of the output.
func exitOf(process string, e atoll.Exit) *wire.Exit {
	return &wire.Exit{Process: process, Code: e.Code, Signal: e.Signal, Truncated: e.Truncated, Duration: e.Duration}
}

// ran reports whether there is something to tell of a command besides err: it
// ran, and was ended.
func ran(exit atoll.Exit, err error) bool {
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

// endedBy says why a request was ended: not by its caller, if the server is
// shutting down.
func (s *Server) endedBy(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && s.life.Err() != nil {
		return &atoll.Error{Op: "exec", Err: errShutdown}
	}
	if err != nil && errors.Is(context.Cause(ctx), errSpent) {
		return &atoll.Error{Op: "exec", Err: errSpent}
	}
	return err
}
