package compat

import (
	"context"
	"errors"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// Shells remembers which sandboxes have bash: SDKs run every command with it. The zero value is ready to
// use, and its methods may be called concurrently.
type Shells struct {
	mu    sync.Mutex
	known map[string]bool // by sandbox; guarded by mu
}

// maxShells is the number of sandboxes that are remembered.
const maxShells = 10_000

// Find returns the path of the shell of a sandbox: bash, or sh if it has none.
func (s *Shells) Find(ctx context.Context, sb *fleet.Sandbox) (string, error) {
	s.mu.Lock()
	has, known := s.known[sb.ID()]
	s.mu.Unlock()
	if !known {
		_, err := atoll.Stat(ctx, sb, "/bin/bash")
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			return "", err
		}
		has = err == nil
		s.mu.Lock()
		if len(s.known) > maxShells || s.known == nil {
			s.known = make(map[string]bool)
		}
		s.known[sb.ID()] = has
		s.mu.Unlock()
	}
	if has {
		return "/bin/bash", nil
	}
	return "/bin/sh", nil
}

// ForgetSandbox drops a sandbox.
func (s *Shells) ForgetSandbox(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
}
