package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/atoll-sandbox/atoll/internal/api/compat"
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

// createContext creates a context.
func (s *Server) createContext(c *call) error {
	var in struct {
		Language string `json:"language"`
		Cwd      string `json:"cwd"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	language, err := compat.KernelLanguage(in.Language)
	if err != nil {
		return err
	}
	sb, err := s.openSandbox(c)
	if err != nil {
		return err
	}
	k, err := s.kernels.Create(c.r.Context(), sb, compat.KernelInfo{ID: newUUID(), Language: language, Cwd: absolutePath(in.Cwd)})
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, k.Info)
}

// listContexts answers with the contexts of a sandbox, with its default ones.
func (s *Server) listContexts(c *call) error {
	sb, err := s.openSandbox(c)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, s.kernels.List(sb.ID()))
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
	if !s.kernels.Remove(sb.ID(), c.r.PathValue("id")) {
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
	k := s.kernels.Find(c.r.Context(), sb.ID(), c.r.PathValue("id"))
	if k == nil {
		return missingContext(c.r.PathValue("id"))
	}
	info := k.Info
	s.kernels.Remove(sb.ID(), info.ID)
	if _, err := s.kernels.Create(c.r.Context(), sb, info); err != nil {
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
	err = k.RunCode(ctx, request, func(line []byte) error {
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
		s.kernels.Remove(sb.ID(), k.Info.ID)
		message, _ := json.Marshal(map[string]string{"type": "error", "name": "KernelDied", "value": err.Error(), "traceback": err.Error()}) // strings can be encoded
		_, _ = c.w.Write(append(message, "\n{\"type\":\"end_of_execution\"}\n"...))                                                          // write errors mean that the client is gone
		return nil
	}
	if err != nil && !began {
		s.kernels.Remove(sb.ID(), k.Info.ID)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the client is gone
	}
	return err
}

// kernelFor returns the kernel of the context that a request names, or the default one of its language.
func (s *Server) kernelFor(ctx context.Context, sb *fleet.Sandbox, in *executeRequest) (*compat.Kernel, error) {
	if in.ContextID != "" {
		if k := s.kernels.Find(ctx, sb.ID(), in.ContextID); k != nil {
			return k, nil
		}
		return nil, missingContext(in.ContextID)
	}
	language, err := compat.KernelLanguage(in.Language)
	if err != nil {
		return nil, err
	}
	id := "default-" + language
	if k := s.kernels.Find(ctx, sb.ID(), id); k != nil {
		return k, nil
	}
	k, err := s.kernels.Create(ctx, sb, compat.KernelInfo{ID: id, Language: language, Cwd: home})
	if errors.Is(err, compat.ErrKernelExists) { // a concurrent request made it
		if k := s.kernels.Find(ctx, sb.ID(), id); k != nil {
			return k, nil
		}
	}
	return k, err
}
