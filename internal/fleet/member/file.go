// Package member makes the processes that share a fleet known to each other: it
// reports those that died, and elects a leader. Processes of one host lock files;
// servers renew leases in the registry.
package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// Member is the membership of this process in a fleet.
type Member interface {
	// ID returns the identifier of this process.
	ID() string

	// IsAlive reports whether a process, which may be this one, is at work.
	IsAlive(id string) (bool, error)

	// DeadMembers returns the remains of processes that died and that no other process is
	// reconciling.
	DeadMembers() ([]*DeadMember, error)

	// Lead waits until this process is the leader, and returns a function that resigns.
	// Leading is done within the returned context, which ends when another process may
	// lead.
	Lead(ctx context.Context) (within context.Context, resign func() error, err error)

	// TryLead is Lead without waiting. Resign is nil if another process leads.
	TryLead(ctx context.Context) (resign func() error, err error)

	// Leave makes this process unknown again.
	Leave() error
}

// DeadMember are what a process that died has left, held by this process until it calls
// Forget or Release.
type DeadMember struct {
	ID      string
	Forget  func() error // removes the process, once nothing of it is left to reconcile
	Release func() error // leaves the rest to another process
}

// FileMember is the membership of a process that shares a home: a file that the process keeps locked as
// long as it lives. An unlocked file is left of a process that died.
type FileMember struct {
	id   string
	dir  string
	lock *os.File

	mu   sync.Mutex
	ours map[string]bool // dead processes held by this one; guarded by mu
}

const newPrefix = ".new-" // prefix of files that are not locked yet

func instancesDir(home string) string { return filepath.Join(home, "instances") }

// JoinHome makes this process known to the others that use a home.
func JoinHome(home string) (*FileMember, error) {
	in := &FileMember{id: atoll.NewID(), dir: instancesDir(home), ours: make(map[string]bool)}
	if err := os.MkdirAll(in.dir, 0o700); err != nil {
		return nil, err
	}
	temp := filepath.Join(in.dir, newPrefix+in.id)
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := filelock.Try(f)
	if err == nil && !ok {
		err = fmt.Errorf("%s: %w: a new file is locked", temp, atoll.ErrUnavailable)
	}
	if err == nil {
		err = os.Rename(temp, filepath.Join(in.dir, in.id)) // locked before others see it
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(temp))
	}
	in.lock = f
	return in, nil
}

// Leave makes this process unknown again.
func (in *FileMember) Leave() error {
	err := os.Remove(filepath.Join(in.dir, in.id))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, in.lock.Close())
}

// DeadMembers returns the processes whose files are not locked, and locks the files.
func (in *FileMember) DeadMembers() ([]*DeadMember, error) {
	entries, err := os.ReadDir(in.dir)
	if err != nil {
		return nil, err
	}
	var list []*DeadMember
	for _, e := range entries {
		if e.Name() == in.id || strings.HasPrefix(e.Name(), newPrefix) {
			continue
		}
		r, err := in.tryLock(e.Name())
		if err != nil {
			return list, err
		}
		if r != nil {
			list = append(list, r)
		}
	}
	return list, nil
}

// tryLock locks the file of a process. It returns nil if the process lives or has left.
func (in *FileMember) tryLock(id string) (*DeadMember, error) {
	name := filepath.Join(in.dir, id)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ok, err := filelock.Try(f)
	if err != nil || !ok {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := os.Lstat(name); err != nil { // another process was faster
		return nil, f.Close()
	}
	in.mu.Lock()
	in.ours[id] = true
	in.mu.Unlock()
	keep := func() error {
		in.mu.Lock()
		delete(in.ours, id)
		in.mu.Unlock()
		return f.Close()
	}
	return &DeadMember{ID: id, Release: keep, Forget: func() error { return errors.Join(os.Remove(name), keep()) }}, nil
}

// IsAlive reports whether a process has its file locked.
func (in *FileMember) IsAlive(id string) (bool, error) {
	if id == in.id {
		return true, nil
	}
	in.mu.Lock()
	dead := in.ours[id]
	in.mu.Unlock()
	if dead {
		return false, nil
	}
	f, err := os.OpenFile(filepath.Join(in.dir, id), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	free, err := filelock.Try(f)
	return !free, errors.Join(err, f.Close())
}

// Lead waits for the lock of the leader's file. No call waits for both a file lock and a context,
// so it polls with growing intervals.
func (in *FileMember) Lead(ctx context.Context) (context.Context, func() error, error) {
	resign, err := waitToLead(ctx, in)
	return ctx, resign, err
}

// waitToLead calls TryLead with growing intervals until the process leads.
func waitToLead(ctx context.Context, m Member) (func() error, error) {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		resign, err := m.TryLead(ctx)
		if resign != nil || err != nil {
			return resign, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// TryLead acquires the lock of the leader's file, if it is free.
func (in *FileMember) TryLead(context.Context) (func() error, error) {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(in.dir), "leader"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := filelock.Try(f)
	if err != nil || !ok {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// ID returns the identifier of this process.
func (in *FileMember) ID() string { return in.id }

// AddNote appends a line to the file of this process, for those that find it after
// this process has died.
func (in *FileMember) AddNote(line string) error {
	_, err := in.lock.WriteString(line + "\n")
	return err
}

// Abandon ends the membership as the death of the process would: its file stays.
func (in *FileMember) Abandon() error { return in.lock.Close() }

// List returns the identifiers of the processes that have a file in a home, those that
// died included.
func List(home string) ([]string, error) {
	entries, err := os.ReadDir(instancesDir(home))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), newPrefix) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// Notes returns the lines that a process has added with AddNote, without an
// incomplete last one. A process without a file has none.
func Notes(home, id string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(instancesDir(home), id))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutSuffix(line, "\n"); ok {
			lines = append(lines, text)
		}
	}
	return lines, nil
}
