package virtual

import (
	"fmt"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/vfs"
)

// hosts are the directories of the host that sandboxes of a driver mount.
// Those that mount the same share it, and so the count of its bytes.
type hosts struct {
	mu   sync.Mutex
	open map[string]*hostUse // guarded by mu
}

type hostUse struct {
	host  *vfs.Host
	users int
}

// take opens a directory, or finds it open, for one more give.
func (h *hosts) take(dir string) (*vfs.Host, error) {
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

func (h *hosts) give(dir string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.open[dir]
	if u.users--; u.users == 0 {
		delete(h.open, dir)
		_ = u.host.Close() // it was only a way to the directory
	}
}

// mounts are what a sandbox has mounted.
type mounts struct {
	mu    sync.Mutex
	hosts []*vfs.Host // guarded by mu, as all below; of the first mounts of the spec
	on    *vfs.FS     // the files that they are mounted on
	done  int         // how many
	gone  bool
}

// mount makes sure that every mount of the sandbox is there: in its files,
// which another process may have replaced, and on the host.
func (s *Sandbox) mount(files *vfs.FS) error {
	list := s.mountSpec()
	if len(list) == 0 {
		return nil
	}
	m := &s.mounts
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return nil // the operation is about to end
	}
	if m.on != files {
		if m.on != nil {
			m.on.Unmount() // what the session had open there, nobody will close
		}
		m.on, m.done = files, 0
	}
	for i, want := range list {
		var err error
		if i < len(m.hosts) {
			err = m.hosts[i].Check()
		} else {
			var host *vfs.Host
			if host, err = s.d.hosts.take(want.Source); err == nil {
				m.hosts = append(m.hosts, host)
			}
		}
		if err == nil && i >= m.done {
			err = files.Mount(vfs.Mount{Target: want.Target, Host: m.hosts[i], ReadOnly: want.ReadOnly, Limit: want.Limit})
		}
		if err != nil {
			return fmt.Errorf("the directory %s of this host, mounted at %s: %w", want.Source, want.Target, err)
		}
		m.done = max(m.done, i+1)
	}
	return nil
}

// mountSpec returns what is to be mounted.
func (s *Sandbox) mountSpec() []atoll.Mount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec.Mounts
}

// unmount lets go of what is mounted, for good.
func (s *Sandbox) unmount() {
	m := &s.mounts
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	if m.on != nil {
		m.on.Unmount()
	}
	for i := range m.hosts {
		s.d.hosts.give(m.hosts[i].Dir())
	}
	m.hosts = nil
}
