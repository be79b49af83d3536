package virtual

import (
	"fmt"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/vfs"
)

// hostDirs are the directories of the host that sandboxes of a driver mount. Sandboxes that mount
// the same directory share it, and so the count of its bytes.
type hostDirs struct {
	mu   sync.Mutex
	open map[string]*hostUse // guarded by mu
}

type hostUse struct {
	host  *vfs.Host
	users int
}

// acquireDir opens a directory, or returns the open one. The caller releases it.
func (h *hostDirs) acquireDir(dir string) (*vfs.Host, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.open[dir]
	if u == nil {
		host, err := vfs.OpenHost(dir)
		if err != nil {
			return nil, err
		}
		if h.open == nil {
			h.open = make(map[string]*hostUse)
		}
		u = &hostUse{host: host}
		h.open[dir] = u
	}
	u.users++
	return u.host, nil
}

func (h *hostDirs) releaseDir(dir string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.open[dir]
	if u.users--; u.users == 0 {
		delete(h.open, dir)
		_ = u.host.Close() // it was only read through this handle
	}
}

// mounts are the directories that a sandbox has mounted.
type mounts struct {
	mu       sync.Mutex
	hosts    []*vfs.Host // guarded by mu, as all below; of the first mounts of the spec
	on       *vfs.FS     // the files that they are mounted in
	done     int         // how many are mounted
	released bool
}

// mountAll mounts what is not mounted yet in the sandbox's files, which may have been replaced, and
// checks that the mounted directories of the host still exist.
func (s *Sandbox) mountAll(files *vfs.FS) error {
	list := s.specMounts()
	if len(list) == 0 {
		return nil
	}
	m := &s.mounts
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.released {
		return nil // the operation is about to end
	}
	if m.on != files {
		if m.on != nil {
			m.on.Unmount() // files that the session has open there will not be closed
		}
		m.on, m.done = files, 0
	}
	for i, want := range list {
		var err error
		if i < len(m.hosts) {
			err = m.hosts[i].Check()
		} else {
			var host *vfs.Host
			if host, err = s.d.hosts.acquireDir(want.Source); err == nil {
				m.hosts = append(m.hosts, host)
			}
		}
		if err == nil && i >= m.done {
			err = files.Mount(vfs.Mount{Target: want.Target, Host: m.hosts[i], ReadOnly: want.ReadOnly, Limit: want.Limit})
		}
		if err != nil {
			return fmt.Errorf("host directory %s, mounted at %s: %w", want.Source, want.Target, err)
		}
		m.done = max(m.done, i+1)
	}
	return nil
}

// specMounts returns the mounts of the spec.
func (s *Sandbox) specMounts() []atoll.Mount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec.Mounts
}

// unmountAll releases all mounts for good.
func (s *Sandbox) unmountAll() {
	m := &s.mounts
	m.mu.Lock()
	defer m.mu.Unlock()
	m.released = true
	if m.on != nil {
		m.on.Unmount()
	}
	for i := range m.hosts {
		s.d.hosts.releaseDir(m.hosts[i].Dir())
	}
	m.hosts = nil
}
