package daytona

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerPTYs registers the routes of terminals.
func (s *Server) registerPTYs() {
	const at = "/process/pty"
	s.addToolbox("POST", at, s.createPTY)
	s.addToolbox("GET", at, s.listPTYs)
	s.addToolbox("GET", at+"/create-connect", s.createAndConnectPTY)
	s.addPTY("GET", "", func(c *call, p *pty) error { return c.writeJSON(http.StatusOK, p.describe()) })
	s.addPTY("GET", "/connect", func(c *call, p *pty) error { return s.connectPTY(c, p) })
	s.addPTY("POST", "/resize", s.resizePTY)
	s.addPTY("DELETE", "", s.removePTY)
}

// addPTY registers a route that names a terminal.
func (s *Server) addPTY(method, path string, f func(c *call, p *pty) error) {
	s.addToolbox(method, "/process/pty/{pty}"+path, func(c *call, sb *fleet.Sandbox) error {
		p := s.ptys.find(sb.ID(), c.r.PathValue("pty"))
		if p == nil {
			return &Error{Status: http.StatusNotFound, Message: "PTY session not found: " + shortenText(c.r.PathValue("pty"))}
		}
		return f(c, p)
	})
}

// ptyRequest is the request for a terminal.
type ptyRequest struct {
	ID        string            `json:"id"`
	Cols      int               `json:"cols"`
	Rows      int               `json:"rows"`
	Cwd       string            `json:"cwd"`
	Envs      map[string]string `json:"envs"`
	LazyStart bool              `json:"lazyStart"`
}

// ptyInfo describes a terminal.
type ptyInfo struct {
	ID        string            `json:"id"`
	Cols      int               `json:"cols"`
	Rows      int               `json:"rows"`
	Cwd       string            `json:"cwd"`
	Envs      map[string]string `json:"envs"`
	LazyStart bool              `json:"lazyStart"`
	Active    bool              `json:"active"`
	CreatedAt string            `json:"createdAt"`
}

// pty is a terminal with a shell, which ends with this process.
type pty struct {
	sandbox *fleet.Sandbox
	p       *fleet.StartedProcess

	mu   sync.Mutex
	info ptyInfo // guarded by mu
}

func (p *pty) describe() ptyInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.info
}

// maxPTYs is the number of terminals of a sandbox.
const maxPTYs = 64

// ptys are the terminals of sandboxes. The zero value is ready to use.
type ptys struct {
	mu   sync.Mutex
	all  map[string][]*pty // by sandbox; guarded by mu
	done bool              // guarded by mu
	wg   sync.WaitGroup
}

func (l *ptys) list(sandbox string) []*pty {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all[sandbox])
}

func (l *ptys) find(sandbox, id string) *pty {
	for _, p := range l.list(sandbox) {
		if p.info.ID == id { // never changes
			return p
		}
	}
	return nil
}

// add adds a terminal, which start starts.
func (l *ptys) add(p *pty, start func() (*fleet.StartedProcess, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := p.sandbox.ID()
	switch {
	case l.done:
		return compat.ErrStopping
	case slices.ContainsFunc(l.all[id], func(o *pty) bool { return o.info.ID == p.info.ID }):
		return &Error{Status: http.StatusConflict, Message: "PTY session already exists: " + shortenText(p.info.ID)}
	case len(l.all[id]) >= maxPTYs:
		return &Error{Status: http.StatusTooManyRequests, Message: fmt.Sprintf("the sandbox has %d terminals, which is the limit: end one", maxPTYs)}
	}
	var err error
	if p.p, err = start(); err != nil {
		return err
	}
	if l.all == nil {
		l.all = make(map[string][]*pty)
	}
	l.all[id] = append(l.all[id], p)
	l.wg.Go(func() {
		<-p.p.Done()
		l.drop(p)
	})
	return nil
}

// drop removes a terminal that has ended.
func (l *ptys) drop(p *pty) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := p.sandbox.ID()
	l.all[id] = slices.DeleteFunc(l.all[id], func(o *pty) bool { return o == p })
	if len(l.all[id]) == 0 {
		delete(l.all, id)
	}
}

