package vfs

import (
	"io/fs"
	"sync"
)

// Memory is a Store in memory. Its zero value is an empty store.
type Memory struct {
	mu    sync.RWMutex
	blobs map[Key][]byte // guarded by mu
}

var _ Store = (*Memory)(nil)

// Get returns the blob with the key, or fs.ErrNotExist.
func (m *Memory) Get(k Key) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	b, ok := m.blobs[k]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return b, nil
}

// Put stores a blob under its key.
func (m *Memory) Put(k Key, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs == nil {
		m.blobs = make(map[Key][]byte)
	}
	m.blobs[k] = data
	return nil
}

// Has reports whether the store has the blob.
func (m *Memory) Has(k Key) (bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, ok := m.blobs[k]
	return ok, nil
}

// Delete removes a blob. A missing one is not an error.
func (m *Memory) Delete(k Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs, k)
	return nil
}

// Keys returns the keys of all blobs, in no particular order.
func (m *Memory) Keys() ([]Key, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	keys := make([]Key, 0, len(m.blobs))
	for k := range m.blobs {
		keys = append(keys, k)
	}
	return keys, nil
}
