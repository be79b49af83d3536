package daytona

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/coder/websocket"
)

// registerSessions registers the routes of sessions.
func (s *Server) registerSessions() {
	const at = "/process/session"
	s.addToolbox("POST", at, s.createSession)
	s.addToolbox("GET", at, s.listSessions)
	s.addToolbox("GET", at+"/entrypoint", func(c *call, _ *fleet.Sandbox) error {
		return c.writeJSON(http.StatusOK, sessionInfo{"entrypoint", []commandInfo{}})
	})
	s.addToolbox("GET", at+"/entrypoint/logs", s.readEntrypointLogs)
	s.addSession("GET", "", func(c *call, x *session) error { return c.writeJSON(http.StatusOK, x.describe()) })
	s.addSession("DELETE", "", s.removeSession)
	s.addSession("POST", "/exec", s.executeInSession)
	s.addCommand("GET", "", func(c *call, _ *session, k *command) error { return c.writeJSON(http.StatusOK, k.describe()) })
	s.addCommand("GET", "/logs", s.readCommandLogs)
	s.addCommand("POST", "/input", s.sendInput)
}

// addSession registers a route that names a session.
func (s *Server) addSession(method, path string, f func(c *call, x *session) error) {
	s.addToolbox(method, "/process/session/{session}"+path, func(c *call, sb *fleet.Sandbox) error {
		x := s.sessions.find(sb.ID(), c.r.PathValue("session"))
		if x == nil {
			return &Error{Status: http.StatusNotFound, Message: "session not found: " + shortenText(c.r.PathValue("session"))}
		}
		return f(c, x)
	})
}

// addCommand registers a route that names a command of a session.
func (s *Server) addCommand(method, path string, f func(c *call, x *session, k *command) error) {
	s.addSession(method, "/command/{command}"+path, func(c *call, x *session) error {
		k := x.find(c.r.PathValue("command"))
		if k == nil {
			return &Error{Status: http.StatusNotFound, Message: "command not found: " + shortenText(c.r.PathValue("command"))}
		}
		return f(c, x, k)
	})
}

// sessionInfo describes a session.
type sessionInfo struct {
	SessionID string        `json:"sessionId"`
	Commands  []commandInfo `json:"commands"`
}

// commandInfo describes a command of a session.
type commandInfo struct {
	ID       string `json:"id"`
	Command  string `json:"command"`
	ExitCode *int   `json:"exitCode,omitempty"` // nil: it runs, or waits for others
}