// forgetSandbox ends the terminals of a sandbox.
func (l *ptys) forgetSandbox(sandbox string) {
	for _, p := range l.list(sandbox) {
		l.drop(p)
		p.p.Kill()
	}
}

// close ends all terminals and waits for them.
func (l *ptys) close() {
	l.mu.Lock()
	l.done = true
	var all []*pty
	for _, list := range l.all {
		all = append(all, list...)
	}
	l.mu.Unlock()
	for _, p := range all {
		p.p.Kill()
	}
	l.wg.Wait()
}

// maxSide is the largest width or height of a terminal.
const maxSide = 65535

// startPTY starts a terminal.
func (s *Server) startPTY(ctx context.Context, sb *fleet.Sandbox, in *ptyRequest) (*pty, error) {
	if in.ID == "" || len(in.ID) > 256 || in.ID == "create-connect" {
		return nil, invalidError("id %q: must have 1 to 256 bytes, and not be \"create-connect\"", shortenText(in.ID))
	}
	if in.Cols == 0 {
		in.Cols = 80
	}
	if in.Rows == 0 {
		in.Rows = 24
	}
	if in.Cols < 1 || in.Rows < 1 || in.Cols > maxSide || in.Rows > maxSide {
		return nil, invalidError("cols and rows: must be 1 to %d", maxSide)
	}
	shell, err := s.shells.Find(ctx, sb)
	if err != nil {
		return nil, err
	}
	if in.Envs == nil {
		in.Envs = map[string]string{}
	}
	p := &pty{sandbox: sb, info: ptyInfo{in.ID, in.Cols, in.Rows, absolutePath(in.Cwd), in.Envs, in.LazyStart, true, timeText(time.Now())}}
	env := append([]string{"TERM=xterm-256color"}, envOf(in.Envs)...)
	return p, s.ptys.add(p, func() (*fleet.StartedProcess, error) {
		return sb.StartAttached(context.WithoutCancel(ctx), "", atoll.Cmd{
			Args: []string{shell, "-i"}, Dir: dirOf(in.Cwd), Env: env, Timeout: -1, Stdout: io.Discard,
			TTY: &atoll.TTY{Size: atoll.Size{Rows: uint16(in.Rows), Cols: uint16(in.Cols)}},
		})
	})
}

// createPTY starts a terminal, to which clients connect later.
func (s *Server) createPTY(c *call, sb *fleet.Sandbox) error {
	var in ptyRequest
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if _, err := s.startPTY(c.r.Context(), sb, &in); err != nil {
		return err
	}
	return c.writeJSON(http.StatusCreated, map[string]string{"sessionId": in.ID})
}

// The subprotocols of terminals: the first one has environment variables, the second asks for a message
// when the shell ends.
const (
	envsProtocol = "X-Daytona-Pty-Envs~"
	exitProtocol = "X-Daytona-Pty-Exit-Control"
)

// createAndConnectPTY starts a terminal and connects its client.
func (s *Server) createAndConnectPTY(c *call, sb *fleet.Sandbox) error {
	if !isUpgrade(c.r) {
		return &Error{Status: http.StatusUpgradeRequired, Message: "this needs a WebSocket: request an upgrade"}
	}
	q := c.r.URL.Query()
	in := ptyRequest{ID: q.Get("id"), Cwd: q.Get("cwd")}
	var err error
	if in.Cols, err = c.readNumber("cols", 80, 1, maxSide); err != nil {
		return err
	}
	if in.Rows, err = c.readNumber("rows", 24, 1, maxSide); err != nil {
		return err
	}
	for _, name := range offeredProtocols(c.r) {
		if text, ok := strings.CutPrefix(name, envsProtocol); ok {
			b, err := base64.RawURLEncoding.DecodeString(text)
			if err != nil {
				return invalidError("Sec-WebSocket-Protocol: %s must be followed by base64", envsProtocol)
			}
			if err := decodeJSON(b, &in.Envs); err != nil {
				return err
			}
		}
	}
	p, err := s.startPTY(c.r.Context(), sb, &in)
	if err != nil {
		return err
	}
	return s.connectPTY(c, p)
}

