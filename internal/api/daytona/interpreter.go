package daytona

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerInterpreter registers the routes of code interpreters.
func (s *Server) registerInterpreter() {
	const at = "/process/interpreter"
	s.addToolbox("POST", at+"/context", s.createContext)
	s.addToolbox("GET", at+"/context", s.listContexts)
	s.addToolbox("DELETE", at+"/context/{context}", s.removeContext)
	s.addToolbox("GET", at+"/execute", s.executeCode)
}

// contextInfo describes a context: code that runs in it sees what earlier code has left.
type contextInfo struct {
	ID        string `json:"id"`
	Language  string `json:"language"`
	Cwd       string `json:"cwd"`
	Active    bool   `json:"active"`
	CreatedAt string `json:"createdAt"`
}

func describeContext(k compat.KernelInfo) contextInfo {
	return contextInfo{k.ID, k.Language, k.Cwd, true, timeText(k.Created)}
}

// createContext creates a context.
func (s *Server) createContext(c *call, sb *fleet.Sandbox) error {
	var in struct {
		Cwd      string `json:"cwd"`
		Language string `json:"language"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	language, err := compat.KernelLanguage(in.Language)
	if err != nil {
		return err
	}
	k, err := s.kernels.Create(c.r.Context(), sb, compat.KernelInfo{ID: newUUID(), Language: language, Cwd: absolutePath(in.Cwd), Created: time.Now()})
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, describeContext(k.Info))
}

// defaultContext is the context of code that names none. It is not listed.
const defaultContext = "default"

func (s *Server) listContexts(c *call, sb *fleet.Sandbox) error {
	list := []contextInfo{}
	for _, k := range s.kernels.List(sb.ID()) {
		if k.ID != defaultContext {
			list = append(list, describeContext(k))
		}
	}
	return c.writeJSON(http.StatusOK, map[string]any{"contexts": list})
}

func missingContext(id string) error {
	return &Error{Status: http.StatusNotFound, Message: "context not found: " + shortenText(id)}
}

// removeContext ends a context.
func (s *Server) removeContext(c *call, sb *fleet.Sandbox) error {
	if err := c.a.RequireScope("exec", atoll.ScopeRun); err != nil {
		return err
	}
	id := c.r.PathValue("context")
	if !s.kernels.Remove(sb.ID(), id) {
		return missingContext(id)
	}
	return c.writeJSON(http.StatusOK, map[string]string{"message": "context deleted"})
}

// findKernel returns the kernel of the context that a client names, or the default one.
func (s *Server) findKernel(ctx context.Context, sb *fleet.Sandbox, id string) (*compat.Kernel, error) {
	if id != "" && id != defaultContext {
		if k := s.kernels.Find(ctx, sb.ID(), id); k != nil {
			return k, nil
		}
		return nil, missingContext(id)
	}
	if k := s.kernels.Find(ctx, sb.ID(), defaultContext); k != nil {
		return k, nil
	}
	k, err := s.kernels.Create(ctx, sb, compat.KernelInfo{ID: defaultContext, Language: "python", Cwd: home, Created: time.Now()})
	if errors.Is(err, compat.ErrKernelExists) { // a concurrent request made it
		if k := s.kernels.Find(ctx, sb.ID(), defaultContext); k != nil {
			return k, nil
		}
	}
	return k, err
}

// codeTimeout is the time that code has if its client names none, in seconds.
const codeTimeout = 600

// closeTimeout is the status of a WebSocket whose code has run for too long.
const closeTimeout = websocket.StatusCode(4008)

// executeCode runs the code that the first message of a WebSocket has, and sends its output as it comes.
func (s *Server) executeCode(c *call, sb *fleet.Sandbox) error {
	if err := c.a.RequireScope("exec", atoll.ScopeRun); err != nil {
		return err
	}
	ws, ctx, cancel, err := s.acceptWebSocket(c)
	if err != nil {
		return err
	}
	defer cancel()
	first, cancelFirst := context.WithTimeout(ctx, time.Minute)
	_, b, err := ws.Read(first)
	cancelFirst()
	if err != nil {
		return nil //nolint:nilerr // the client is gone
	}
	status, reason := s.executeMessage(ws.CloseRead(ctx), ws, sb, b)
	_ = ws.Close(status, reason) // the error means that the client is gone
	return nil
}

// executeMessage runs code and returns the status and the reason with which its connection is closed.
func (s *Server) executeMessage(ctx context.Context, ws *websocket.Conn, sb *fleet.Sandbox, message []byte) (websocket.StatusCode, string) {
	var in struct {
		Code      string            `json:"code"`
		ContextID string            `json:"contextId"`
		Envs      map[string]string `json:"envs"`
		Timeout   *int              `json:"timeout"`
	}
	fail := func(err error) (websocket.StatusCode, string) {
		return websocket.StatusPolicyViolation, shortenReason(messageOf(err))
	}
	if err := decodeJSON(message, &in); err != nil {
		return fail(err)
	}
	seconds := codeTimeout
	if in.Timeout != nil {
		seconds = *in.Timeout
	}
	d, err := timeoutOf(seconds)
	if err != nil {
		return fail(err)
	}
	k, err := s.findKernel(ctx, sb, in.ContextID)
	if err != nil {
		return fail(err)
	}
	request, err := json.Marshal(map[string]any{"code": in.Code, "env": in.Envs})
	if err != nil {
		return fail(err)
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if d > 0 {
		limited, cancel = context.WithTimeout(ctx, d)
	}
	defer cancel()
	err = k.RunCode(limited, request, func(line []byte) error { return sendResult(limited, ws, line) })
	switch {
	case ctx.Err() != nil:
		return websocket.StatusGoingAway, ""
	case limited.Err() != nil:
		return closeTimeout, "the code was interrupted at its timeout"
	case err != nil: // the kernel has ended
		s.kernels.Remove(sb.ID(), k.Info.ID)
		return websocket.StatusInternalError, shortenReason(messageOf(err))
	}
	if sendControl(ctx, ws, map[string]string{"type": "control", "text": "completed"}) != nil {
		return websocket.StatusGoingAway, ""
	}
	return websocket.StatusNormalClosure, ""
}

// sendResult passes a message of a kernel on, if clients know its kind. The values of expressions are no
// output, as in programs.
func sendResult(ctx context.Context, ws *websocket.Conn, line []byte) error {
	var m struct {
		Type      string `json:"type"`
		Text      string `json:"text"`
		Name      string `json:"name"`
		Value     string `json:"value"`
		Traceback string `json:"traceback"`
	}
	if json.Unmarshal(line, &m) != nil {
		return nil //nolint:nilerr // a message of another form
	}
	switch m.Type {
	case "stdout", "stderr":
		for text := range chunkText(m.Text) {
			if err := sendControl(ctx, ws, map[string]string{"type": m.Type, "text": text}); err != nil {
				return err
			}
		}
	case "error":
		return sendControl(ctx, ws, map[string]string{"type": "error", "name": m.Name, "value": m.Value, "traceback": m.Traceback})
	}
	return nil
}

// chunkText splits a text into pieces of at most the size of a message, between characters.
func chunkText(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > 4*maxFrame {
			n := 4 * maxFrame
			for n > 1 && text[n]&0xc0 == 0x80 {
				n--
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
		yield(text)
	}
}

// shortenReason cuts the reason of a closed WebSocket to the 123 bytes that it may have.
func shortenReason(s string) string {
	if len(s) > 120 {
		s = s[:120]
	}
	return strings.ToValidUTF8(s, "")
}

// artifacts are the results of code besides its output.
type artifacts struct {
	Charts []any `json:"charts"`
}

// codePrograms are the programs that run code, which is their last argument.
var codePrograms = map[string][]string{"python": {"python3", "-u", "-c"}, "javascript": {"node", "-e"}}

// runCode runs code in a new process and answers with its output.
func (s *Server) runCode(c *call, sb *fleet.Sandbox) error {
	var in struct {
		Code     string            `json:"code"`
		Language string            `json:"language"`
		Argv     []string          `json:"argv"`
		Envs     map[string]string `json:"envs"`
		Timeout  int               `json:"timeout"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	language, err := compat.KernelLanguage(in.Language)
	if err != nil {
		return err
	}
	args := append([]string{}, codePrograms[language]...)
	args = append(args, in.Code)
	if language == "javascript" && len(in.Argv) > 0 {
		args = append(args, "--")
	}
	reply, err := s.execute(c.r.Context(), sb, &atoll.Cmd{Args: append(args, in.Argv...), Env: envOf(in.Envs)}, in.Timeout)
	if err != nil {
		return err
	}
	reply.Artifacts = &artifacts{Charts: []any{}}
	return c.writeJSON(http.StatusOK, reply)
}
