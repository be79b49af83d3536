package vt

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Set is the terminals of a sandbox. Its methods may be called at once from
// many goroutines.
type Set struct {
	// Start begins what runs on a terminal, and fills in
	// Args where the spec has none; see NewShared.
	Start func(ctx context.Context, spec *atoll.TerminalSpec, t *Shared) (Program, error)
	Now   func() time.Time // nil: time.Now

	mu      sync.Mutex
	list    []*Shared       // guarded by mu; oldest first
	opening map[string]bool // guarded by mu; names of those that are being opened
}

// Bounds of a set: how many terminals it has, those that have ended too, and how
// long these stay.
const (
	MaxTerminals = 32
	keepEnded    = 10 * time.Minute
)

func (s *Set) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// OpenTerminal is that of atoll.Terminals.
func (s *Set) OpenTerminal(ctx context.Context, spec atoll.TerminalSpec) (atoll.Terminal, error) {
	if err := spec.Check(); err != nil {
		return atoll.Terminal{}, err
	}
	name, err := s.reserve(spec.Name)
	if err != nil {
		return atoll.Terminal{}, err
	}
	spec.Name = name
	t, err := NewShared(&spec, s.now, func(t *Shared) (Program, error) { return s.Start(ctx, &spec, t) })
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.opening, name)
	if err != nil {
		return atoll.Terminal{}, err
	}
	s.list = append(s.list, t)
	go s.expire(t)
	return t.Info(), nil
}

// reserve finds a name, or sees to it that nobody else takes this one, and that
// there is room for one more.
func (s *Set) reserve(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case name == "":
		name = s.free()
	case s.taken(name):
		return "", fmt.Errorf("terminal %s: %w", name, atoll.ErrExists)
	}
	if n := len(s.list) + len(s.opening); n >= MaxTerminals && !s.drop() {
		return "", fmt.Errorf("%w: %d terminals are open", atoll.ErrQuota, n)
	}
	if s.opening == nil {
		s.opening = make(map[string]bool)
	}
	s.opening[name] = true
	return name, nil
}

// taken reports whether a terminal has a name; the caller holds mu.
func (s *Set) taken(name string) bool { return s.opening[name] || s.at(name) >= 0 }

// free returns the lowest number that is no name; the caller holds mu.
func (s *Set) free() string {
	for n := 1; ; n++ {
		if name := strconv.Itoa(n); !s.taken(name) {
			return name
		}
	}
}

// at returns where a terminal is, or -1; the caller holds mu.
func (s *Set) at(name string) int {
	return slices.IndexFunc(s.list, func(t *Shared) bool { return t.info.Name == name }) // names don't change
}

// drop forgets the terminal that ended first; the caller holds mu.
func (s *Set) drop() bool {
	i := slices.IndexFunc(s.list, func(t *Shared) bool { return !t.Info().Running })
	if i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
	}
	return i >= 0
}

// expire forgets a terminal a while after it has ended.
func (s *Set) expire(t *Shared) {
	<-t.Over()
	time.AfterFunc(keepEnded, func() { s.forget(t) })
}

func (s *Set) forget(t *Shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(o *Shared) bool { return o == t })
}

func (s *Set) find(name string) (*Shared, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.at(name)
	if i < 0 {
		return nil, fmt.Errorf("terminal %s: %w", name, atoll.ErrNotFound)
	}
	return s.list[i], nil
}

// ListTerminals is that of atoll.Terminals.
func (s *Set) ListTerminals(context.Context) ([]atoll.Terminal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]atoll.Terminal, len(s.list))
	for i, t := range s.list {
		list[i] = t.Info()
	}
	return list, nil
}

// CloseTerminal is that of atoll.Terminals.
func (s *Set) CloseTerminal(ctx context.Context, name string) error {
	t, err := s.find(name)
	if err != nil {
		return err
	}
	if err := end(ctx, t); err != nil {
		return err
	}
	s.forget(t)
	return nil
}

func end(ctx context.Context, t *Shared) error {
	select {
	case <-t.Over():
		return nil
	default:
	}
	t.Kill()
	select {
	case <-t.Over():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AttachTerminal is that of atoll.TerminalUser.
func (s *Set) AttachTerminal(ctx context.Context, name string, a atoll.Attachment) (atoll.Exit, error) {
	t, err := s.find(name)
	if err != nil {
		return atoll.Exit{}, err
	}
	return t.Attach(ctx, a)
}

// ReadTerminal is that of atoll.TerminalUser.
func (s *Set) ReadTerminal(_ context.Context, name string) (atoll.Screen, error) {
	t, err := s.find(name)
	if err != nil {
		return atoll.Screen{}, err
	}
	return t.Screen(), nil
}

// SendTerminal is that of atoll.TerminalUser.
func (s *Set) SendTerminal(ctx context.Context, name string, input []byte) error {
	t, err := s.find(name)
	if err != nil {
		return err
	}
	return t.Send(ctx, input)
}

// commandText writes a command as a shell would read it.
func commandText(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if a != "" && strings.IndexFunc(a, unsafe) < 0 {
			words[i] = a
			continue
		}
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// unsafe reports whether a character may mean something to a shell.
func unsafe(r rune) bool {
	alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !alnum && !strings.ContainsRune("-_./:=@%+,", r)
}
