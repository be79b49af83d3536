package assistant

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
)

// turnServices serve the model and the tools of an agent's process that runs several turns: each request is served for the turn that is
// attached at that time. Its methods are safe for concurrent use.
type turnServices struct {
	mu  sync.Mutex
	now *attachedTurn // guarded by mu; nil: none
}

// attachedTurn is a turn that an agent works for.
type attachedTurn struct {
	model  http.Handler
	caller tool.Caller
	tools  map[toolName]tool.Tool
	log    func(tool.Event)

	ctx      context.Context //nolint:containedctx // parent of the turn's requests and tool calls
	cancel   context.CancelFunc
	requests sync.WaitGroup // of the model; Add is called with mu held, and only while the turn is attached
}

// toolName names a tool of the host.
type toolName struct{ server, name string }

// drainTime limits the wait for requests to the model that have not ended with their turn.
const drainTime = 2 * time.Second

// attach makes requests those of a turn.
func (v *turnServices) attach(ctx context.Context, r *turnRun, job *agent.Job) {
	a := &attachedTurn{model: job.Model, caller: r.toolCaller(), log: r.logToolCall, tools: make(map[toolName]tool.Tool)}
	for _, t := range r.offered {
		a.tools[toolName{t.Server, t.Name}] = t
	}
	// A tool call that fails before the agent is interrupted would look to it like any failed call, with which it goes on.
	a.ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = a
}

// detach ends the turn's tool calls, waits for its requests to the model, so that their usage is counted, and cancels those that go on.
func (v *turnServices) detach() {
	v.mu.Lock()
	a := v.now
	v.now = nil
	v.mu.Unlock()
	if a == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		a.requests.Wait()
		close(done)
	}()
	t := time.NewTimer(drainTime)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
	a.cancel()
	<-done
}

// current returns the attached turn; nil: none.
func (v *turnServices) current() *attachedTurn {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// ServeHTTP serves a request to the model for the attached turn. Between turns it is refused: nothing would limit it.
func (v *turnServices) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	a := v.now
	if a != nil {
		a.requests.Add(1)
	}
	v.mu.Unlock()
	if a == nil {
		http.Error(w, "no turn is running", http.StatusServiceUnavailable)
		return
	}
	defer a.requests.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()
	a.model.ServeHTTP(w, r.WithContext(ctx))
}

// noTurn is what a tool says between two turns.
var noTurn = &tool.Error{Text: "no turn is running"}

// forward returns a tool that calls the attached turn's tool of that name.
func (v *turnServices) forward(t tool.Tool) tool.Tool {
	name := toolName{t.Server, t.Name}
	t.Call = func(ctx context.Context, c tool.Call) (tool.Result, error) {
		a := v.current()
		if a == nil {
			return tool.Result{}, noTurn
		}
		own, ok := a.tools[name]
		if !ok {
			return tool.Result{}, noTurn
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(a.ctx, cancel)()
		c.Caller = a.caller
		return own.Call(ctx, c)
	}
	return t
}

// logEvent logs a tool call for the attached turn.
func (v *turnServices) logEvent(e tool.Event) {
	if a := v.current(); a != nil {
		e.Caller = a.caller
		a.log(e)
	}
}

// serveWarmTools returns the server of the tools of a process that runs several turns.
func (r *turnRun) serveWarmTools(v *turnServices) func(net.Conn) {
	offer := &tool.Toolset{Caller: r.toolCaller(), Log: v.logEvent}
	for _, t := range r.offered {
		offer.Tools = append(offer.Tools, v.forward(t))
	}
	log, id := r.pipeline.log, r.id
	return func(conn net.Conn) { // it ends with the process, whose services close the connection
		if err := offer.Serve(context.Background(), conn); err != nil {
			log.Debug("tools", "turn", id, "err", err)
		}
	}
}

// listTools returns the turn's tools as agents see them.
func (r *turnRun) listTools() []tool.ListedTool {
	return (&tool.Toolset{Caller: r.toolCaller(), Tools: r.offered}).List()
}
