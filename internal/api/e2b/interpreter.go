package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerInterpreter registers the routes of code interpreters.
func (s *Server) registerInterpreter() {
	add(s.data, "POST /execute", s.executeCode)
	add(s.data, "POST /contexts", s.createContext)
	add(s.data, "GET /contexts", s.listContexts)
	add(s.data, "DELETE /contexts/{id}", s.removeContext)
	add(s.data, "POST /contexts/{id}/restart", s.restartContext)
}

// languages maps the names of languages to those of kernels.
var languages = map[string]string{"": "python", "python": "python", "python3": "python", "javascript": "javascript", "js": "javascript"}

// languageOf returns the language of a kernel that a client names.
func languageOf(name string) (string, error) {
	language := languages[strings.ToLower(name)]
	if language == "" {
		return "", unsupportedError("the language %q", shortenText(name))
	}
	return language, nil
}

// contextInfo describes a context: code that runs in it sees what earlier code has left.
type contextInfo struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Cwd      string `json:"cwd"`
}

// createContext creates a context.
func (s *Server) createContext(c *call) error {
	var in struct {
		Language string `json:"language"`
		Cwd      string `json:"cwd"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	language, err := languageOf(in.Language)
	if err != nil {
		return err
	}
	sb, err := s.openSandbox(c)
	if err != nil {
		return err
	}
	k, err := s.kernels.create(c.r.Context(), sb, contextInfo{ID: newUUID(), Language: language, Cwd: absolutePath(in.Cwd)})
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, k.info)
}

// listContexts answers with the contexts of a sandbox, with its default ones.
func (s *Server) listContexts(c *call) error {
	sb, err := s.openSandbox(c)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, s.kernels.list(sb.ID()))
}

func missingContext(id string) error {
	return &Error{Status: http.StatusNotFound, Message: "Context " + shortenText(id) + " not found"}
}

// removeContext ends a context.
func (s *Server) removeContext(c *call) error {
	sb, err := s.openSandbox(c)
	if err != nil {
		return err
	}
	if !s.kernels.removeKernel(sb.ID(), c.r.PathValue("id")) {
		return missingContext(c.r.PathValue("id"))
	}
	return c.writeEmpty(nil)
}

// restartContext makes a context forget what its code has left.
func (s *Server) restartContext(c *call) error {
	sb, err := s.openSandbox(c)
	if err != nil {
		return err
	}
	k := s.kernels.find(c.r.Context(), sb.ID(), c.r.PathValue("id"))
	if k == nil {
		return missingContext(c.r.PathValue("id"))
	}
	info := k.info
	s.kernels.removeKernel(sb.ID(), info.ID)
	if _, err := s.kernels.create(c.r.Context(), sb, info); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// executeRequest is code to run.
type executeRequest struct {
	Code      string            `json:"code"`
	ContextID string            `json:"context_id"`
	Language  string            `json:"language"`
	EnvVars   map[string]string `json:"env_vars"`
}

// executeCode runs code in a context and answers with its output and results as they come, one JSON object
// per line.
func (s *Server) executeCode(c *call) error {
	var in executeRequest
	if err := c.readJSON(&in); err != nil {
		return err
	}
	ctx := c.r.Context()
	sb, err := s.openSandbox(c)
	if err != nil {
		return err
	}
	k, err := s.kernelFor(ctx, sb, &in)
	if err != nil {
		return err
	}
	request, err := json.Marshal(map[string]any{"code": in.Code, "env": in.EnvVars})
	if err != nil {
		return err
	}
	began := false
	flush := http.NewResponseController(c.w)
	err = k.runCode(ctx, request, func(line []byte) error {
		if !began {
			c.w.Header().Set("Content-Type", "application/x-ndjson")
			c.w.WriteHeader(http.StatusOK)
			began = true
		}
		if _, err := c.w.Write(line); err != nil {
			return err
		}
		return flush.Flush()
	})
	if err != nil && began && ctx.Err() == nil { // the kernel has ended: the client learns why
		s.kernels.removeKernel(sb.ID(), k.info.ID)
		message, _ := json.Marshal(map[string]string{"type": "error", "name": "KernelDied", "value": err.Error(), "traceback": err.Error()}) // strings can be encoded
		_, _ = c.w.Write(append(message, "\n{\"type\":\"end_of_execution\"}\n"...))                                                          // write errors mean that the client is gone
		return nil
	}
	if err != nil && !began {
		s.kernels.removeKernel(sb.ID(), k.info.ID)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the client is gone
	}
	return err
}

// kernelFor returns the kernel of the context that a request names, or the default one of its language.
func (s *Server) kernelFor(ctx context.Context, sb *fleet.Sandbox, in *executeRequest) (*kernel, error) {
	if in.ContextID != "" {
		if k := s.kernels.find(ctx, sb.ID(), in.ContextID); k != nil {
			return k, nil
		}
		return nil, missingContext(in.ContextID)
	}
	language, err := languageOf(in.Language)
	if err != nil {
		return nil, err
	}
	id := "default-" + language
	if k := s.kernels.find(ctx, sb.ID(), id); k != nil {
		return k, nil
	}
	k, err := s.kernels.create(ctx, sb, contextInfo{ID: id, Language: language, Cwd: home})
	if errors.Is(err, errContextExists) { // a concurrent request made it
		if k := s.kernels.find(ctx, sb.ID(), id); k != nil {
			return k, nil
		}
	}
	return k, err
}

var errContextExists = &Error{Status: http.StatusConflict, Message: "the context exists already"}
