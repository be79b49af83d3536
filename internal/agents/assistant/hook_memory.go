package assistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// hookMemory stores values of hooks: for a user and a team across chats, for a chat,
// and for one assistant in a chat.
type hookMemory struct {
	files map[string]string // by space
	now   func() time.Time
	lock  func(context.Context) (unlock func(), err error) // excludes other changes, also of other processes
}

// storedValue is a value in a memory's file.
type storedValue struct {
	Value   json.RawMessage `json:"value"`
	Expires time.Time       `json:"expires,omitzero"`
}

// Limits of a memory's space.
const (
	memoryKeys  = 256
	memoryKey   = 256      // bytes
	memoryValue = 64 << 10 // bytes
	memorySpace = 1 << 20  // bytes
)

// openMemory returns the memory for hooks of this turn.
func (t *Turn) openMemory() *hookMemory {
	c := t.pipeline.chats
	base := c.ownerDir(t.chat.Owner)
	lock := func(ctx context.Context) (func(), error) { return c.lockOwner(ctx, t.chat.Owner) }
	return &hookMemory{now: t.pipeline.currentTime, lock: lock, files: map[string]string{
		"user":    filepath.Join(base, ".user.json"),
		"team":    filepath.Join(base, ".team.json"),
		"chat":    filepath.Join(base, t.chat.ID, "memory.json"),
		"context": filepath.Join(base, t.chat.ID, safeName("context-", t.targetName())+".json"),
	}}
}

// readSpace reads a space, without expired values.
func (m *hookMemory) readSpace(space string) (map[string]storedValue, string, error) {
	name, ok := m.files[space]
	if !ok {
		return nil, "", fmt.Errorf("%w: memory %q: must be user, team, chat or context", atoll.ErrInvalid, space)
	}
	all := make(map[string]storedValue)
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
func (m *hookMemory) Get(_ context.Context, space, key string) (json.RawMessage, error) {
	all, _, err := m.readSpace(space)
	if err != nil {
		return nil, err
	}
	return all[key].Value, nil
}

// Keys returns the keys of a space, in order.
func (m *hookMemory) Keys(_ context.Context, space string) ([]string, error) {
	all, _, err := m.readSpace(space)
	keys := make([]string, 0, len(all))
	for k := range all {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys, err
}

// Set stores a value; it expires after ttl if that is not 0.
func (m *hookMemory) Set(ctx context.Context, space, key string, v json.RawMessage, ttl time.Duration) error {
	if key == "" || len(key) > memoryKey || len(v) > memoryValue {
		return fmt.Errorf("%w: memory %s: a key has 1 to %d bytes, a value at most %d", atoll.ErrQuota, space, memoryKey, memoryValue)
	}
	entry := storedValue{Value: v}
	if ttl > 0 {
		entry.Expires = m.now().Add(ttl)
	}
	return m.updateSpace(ctx, space, func(all map[string]storedValue) { all[key] = entry })
}

// Delete removes a value.
func (m *hookMemory) Delete(ctx context.Context, space, key string) error {
	return m.updateSpace(ctx, space, func(all map[string]storedValue) { delete(all, key) })
}

func (m *hookMemory) updateSpace(ctx context.Context, space string, f func(all map[string]storedValue)) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	all, name, err := m.readSpace(space)
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
	return atomicfile.Replace(name, b, 0o600)
}
