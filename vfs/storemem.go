package vfs

import (
	"io/fs"
	"sync"
)

// Memory is a Store in memory. Its zero value is an empty one.
type Memory struct {
	mu    sync.RWMutex
	blobs map[Key][]byte // guarded by mu
}

var _ Store = (*Memory)(nil)

// Get returns a blob.
func (m *Memory) Get(k Key) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	b, ok := m.blobs[k]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return b, nil
}

// Put keeps a blob.
func (m *Memory) Put(k Key, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs == nil {
		m.blobs = make(map[Key][]byte)
	}
	m.blobs[k] = data
	return nil
}

// Has says whether a blob is there.
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

// Keys returns the keys of all blobs, in no order.
func (m *Memory) Keys() ([]Key, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	keys := make([]Key, 0, len(m.blobs))
	for k := range m.blobs {
		keys = append(keys, k)
	}
	return keys, nil
}
