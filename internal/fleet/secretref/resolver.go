package secretref

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/hostcommand"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// failureCache is how long the error of a provider is returned again without asking it.
const failureCache = 5 * time.Second

// maxAsked is the number of names that a provider is asked for at once: an owner can name many, and each may be a
// process of the host.
const maxAsked = 8

// maxKnown is the number of values of a reference that Known returns: the newest.
const maxKnown = 4

// maxEntries is the number of references from which on those that were never resolved are forgotten.
const maxEntries = 10_000

// IsReference reports whether a value is a reference.
func IsReference(value string) bool { return strings.HasPrefix(value, Scheme) }

// Resolver resolves references. Its methods may be called concurrently. The zero Resolver has no providers.
type Resolver struct {
	Providers map[string]*Provider
	Now       func() time.Time // nil: time.Now

	mu      sync.Mutex
	entries map[string]*entry           // by reference; guarded by mu
	slots   map[*Provider]chan struct{} // hold a token for each name that is asked for; guarded by mu
}

// entry is a reference that was resolved.
type entry struct {
	turn chan struct{} // holds a token while the provider is asked

	mu      sync.Mutex
	known   []string  // values, the newest last; guarded by mu, as all below
	err     error     // of the last attempt
	expires time.Time // of the last value or error
}

func (r *Resolver) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// parse returns the provider and the name of a reference that the configuration allows.
func (r *Resolver) parse(ref string) (*Provider, string, error) {
	key, name, ok := strings.Cut(strings.TrimPrefix(ref, Scheme), "/")
	if !ok || !IsReference(ref) || checkName(name) != nil {
		return nil, "", fmt.Errorf("%w: reference %.80q: must be %sPROVIDER/NAME, with a name of letters, digits and . _ - / whose parts don't begin with . or -", atoll.ErrInvalid, ref, Scheme)
	}
	p := r.Providers[key]
	if p == nil {
		return nil, "", fmt.Errorf("%w: reference %s: no provider is called %.40q%s; see secrets.providers in the server's configuration",
			atoll.ErrNotFound, ref, key, suggest.Hint(key, slices.Sorted(maps.Keys(r.Providers))))
	}
	if !p.allowsName(name) {
		return nil, "", fmt.Errorf("%w: reference %s: the allow list of provider %s does not have this name", atoll.ErrDenied, ref, key)
	}
	return p, name, nil
}

// checkName refuses names that a command could take for an option, or a directory for a path out of it.
func checkName(name string) error {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-/", r)
	}
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, bad) {
		return errors.New("bad name")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || part[0] == '-' {
			return errors.New("bad part of a name")
		}
	}
	return nil
}

// Check reports whether an owner may use a reference. host is whether the caller has the scope host, which allows
// every provider; others may use those that name them. It asks no provider.
func (r *Resolver) Check(ref string, owner atoll.Owner, host bool) error {
	p, _, err := r.parse(ref)
	if !host && (p == nil || !p.allowsOwner(owner)) { // without showing which providers and names there are
		return fmt.Errorf("%w: references to secrets of the server's host need the scope %q, or a provider whose owners include %s", atoll.ErrDenied, atoll.ScopeHost, owner)
	}
	return err
}

// Resolve returns the value of a reference. It is asked for once, and used again for a time. Errors don't show values.
func (r *Resolver) Resolve(ctx context.Context, ref string) (string, error) {
	p, name, err := r.parse(ref)
	if err != nil {
		return "", err
	}
	e := r.entry(ref)
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	e.mu.Lock()
	if r.now().Before(e.expires) {
		defer e.mu.Unlock()
		if e.err != nil {
			return "", e.err
		}
		return e.known[len(e.known)-1], nil
	}
	e.mu.Unlock()
	slots := r.slotsOf(p)
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	value, err := p.read(ctx, name)
	<-slots
	if err != nil {
		err = fmt.Errorf("reference %s: %w", ref, err)
		if ctx.Err() != nil {
			return "", err // of the caller, not of the provider
		}
	}
	e.record(value, err, r.now().Add(p.lifetime(err))) // from its end: others wait for it, and must not ask again
	return value, err
}

// lifetime returns how long a value or an error is used again.
func (p *Provider) lifetime(err error) time.Duration {
	if err != nil {
		return failureCache
	}
	if p.Cache != 0 {
		return time.Duration(p.Cache)
	}
	return defaultCache
}

// slotsOf returns the slots of a provider.
func (r *Resolver) slotsOf(p *Provider) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots == nil {
		r.slots = make(map[*Provider]chan struct{})
	}
	if r.slots[p] == nil {
		r.slots[p] = make(chan struct{}, maxAsked)
	}
	return r.slots[p]
}

func (r *Resolver) entry(ref string) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[ref]
	if e == nil {
		if r.entries == nil {
			r.entries = make(map[string]*entry)
		}
		if len(r.entries) >= maxEntries {
			maps.DeleteFunc(r.entries, func(_ string, e *entry) bool { return !e.hasValue() })
		}
		e = &entry{turn: make(chan struct{}, 1)}
		r.entries[ref] = e
	}
	return e
}

// hasValue reports whether the reference was ever resolved.
func (e *entry) hasValue() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.known) > 0
}

// record stores the result of an attempt.
func (e *entry) record(value string, err error, expires time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err, e.expires = err, expires
	if err != nil {
		return
	}
	e.known = append(slices.DeleteFunc(e.known, func(v string) bool { return v == value }), value)
	e.known = e.known[max(0, len(e.known)-maxKnown):]
}

// ResolveSetting returns the value of a setting that may be a reference; other texts are their own value.
func (r *Resolver) ResolveSetting(ctx context.Context, value string) (string, error) {
	if !IsReference(value) {
		return value, nil
	}
	return r.Resolve(ctx, value)
}

// Known returns the values that a reference has had in this process, which texts must not show.
func (r *Resolver) Known(ref string) []string {
	r.mu.Lock()
	e := r.entries[ref]
	r.mu.Unlock()
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.known)
}

// read asks the provider for a value.
func (p *Provider) read(ctx context.Context, name string) (string, error) {
	var b []byte
	var err error
	switch {
	case p.Environment:
		value, ok := os.LookupEnv(name)
		if !ok {
			return "", fmt.Errorf("%w: the server's environment has no such variable", atoll.ErrNotFound)
		}
		b = []byte(value)
	case p.Directory != "":
		b, err = readFile(p.Directory, name)
	default:
		args := slices.Clone(p.Command)
		for i := 1; i < len(args); i++ {
			args[i] = strings.ReplaceAll(args[i], placeholder, name)
		}
		timeout := time.Duration(p.Timeout)
		if timeout == 0 {
			timeout = defaultTimeout
		}
		b, err = hostcommand.Run(ctx, args, timeout)
	}
	if err != nil {
		return "", err
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	switch {
	case value == "":
		return "", fmt.Errorf("%w: the value is empty", atoll.ErrInvalid)
	case len(value) > MaxValue:
		return "", fmt.Errorf("%w: the value is larger than %d bytes", atoll.ErrInvalid, MaxValue)
	case strings.IndexByte(value, 0) >= 0:
		return "", fmt.Errorf("%w: the value has NUL bytes", atoll.ErrInvalid)
	}
	return value, nil
}

// readFile reads a regular file below a directory. A link can't lead out of it.
func readFile(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a file", atoll.ErrInvalid, name)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil || info.Mode().Type() != fs.FileMode(0) {
		return nil, errors.Join(err, fmt.Errorf("%w: %s is not a file", atoll.ErrInvalid, name))
	}
	return io.ReadAll(io.LimitReader(f, MaxValue+2))
}
