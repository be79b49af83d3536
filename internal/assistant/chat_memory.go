package assistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/whole"
)

// memory keeps what hooks remember: for a user and a team across chats, for a
// chat, and for one assistant's context in it.
type memory struct {
	files map[string]string // by space
	now   func() time.Time
	lock  *sync.Mutex // of all memories of this process
}

// value is one that is remembered.
type value struct {
	Value   json.RawMessage `json:"value"`
	Expires time.Time       `json:"expires,omitzero"`
}

// Bounds of a memory's space.
const (
	memoryKeys  = 256
	memoryKey   = 256      // bytes
	memoryValue = 64 << 10 // bytes
	memorySpace = 1 << 20  // bytes
)

// memory returns what hooks of this turn remember.
func (t *Turn) memory() *memory {
	c := t.p.chats
	base := c.of(t.chat.Owner)
	return &memory{now: t.p.now, lock: &c.mu, files: map[string]string{
		"user":    filepath.Join(base, ".user.json"),
		"team":    filepath.Join(base, ".team.json"),
		"chat":    filepath.Join(base, t.chat.ID, "memory.json"),
		"context": filepath.Join(base, t.chat.ID, named("context-", t.who())+".json"),
	}}
}

// open reads a space, without what has expired. It is called with lock held.
func (m *memory) open(space string) (map[string]value, string, error) {
	name, ok := m.files[space]
	if !ok {
		return nil, "", fmt.Errorf("%w: memory %q: must be user, team, chat or context", atoll.ErrInvalid, space)
	}
	all := make(map[string]value)
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return all, name, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	for k, v := range all {
		if !v.Expires.IsZero() && !m.now().Before(v.Expires) {
			delete(all, k)
		}
	}
	return all, name, err
}

// Get returns a value; nil: there is none.
func (m *memory) Get(_ context.Context, space, key string) (json.RawMessage, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	all, _, err := m.open(space)
	if err != nil {
		return nil, err
	}
	return all[key].Value, nil
}

// Keys returns the keys of a space, in order.
func (m *memory) Keys(_ context.Context, space string) ([]string, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	all, _, err := m.open(space)
	keys := make([]string, 0, len(all))
	for k := range all {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys, err
}

// Set remembers a value, for a time if ttl is not 0.
func (m *memory) Set(_ context.Context, space, key string, v json.RawMessage, ttl time.Duration) error {
	if key == "" || len(key) > memoryKey || len(v) > memoryValue {
		return fmt.Errorf("%w: memory %s: a key has 1 to %d bytes, a value at most %d", atoll.ErrQuota, space, memoryKey, memoryValue)
	}
	entry := value{Value: v}
	if ttl > 0 {
		entry.Expires = m.now().Add(ttl)
	}
	return m.change(space, func(all map[string]value) { all[key] = entry })
}

// Delete forgets a value.
func (m *memory) Delete(_ context.Context, space, key string) error {
	return m.change(space, func(all map[string]value) { delete(all, key) })
}

func (m *memory) change(space string, f func(all map[string]value)) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	all, name, err := m.open(space)
	if err != nil {
		return err
	}
	f(all)
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if len(all) > memoryKeys || len(b) > memorySpace {
		return fmt.Errorf("%w: memory %s: at most %d values of %d bytes together", atoll.ErrQuota, space, memoryKeys, memorySpace)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return whole.Replace(name, b, 0o600)
}
