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

// Set manages the terminals of a sandbox. Its methods may be called
// concurrently.
type Set struct {
	// Start starts the program of a terminal, and sets
	// Args if the spec has none.
	Start func(ctx context.Context, spec *atoll.TerminalSpec, t *Terminal) (Program, error)
	Now   func() time.Time // nil: time.Now

	mu      sync.Mutex
	list    []*Terminal     // guarded by mu; oldest first
	opening map[string]bool // guarded by mu; names of those that are being opened
}

// MaxTerminals limits the terminals of a set, including those that have ended;
// keepEnded is how long these are kept.
const (
	MaxTerminals = 32
	keepEnded    = 10 * time.Minute
)

func (s *Set) currentTime() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// OpenTerminal implements atoll.Terminals.
func (s *Set) OpenTerminal(ctx context.Context, spec atoll.TerminalSpec) (atoll.Terminal, error) {
	if err := spec.Check(); err != nil {
		return atoll.Terminal{}, err
	}
	name, err := s.reserve(spec.Name)
	if err != nil {
		return atoll.Terminal{}, err
	}
	spec.Name = name
	t, err := NewTerminal(&spec, s.currentTime, func(t *Terminal) (Program, error) { return s.Start(ctx, &spec, t) })
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.opening, name)
	if err != nil {
		return atoll.Terminal{}, err
	}
	s.list = append(s.list, t)
	go s.expireEnded(t)
	return t.Info(), nil
}

// reserve reserves a name, or chooses one if it is empty, and makes
// room for one more terminal.
func (s *Set) reserve(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case name == "":
		name = s.freeName()
	case s.isTaken(name):
		return "", fmt.Errorf("terminal %s: %w", name, atoll.ErrExists)
	}
	if n := len(s.list) + len(s.opening); n >= MaxTerminals && !s.dropEnded() {
		return "", fmt.Errorf("%w: %d terminals are open", atoll.ErrQuota, n)
	}
	if s.opening == nil {
		s.opening = make(map[string]bool)
	}
	s.opening[name] = true
	return name, nil
}

// isTaken reports whether a terminal has a name. The caller holds mu.
func (s *Set) isTaken(name string) bool { return s.opening[name] || s.indexOf(name) >= 0 }

// freeName returns the lowest number that is not a name yet. The caller holds mu.
func (s *Set) freeName() string {
	for n := 1; ; n++ {
		if name := strconv.Itoa(n); !s.isTaken(name) {
			return name
		}
	}
}

// indexOf returns the index of a terminal, or -1. The caller holds mu.
func (s *Set) indexOf(name string) int {
	return slices.IndexFunc(s.list, func(t *Terminal) bool { return t.info.Name == name }) // names don't change
}

// dropEnded removes the oldest terminal that has ended and reports whether there was one. The caller holds mu.
func (s *Set) dropEnded() bool {
	i := slices.IndexFunc(s.list, func(t *Terminal) bool { return !t.Info().Running })
	if i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
	}
	return i >= 0
}

// expireEnded removes a terminal keepEnded after it has ended.
func (s *Set) expireEnded(t *Terminal) {
	<-t.Done()
	time.AfterFunc(keepEnded, func() { s.removeTerminal(t) })
}

func (s *Set) removeTerminal(t *Terminal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(o *Terminal) bool { return o == t })
}

func (s *Set) find(name string) (*Terminal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.indexOf(name)
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
	if err := endProgram(ctx, t); err != nil {
		return err
	}
	s.removeTerminal(t)
	return nil
}

func endProgram(ctx context.Context, t *Terminal) error {
	select {
	case <-t.Done():
		return nil
	default:
	}
	t.Kill()
	select {
	case <-t.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AttachTerminal is that of atoll.TerminalAttacher.
func (s *Set) AttachTerminal(ctx context.Context, name string, a atoll.Attachment) (atoll.Exit, error) {
	t, err := s.find(name)
	if err != nil {
		return atoll.Exit{}, err
	}
	return t.Attach(ctx, a)
}

// ReadTerminal is that of atoll.TerminalAttacher.
func (s *Set) ReadTerminal(_ context.Context, name string) (atoll.Screen, error) {
	t, err := s.find(name)
	if err != nil {
		return atoll.Screen{}, err
	}
	return t.Screen(), nil
}

// SendTerminal is that of atoll.TerminalAttacher.
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
		if a != "" && strings.IndexFunc(a, isUnsafe) < 0 {
			words[i] = a
			continue
		}
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// isUnsafe reports whether a character may mean something to a shell.
func isUnsafe(r rune) bool {
	alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !alnum && !strings.ContainsRune("-_./:=@%+,", r)
}