// createSession creates a session.
func (s *Server) createSession(c *call, sb *fleet.Sandbox) error {
	var in struct {
		SessionID string `json:"sessionId"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if in.SessionID == "" || len(in.SessionID) > 256 || in.SessionID == "entrypoint" {
		return invalidError("sessionId %q: must have 1 to 256 bytes, and not be \"entrypoint\"", shortenText(in.SessionID))
	}
	if err := c.a.RequireScope("exec", atoll.ScopeRun); err != nil {
		return err
	}
	shell, err := s.shells.Find(c.r.Context(), sb)
	if err != nil {
		return err
	}
	return c.writeEmpty(http.StatusCreated, s.sessions.add(newSession(sb, in.SessionID, shell)))
}

func (s *Server) listSessions(c *call, sb *fleet.Sandbox) error {
	list := []sessionInfo{}
	for _, x := range s.sessions.list(sb.ID()) {
		list = append(list, x.describe())
	}
	return c.writeJSON(http.StatusOK, list)
}

// removeSession ends a session with the commands that run in it.
func (s *Server) removeSession(c *call, x *session) error {
	if err := c.a.RequireScope("exec", atoll.ScopeRun); err != nil {
		return err
	}
	s.sessions.remove(x)
	return c.writeEmpty(http.StatusNoContent, nil)
}

// executeInSession runs a command in the shell of a session. It answers when the command has ended, or with
// runAsync at once.
func (s *Server) executeInSession(c *call, x *session) error {
	var in struct {
		Command  string `json:"command"`
		RunAsync bool   `json:"runAsync"`
		Async    bool   `json:"async"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if strings.TrimSpace(in.Command) == "" || strings.ContainsRune(in.Command, 0) {
		return invalidError("command: must not be empty or hold NUL bytes")
	}
	if err := c.a.RequireScope("exec", atoll.ScopeRun); err != nil {
		return err
	}
	k, err := x.start(in.Command)
	if err != nil {
		return err
	}
	if in.RunAsync || in.Async {
		return c.writeJSON(http.StatusAccepted, map[string]string{"cmdId": k.id})
	}
	select {
	case <-k.done:
	case <-c.r.Context().Done(): // the command goes on
		return nil
	}
	if k.failed != nil {
		return k.failed
	}
	mixed, stdout, stderr := k.log.texts()
	out := map[string]any{"cmdId": k.id, "exitCode": k.exit, "output": stdout + stderr, "stdout": stdout, "stderr": stderr}
	if c.readsMarkers() {
		out["output"] = mixed
	}
	return c.writeJSON(http.StatusOK, out)
}

// readsMarkers reports whether the client splits output by markers itself, as SDKs before 0.167 do.
func (c *call) readsMarkers() bool {
	v := strings.Split(strings.TrimPrefix(c.r.Header.Get("X-Daytona-SDK-Version"), "v"), ".")
	if len(v) < 2 || v[0] != "0" {
		return false
	}
	minor, err := strconv.Atoi(v[1])
	return err == nil && minor < 167
}

// readCommandLogs answers with the output of a command: what it has written, or with follow a WebSocket with
// all output until it ends.
func (s *Server) readCommandLogs(c *call, _ *session, k *command) error {
	if follow, _ := strconv.ParseBool(c.r.URL.Query().Get("follow")); follow || isUpgrade(c.r) {
		return s.followLog(c, k.log, k.done)
	}
	mixed, stdout, stderr := k.log.texts()
	if c.readsMarkers() {
		c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = c.w.Write([]byte(mixed)) // write errors mean that the client is gone
		return nil
	}
	return c.writeJSON(http.StatusOK, map[string]string{"output": mixed, "stdout": stdout, "stderr": stderr})
}

// readEntrypointLogs answers with the output of the entrypoint: sandboxes have none.
func (s *Server) readEntrypointLogs(c *call, _ *fleet.Sandbox) error {
	if isUpgrade(c.r) {
		done := make(chan struct{})
		close(done)
		return s.followLog(c, newOutputLog(), done)
	}
	return c.writeJSON(http.StatusOK, map[string]string{"output": "", "stdout": "", "stderr": ""})
}

// followLog sends a log over a WebSocket until it ends.
func (s *Server) followLog(c *call, log *outputLog, done <-chan struct{}) error {
	ws, ctx, cancel, err := s.acceptWebSocket(c)
	if err != nil {
		return err
	}
	defer cancel()
	ctx = ws.CloseRead(ctx)
	for at := 0; ; {
		frame, next, wait := log.frame(at)
		at = next
		if len(frame) > 0 {
			if ws.Write(ctx, websocket.MessageBinary, frame) != nil {
				return nil //nolint:nilerr // the client is gone
			}
			continue
		}
		select {
		case <-wait:
		case <-done:
			if frame, _, _ := log.frame(at); len(frame) == 0 {
				_ = ws.Close(websocket.StatusNormalClosure, "") // the error means that the client is gone
				return nil
			}
		case <-ctx.Done():
			_ = ws.Close(websocket.StatusGoingAway, "")
			return nil
		}
	}
}

// sendInput writes to the standard input of the command that runs.
func (s *Server) sendInput(c *call, x *session, k *command) error {
	var in struct {
		Data string `json:"data"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if err := c.a.RequireScope("exec", atoll.ScopeRun); err != nil {
		return err
	}
	err := x.writeInput(c.r.Context(), k, []byte(in.Data))
	return c.writeEmpty(http.StatusNoContent, err)
}

// Limits of sessions.
const (
	maxSessions = 256      // of a sandbox
	maxCommands = 1000     // of a session that are remembered
	maxLog      = 16 << 20 // bytes of the output of a command
	maxFrame    = 8 << 10  // bytes of a message; decoders of clients are slow with large ones
)

// sessions are the sessions of sandboxes, which end with this process. The zero value is ready to use.
type sessions struct {
	mu   sync.Mutex
	all  map[string][]*session // by sandbox; guarded by mu
	done bool                  // guarded by mu
}

// add adds a session.
func (l *sessions) add(x *session) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := x.sandbox.ID()
	switch {
	case l.done:
		return compat.ErrStopping
	case slices.ContainsFunc(l.all[id], func(o *session) bool { return o.id == x.id }):
		return &Error{Status: http.StatusConflict, Message: "session already exists: " + shortenText(x.id)}
	case len(l.all[id]) >= maxSessions:
		return &Error{Status: http.StatusTooManyRequests, Message: fmt.Sprintf("the sandbox has %d sessions, which is the limit: delete one", maxSessions)}
	}
	if l.all == nil {
		l.all = make(map[string][]*session)
	}
	l.all[id] = append(l.all[id], x)
	return nil
}

func (l *sessions) find(sandbox, id string) *session {
	for _, x := range l.list(sandbox) {
		if x.id == id {
			return x
		}
	}
	return nil
}

func (l *sessions) list(sandbox string) []*session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all[sandbox])
}

// remove ends a session.
func (l *sessions) remove(x *session) {
	l.mu.Lock()
	id := x.sandbox.ID()
	l.all[id] = slices.DeleteFunc(l.all[id], func(o *session) bool { return o == x })
	if len(l.all[id]) == 0 {
		delete(l.all, id)
	}
	l.mu.Unlock()
	x.close()
}

// forgetSandbox ends the sessions of a sandbox.
func (l *sessions) forgetSandbox(sandbox string) {
	for _, x := range l.list(sandbox) {
		l.remove(x)
	}
}

// close ends all sessions.
func (l *sessions) close() {
	l.mu.Lock()
	l.done = true
	var all []*session
	for _, list := range l.all {
		all = append(all, list...)
	}
	l.mu.Unlock()
	for _, x := range all {
		l.remove(x)
	}
}

// session is a shell that runs commands one after another and keeps its state: variables, functions and
// the working directory.
type session struct {
	sandbox *fleet.Sandbox
	id      string
	shell   string
	life    context.Context //nolint:containedctx // of the session
	end     context.CancelCauseFunc
	queue   chan *command
	wg      sync.WaitGroup

	mu       sync.Mutex
	commands []*command            // guarded by mu
	current  *command              // that runs; guarded by mu
	p        *fleet.StartedProcess // guarded by mu; nil: none runs
	streams  []*streamSplitter     // of p; guarded by mu
}

// errSessionEnded is the error of commands of a session that was deleted.
var errSessionEnded = &Error{Status: http.StatusGone, Code: "SESSION_ENDED", Message: "the session was deleted"}

// newSession starts a session. Its shell starts with its first command.
func newSession(sb *fleet.Sandbox, id, shell string) *session {
	x := &session{sandbox: sb, id: id, shell: shell, queue: make(chan *command, maxCommands)}
	x.life, x.end = context.WithCancelCause(context.Background())
	x.wg.Go(x.runCommands)
	return x
}

// close ends the shell with the command that runs, and waits for it.
func (x *session) close() {
	x.end(errSessionEnded)
	x.wg.Wait()
}

func (x *session) describe() sessionInfo {
	x.mu.Lock()
	list := slices.Clone(x.commands)
	x.mu.Unlock()
	info := sessionInfo{x.id, []commandInfo{}}
	for _, k := range list {
		info.Commands = append(info.Commands, k.describe())
	}
	return info
}

func (x *session) find(id string) *command {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, k := range x.commands {
		if k.id == id {
			return k
		}
	}
	return nil
}

// command is a command of a session.
type command struct {
	id, text string
	log      *outputLog
	done     chan struct{} // closed when it has ended; exit and failed are set then
	exit     int
	failed   error
	marks    int // streams whose end was seen; only the session's goroutines use it, with its mu
}

func (k *command) describe() commandInfo {
	info := commandInfo{ID: k.id, Command: k.text}
	select {
	case <-k.done:
		info.ExitCode = &k.exit
	default:
	}
	return info
}

// start queues a command.
func (x *session) start(text string) (*command, error) {
	k := &command{id: newUUID(), text: text, log: newOutputLog(), done: make(chan struct{})}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.life.Err() != nil {
		return nil, errSessionEnded
	}
	select {
	case x.queue <- k:
	default:
		return nil, &Error{Status: http.StatusTooManyRequests, Message: fmt.Sprintf("%d commands wait in the session, which is the limit", maxCommands)}
	}
	if x.commands = append(x.commands, k); len(x.commands) > maxCommands {
		x.commands = x.commands[1:]
	}
	return k, nil
}

// runCommands runs the commands of the queue until the session ends.
func (x *session) runCommands() {
	for {
		select {
		case k := <-x.queue:
			if k.failed = x.runCommand(k); k.failed != nil {
				k.exit = -1
			}
			close(k.done)
		case <-x.life.Done():
			x.stopShell()
			for {
				select {
				case k := <-x.queue:
					k.exit, k.failed = -1, errSessionEnded
					close(k.done)
				default:
					return
				}
			}
		}
	}
}

// stopShell ends the shell and waits for it.
func (x *session) stopShell() {
	x.mu.Lock()
	p := x.p
	x.p = nil
	x.mu.Unlock()
	if p != nil {
		p.Kill()
		<-p.Done()
	}
}

// runCommand runs one command in the shell. A command that ends the shell, such as exit, has its status;
// the next one gets a new shell.
func (x *session) runCommand(k *command) error {
	ended := make(chan int, 1)
	p, err := x.startShell()
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.current, k.marks = k, 0
	for _, s := range x.streams {
		s.begin(k, ended)
	}
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		x.current = nil
		x.mu.Unlock()
	}()
	if err := x.sandbox.WriteInput(x.life, p.ID, shellLine(k.text, x.streams[0].mark)); err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	select {
	case k.exit = <-ended:
		return nil
	case <-p.Done():
		exit, err := p.Exit()
		for _, s := range x.streams {
			s.flush()
		}
		x.stopShell()
		k.exit = exit.Code
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	case <-x.life.Done():
		x.stopShell()
		return errSessionEnded
	}
}

// shellLine returns the input that makes a shell run a command and then mark the end in both streams. It is
// one line for the parser, so what the command reads from its standard input is what clients send later.
func shellLine(text, mark string) []byte {
	quoted := "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	return []byte("eval " + quoted + `; printf '\036` + mark + `:%d\036' $? >&8; printf '\036` + mark + `:0\036' >&9` + "\n")
}

// startShell returns the shell, which it starts if none runs.
func (x *session) startShell() (*fleet.StartedProcess, error) {
	x.mu.Lock()
	p := x.p
	x.mu.Unlock()
	if p != nil {
		select {
		case <-p.Done():
		default:
			return p, nil
		}
	}
	mark := strings.ReplaceAll(newUUID(), "-", "")
	out, errs := &streamSplitter{mark: mark, stream: 1}, &streamSplitter{mark: mark, stream: 2}
	out.owner, errs.owner = x, x
	p, err := x.sandbox.StartAttached(x.life, "", atoll.Cmd{Args: []string{x.shell, "-c", "exec 8>&1 9>&2; exec " + x.shell}, Timeout: -1, Stdout: out, Stderr: errs})
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	x.p, x.streams = p, []*streamSplitter{out, errs}
	x.mu.Unlock()
	return p, nil
}

// writeInput writes to the standard input of a command that runs.
func (x *session) writeInput(ctx context.Context, k *command, data []byte) error {
	x.mu.Lock()
	p, current := x.p, x.current
	x.mu.Unlock()
	if p == nil || current != k {
		return &Error{Status: http.StatusGone, Code: "COMMAND_ALREADY_COMPLETED", Message: "the command does not run"}
	}
	return x.sandbox.WriteInput(ctx, p.ID, data)
}

// streamSplitter passes a stream of a shell to the log of the command that runs and finds the marks.
type streamSplitter struct {
	owner  *session
	mark   string
	stream byte // 1 stdout, 2 stderr

	mu    sync.Mutex
	k     *command   // guarded by mu; nil: none has run yet
	ended chan<- int // guarded by mu
	held  []byte     // may be the beginning of a mark; guarded by mu
}

// begin makes output belong to a command.
func (s *streamSplitter) begin(k *command, ended chan<- int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.k, s.ended = k, ended
}

// maxMark is the length of a mark in bytes: two separators, the word, a colon and the status.
const maxMark = 2 + 32 + 1 + 3

// Write passes output on.
func (s *streamSplitter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := b
	if len(s.held) > 0 {
		data = append(s.held, b...)
		s.held = nil
	}
	begin := []byte("\x1e" + s.mark + ":")
	for {
		at := bytes.Index(data, begin)
		if at < 0 {
			break
		}
		rest := data[at+len(begin):]
		end := bytes.IndexByte(rest, 0x1e)
		if end < 0 && len(data)-at < maxMark {
			s.log(data[:at])
			s.held = slices.Clone(data[at:])
			return len(b), nil
		}
		code, err := strconv.Atoi(string(rest[:max(end, 0)]))
		if err != nil {
			break
		}
		s.log(data[:at])
		data = rest[end+1:]
		s.owner.countMark(s, code)
	}
	keep := 0
	for n := min(len(begin)-1, len(data)); n > 0; n-- {
		if bytes.HasPrefix(begin, data[len(data)-n:]) {
			keep = n
			break
		}
	}
	s.log(data[:len(data)-keep])
	s.held = slices.Clone(data[len(data)-keep:])
	return len(b), nil
}

// flush passes on what could have been the beginning of a mark.
func (s *streamSplitter) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log(s.held)
	s.held = nil
}

func (s *streamSplitter) log(b []byte) {
	if s.k != nil && len(b) > 0 {
		s.k.log.write(s.stream, b)
	}
}

// countMark notes that a stream of the command has ended. The command has ended when both have; the status
// is in the first.
func (x *session) countMark(s *streamSplitter, code int) {
	k := s.k
	if k == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.stream == 1 {
		k.exit = code
	}
	if k.marks++; k.marks == 2 {
		s.ended <- k.exit
	}
}
