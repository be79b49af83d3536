package workspace

import (
	"fmt"
	"io"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// meterTable holds what is being written into workspaces, by owner, so that concurrent writers
// together stay within the quota.
type meterTable struct {
	mu     sync.Mutex
	owners map[atoll.Owner]*ownerFlow // owners with writers; guarded by mu
}

// ownerFlow is what is being written into an owner's workspaces.
type ownerFlow struct {
	writers int
	pending int64 // bytes staged
	kept    int64 // bytes moved into workspaces since the first of the writers began
}

// Meter counts what one writer writes against the disk quota of an owner.
type Meter struct {
	store   *Store
	key     Key
	limit   int64 // negative: none
	used    int64 // by the owner, at the start
	since   int64 // flow.kept at the start
	pending int64 // the writer's part of flow.pending
	credit  int64 // bytes of what will be replaced
	flow    *ownerFlow
	ended   bool
}

// NewMeter starts a meter for a workspace. Usage returns the limit of its owner's disk, negative
// for none, and the bytes used; it is called once. The caller calls Close.
func (s *Store) NewMeter(p Key, usage func() (limit, used int64, err error)) (*Meter, error) {
	m := &Meter{store: s, key: p}
	m.addWriter()
	var err error
	if m.limit, m.used, err = usage(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *Meter) addWriter() {
	all := &m.store.meters
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.owners == nil {
		all.owners = make(map[atoll.Owner]*ownerFlow)
	}
	if all.owners[m.key.Owner] == nil {
		all.owners[m.key.Owner] = &ownerFlow{}
	}
	m.flow = all.owners[m.key.Owner]
	m.flow.writers++
	m.since = m.flow.kept
}

// Credit credits the bytes of a file that will be replaced.
func (m *Meter) Credit(n int64) { m.credit += n }

// add counts n bytes before they are written, and returns ErrQuota beyond the limit.
func (m *Meter) add(n int64) error {
	all := &m.store.meters
	all.mu.Lock()
	defer all.mu.Unlock()
	if m.limit >= 0 && m.used+m.flow.kept-m.since+m.flow.pending+n > m.limit+m.credit {
		return fmt.Errorf("%w: the disk of %s has %d bytes, of which %d are taken", atoll.ErrQuota, m.key.Owner, m.limit, m.used)
	}
	m.flow.pending += n
	m.pending += n
	return nil
}

// setCredit replaces the credited bytes and checks the limit again.
func (m *Meter) setCredit(n int64) error {
	m.credit = n
	return m.add(0)
}

// bytesLeft returns about how many bytes may still be written in all; negative: no limit.
func (m *Meter) bytesLeft() int64 {
	if m.limit < 0 {
		return -1
	}
	return max(0, m.limit-m.used+m.credit)
}

// Commit records that what was written is in the workspace now.
func (m *Meter) Commit() {
	all := &m.store.meters
	all.mu.Lock()
	m.flow.pending -= m.pending
	m.flow.kept += max(0, m.pending-m.credit)
	m.pending = 0
	all.mu.Unlock()
	m.store.ForgetSize(m.key)
}

// Close ends the metering. What was not committed is released. A second Close has no effect.
func (m *Meter) Close() {
	all := &m.store.meters
	all.mu.Lock()
	defer all.mu.Unlock()
	if m.ended {
		return
	}
	m.ended = true
	m.flow.pending -= m.pending
	if m.flow.writers--; m.flow.writers == 0 {
		delete(all.owners, m.key.Owner)
	}
}

// meteredReader counts the bytes that are read through it.
type meteredReader struct {
	r io.Reader
	m *Meter
}

func (r *meteredReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if n > 0 {
		if merr := r.m.add(int64(n)); merr != nil {
			return 0, merr
		}
	}
	return n, err
}

// IsLimited reports whether the owner's disk has a limit.
func (m *Meter) IsLimited() bool { return m.limit >= 0 }
