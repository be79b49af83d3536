package api

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

type (
	// ProcessKey names the process of a path. It is exported because huma reads
	// only embedded structs that are.
	ProcessKey struct {
		SandboxKey

		Process string `path:"process" doc:"The process's id."`
	}
	listProcesses struct {
		SandboxKey

		Internal bool `query:"internal" doc:"Also commands of atoll itself, such as git of a sync."`
	}
	startProcess struct {
		SandboxKey

		Body wire.Command
	}
	signalProcess struct {
		ProcessKey

		Body wire.Signal
	}
)

// registerProcesses registers commands as processes with ids.
func (s *Server) registerProcesses(api huma.API) {
	noun := []string{"commands"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-processes", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/processes", Tags: noun,
		Summary: "List the running commands and those that ended lately, oldest first", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *listProcesses) (*reply[wire.List[atoll.Process]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if in.Internal {
			return listReply(sb.AllProcesses(ctx))
		}
		return listReply(sb.Processes(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "start-process", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/processes", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Start a detached command", Errors: []int{404, 409, 501, 507},
	}, func(ctx context.Context, a *fleet.Account, in *startProcess) (*createdReply[atoll.Process], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		p, err := sb.StartProcess(ctx, in.Body.Process, detachedCommand(&in.Body))
		if err != nil {
			return nil, err
		}
		return &createdReply[atoll.Process]{Location: "/v1/sandboxes/" + sb.ID() + "/processes/" + p.ID, Body: p}, nil
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "get-process", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/processes/{process}", Tags: noun,
		Summary: "Get a process", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *ProcessKey) (*reply[atoll.Process], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return oneReply(sb.Process(ctx, in.Process))
	})
	s.registerSignals(api)
	s.registerAttach(api)
}

// detachedCommand returns the detached command of a request. Given standard input, even empty, is
// its entire input.
func detachedCommand(c *wire.Command) atoll.Cmd {
	cmd := commandOf(c)
	if c.Stdin != nil && cmd.Stdin == nil {
		cmd.Stdin = emptyReader{}
	}
	return cmd
}

// emptyReader is a reader without content.
type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, io.EOF }

// registerSignals registers signals to processes.
func (s *Server) registerSignals(api huma.API) {
	noun := []string{"commands"}
	registerJSON(s, api, huma.Operation{
		OperationID: "signal-process", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/processes/{process}/signal", Tags: noun,
		Summary: "Send a signal: INT, TERM, KILL…", Description: "KILL ends the process and all its descendants.", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *signalProcess) (*noBody, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return emptyReply(sb.Signal(ctx, in.Process, in.Body.Signal))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "kill-process", Method: http.MethodDelete, Path: "/v1/sandboxes/{id}/processes/{process}", Tags: noun,
		Summary: "Kill a process and all its descendants", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *ProcessKey) (*noBody, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return emptyReply(sb.Signal(ctx, in.Process, "KILL"))
	})
}

// registerAttach registers attaching to processes and reading their output.
func (s *Server) registerAttach(api huma.API) {
	noun := []string{"commands"}
	more := []*huma.Param{
		queryParam("stdin", "boolean", "Send the client's input to the process."),
		queryParam("resize", "boolean", "Let the client resize the terminal."),
		windowParam,
		queryParam("offset", "integer", "Where the output begins, in bytes of both streams; dropped output is skipped. Negative: only new output."),
	}
	s.registerRaw(api, huma.Operation{
		OperationID: "attach-process", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/processes/{process}/attach", Tags: noun, DefaultStatus: http.StatusSwitchingProtocols,
		Summary: "Attach to a process", Description: "A WebSocket of the subprotocol " + wire.ExecProtocol + ", without a start. The process goes on when the connection ends.",
		Parameters: append(pathParams("id", "process"), more...), Errors: []int{404, 426},
	}, s.attachProcess)
	s.registerRaw(api, huma.Operation{
		OperationID: "get-process-output", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/processes/{process}/output", Tags: noun,
		Summary: "Get the kept output of a process",
		Parameters: append(pathParams("id", "process"), queryParam("stream", "string", "stdout (the default) or stderr."),
			queryParam("follow", "boolean", "Continue until the process ends.")),
		Errors: []int{404},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
			"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}},
		}}},
	}, s.serveOutput)
}

// serveOutput answers with one output stream of a process.
func (s *Server) serveOutput(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	q := newQuery(r.URL.Query())
	name, follow := q.readText("stream"), q.readBool("follow")
	if name != "" && name != "stdout" && name != "stderr" {
		q.addError("query.stream", "must be stdout or stderr", name)
	}
	if err := q.checkErrors(); err != nil {
		return err
	}
	sb, err := a.Open(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	p, err := sb.Process(r.Context(), r.PathValue("process"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", "attachment")
	if p.Output == 0 && !(follow && p.Running) {
		return nil
	}
	defer s.metrics.countStream("output")()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	all := &outputExtent{left: p.Output, end: cancel, open: follow || !p.Running}
	out, other := &extentWriter{w: w, all: all}, &extentWriter{w: io.Discard, all: all}
	if follow {
		out.ctl = http.NewResponseController(w)
	}
	at := fleet.Attachment{Stdout: out, Stderr: other, OnLost: all.add}
	if name == "stderr" {
		at.Stdout, at.Stderr = other, out
	}
	if _, err = sb.Attach(ctx, p.ID, at); err == nil || all.isFull() {
		return nil
	}
	if now, _ := sb.Process(r.Context(), p.ID); now.ID == p.ID && !now.Running {
		return nil // the exit status is not an error of reading
	}
	return err
}

// outputExtent ends a reading after the output that existed at its start.
type outputExtent struct {
	open bool   // no end: all output is wanted
	end  func() // called at the end of the extent

	mu   sync.Mutex
	left int64 // guarded by mu
}

func (e *outputExtent) add(n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left -= n; e.left <= 0 && !e.open {
		e.end()
	}
}

func (e *outputExtent) isFull() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.open && e.left <= 0
}

// extentWriter writes output and counts it against an extent.
type extentWriter struct {
	w   io.Writer
	ctl *http.ResponseController // flushes each write; nil: no flushing
	all *outputExtent
}

func (p *extentWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if err == nil && p.ctl != nil {
		err = p.ctl.Flush()
	}
	p.all.add(int64(n))
	return n, err
}

// readInt reads an integer of any sign.
func (q *queryReader) readInt(name string) int64 {
	v := q.readText(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		q.addError("query."+name, "must be a whole number", v)
	}
	return n
}