// connectPTY connects a client to a terminal: first what is kept of its output, then what follows, until
// the shell ends. The terminal stays when the client leaves.
func (s *Server) connectPTY(c *call, p *pty) error {
	wantsExit := slices.Contains(offeredProtocols(c.r), exitProtocol)
	ws, ctx, cancel, err := s.acceptWebSocket(c)
	if err != nil {
		return err
	}
	defer cancel()
	if sendControl(ctx, ws, map[string]any{"type": "control", "status": "connected"}) != nil {
		return nil //nolint:nilerr // the client is gone
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer leave()
		for {
			_, b, err := ws.Read(ctx)
			if err != nil || p.sandbox.WriteInput(ctx, p.p.ID, b) != nil {
				return
			}
		}
	})
	exit, err := p.sandbox.Attach(ctx, p.p.ID, fleet.Attachment{Stdout: &socketWriter{ctx, ws}, Stderr: io.Discard})
	code := exit.Code
	if ctx.Err() == nil || err == nil {
		if err != nil {
			code = -1
		}
		if wantsExit {
			_ = sendControl(ctx, ws, map[string]any{"type": "control", "status": "exited", "exitCode": code}) // the error means that the client is gone
		}
		_ = ws.Close(websocket.StatusNormalClosure, fmt.Sprintf(`{"exitCode":%d}`, code))
	}
	cancel()
	wg.Wait()
	return nil
}

// sendControl sends a message about a terminal.
func sendControl(ctx context.Context, ws *websocket.Conn, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return ws.Write(ctx, websocket.MessageText, b)
}

// socketWriter sends output as binary messages.
type socketWriter struct {
	ctx context.Context //nolint:containedctx // of the connection
	ws  *websocket.Conn
}

// Write sends output.
func (w *socketWriter) Write(b []byte) (int, error) {
	n := 0
	for part := range slices.Chunk(b, 4*maxFrame) {
		if err := w.ws.Write(w.ctx, websocket.MessageBinary, part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

func (s *Server) listPTYs(c *call, sb *fleet.Sandbox) error {
	list := []ptyInfo{}
	for _, p := range s.ptys.list(sb.ID()) {
		list = append(list, p.describe())
	}
	return c.writeJSON(http.StatusOK, map[string]any{"sessions": list})
}

// resizePTY changes the size of a terminal.
func (s *Server) resizePTY(c *call, p *pty) error {
	var in struct {
		Cols int `json:"cols"`
		Rows int `json:"rows"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if in.Cols < 1 || in.Rows < 1 || in.Cols > maxSide || in.Rows > maxSide {
		return invalidError("cols and rows: must be 1 to %d", maxSide)
	}
	if err := p.sandbox.Resize(c.r.Context(), p.p.ID, atoll.Size{Rows: uint16(in.Rows), Cols: uint16(in.Cols)}); err != nil {
		return err
	}
	p.mu.Lock()
	p.info.Cols, p.info.Rows = in.Cols, in.Rows
	p.mu.Unlock()
	return c.writeJSON(http.StatusOK, p.describe())
}

// removePTY ends a terminal.
func (s *Server) removePTY(c *call, p *pty) error {
	if err := c.a.RequireScope("exec", atoll.ScopeRun); err != nil {
		return err
	}
	s.ptys.drop(p)
	p.p.Kill()
	return c.writeJSON(http.StatusOK, map[string]string{"message": "PTY session deleted"})
}
