package server

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
	startProcess struct {
		SandboxKey

		Body wire.Command
	}
	signalProcess struct {
		ProcessKey

		Body wire.Signal
	}
)

// processes adds commands that are known by their ids.
func (s *Server) processes(api huma.API) {
	noun := []string{"commands"}
	register(s, api, huma.Operation{
		OperationID: "list-processes", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/processes", Tags: noun,
		Summary: "The commands under way and those that ended lately, oldest first", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[wire.List[atoll.Process]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return list(sb.Processes(ctx))
	})
	register(s, api, huma.Operation{
		OperationID: "start-process", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/processes", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Start a command that goes on when nobody is attached", Errors: []int{404, 409, 501, 507},
	}, func(ctx context.Context, a *fleet.Account, in *startProcess) (*created[atoll.Process], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		p, err := sb.StartProcess(ctx, in.Body.Process, detached(&in.Body))
		if err != nil {
			return nil, err
		}
		return &created[atoll.Process]{Location: "/v1/sandboxes/" + sb.ID() + "/processes/" + p.ID, Body: p}, nil
	})
	register(s, api, huma.Operation{
		OperationID: "get-process", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/processes/{process}", Tags: noun,
		Summary: "A command, and how it ended", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *ProcessKey) (*reply[atoll.Process], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return one(sb.Process(ctx, in.Process))
	})
	s.signals(api)
	s.attachments(api)
}

// detached reads a command that goes on by itself. Standard input that is given,
// even if it is empty, is all that it gets.
func detached(c *wire.Command) atoll.Cmd {
	cmd := commandOf(c)
	if c.Stdin != nil && cmd.Stdin == nil {
		cmd.Stdin = eof{}
	}
	return cmd
}

// eof is an empty reader.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// signals adds what ends processes, or tells them something.
func (s *Server) signals(api huma.API) {
	noun := []string{"commands"}
	register(s, api, huma.Operation{
		OperationID: "signal-process", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/processes/{process}/signal", Tags: noun,
		Summary: "Send a signal: INT, TERM, KILL…", Description: "KILL ends the process with its whole tree.", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *signalProcess) (*none, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return done(sb.Signal(ctx, in.Process, in.Body.Signal))
	})
	register(s, api, huma.Operation{
		OperationID: "kill-process", Method: http.MethodDelete, Path: "/v1/sandboxes/{id}/processes/{process}", Tags: noun,
		Summary: "End a process with its whole tree", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *ProcessKey) (*none, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return done(sb.Signal(ctx, in.Process, "KILL"))
	})
}

// attachments adds what connects to processes.
func (s *Server) attachments(api huma.API) {
	noun := []string{"commands"}
	more := []*huma.Param{
		param("stdin", "boolean", "What the client sends is the process's standard input."),
		param("resize", "boolean", "The client says how big its terminal is."),
		windowParam,
		param("offset", "integer", "Where in the output to begin, in bytes of both streams; what is no longer kept is skipped. Negative: only what is new."),
	}
	s.handle(api, huma.Operation{
		OperationID: "attach-process", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/processes/{process}/attach", Tags: noun, DefaultStatus: http.StatusSwitchingProtocols,
		Summary: "Connect to a process", Description: "A WebSocket of the subprotocol " + wire.ExecProtocol + ", without a start. The process goes on when the connection ends.",
		Parameters: append(pathParams("id", "process"), more...), Errors: []int{404, 426},
	}, s.attach)
	s.handle(api, huma.Operation{
		OperationID: "get-process-output", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/processes/{process}/output", Tags: noun,
		Summary: "What a process has written, as far as it is kept",
		Parameters: append(pathParams("id", "process"), param("stream", "string", "stdout (the default) or stderr."),
			param("follow", "boolean", "Go on until the process has ended.")),
		Errors: []int{404},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
			"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}},
		}}},
	}, s.output)
}

// output answers with one stream of a process.
func (s *Server) output(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	q := newQuery(r.URL.Query())
	name, follow := q.text("stream"), q.flag("follow")
	if name != "" && name != "stdout" && name != "stderr" {
		q.wrong("query.stream", "must be stdout or stderr", name)
	}
	if err := q.err(); err != nil {
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
	defer s.metrics.stream("output")()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	all := &extent{left: p.Output, end: cancel, open: follow || !p.Running}
	out, other := &pour{w: w, all: all}, &pour{w: io.Discard, all: all}
	if follow {
		out.ctl = http.NewResponseController(w)
	}
	at := fleet.Attachment{Stdout: out, Stderr: other, Lost: all.add}
	if name == "stderr" {
		at.Stdout, at.Stderr = other, out
	}
	if _, err = sb.Attach(ctx, p.ID, at); err == nil || all.full() {
		return nil
	}
	if now, _ := sb.Process(r.Context(), p.ID); now.ID == p.ID && !now.Running {
		return nil // how it ended is no failure of the reading
	}
	return err
}

// extent ends a reading when all has come that there was when it began.
type extent struct {
	open bool   // whatever comes is wanted
	end  func() // called when all is there

	mu   sync.Mutex
	left int64 // guarded by mu
}

func (e *extent) add(n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left -= n; e.left <= 0 && !e.open {
		e.end()
	}
}

func (e *extent) full() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.open && e.left <= 0
}

// pour writes what comes of a process.
type pour struct {
	w   io.Writer
	ctl *http.ResponseController // flushes each piece; nil: nobody waits for it
	all *extent
}

func (p *pour) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if err == nil && p.ctl != nil {
		err = p.ctl.Flush()
	}
	p.all.add(int64(n))
	return n, err
}

// integer reads a whole number of any sign.
func (q *query) integer(name string) int64 {
	v := q.text(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		q.wrong("query."+name, "must be a whole number", v)
	}
	return n
}
