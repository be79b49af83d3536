package fleet

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
)

// instance is this process's part in a fleet: a file that it keeps locked as
// long as it lives. A file that nobody has locked is left of one that died.
type instance struct {
	id   string
	dir  string
	lock *os.File

	mu   sync.Mutex
	ours map[string]bool // those dead that this process is settling; guarded by mu
}

const unborn = ".new-" // begins the name of a file that is not locked yet

func instancesOf(home string) string { return filepath.Join(home, "instances") }

// newInstance makes this process known.
func newInstance(home string) (*instance, error) {
	in := &instance{id: atoll.NewID(), dir: instancesOf(home), ours: make(map[string]bool)}
	if err := os.MkdirAll(in.dir, 0o700); err != nil {
		return nil, err
	}
	temp := filepath.Join(in.dir, unborn+in.id)
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := tryLock(f)
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

// end makes this process unknown again.
func (in *instance) end() error {
	err := os.Remove(filepath.Join(in.dir, in.id))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, in.lock.Close())
}

// remains is what a process that died has left: its file, locked by us.
type remains struct {
	of   *instance // who settles it
	id   string
	file *os.File
}

// bury forgets the process, once nothing of it is left to settle.
func (r *remains) bury() error {
	return errors.Join(os.Remove(r.file.Name()), r.keep())
}

// keep leaves it for somebody else to settle.
func (r *remains) keep() error {
	r.of.mu.Lock()
	delete(r.of.ours, r.id)
	r.of.mu.Unlock()
	return r.file.Close()
}

// dead returns the processes that died and that nobody else is settling.
func (in *instance) dead() ([]*remains, error) {
	entries, err := os.ReadDir(in.dir)
	if err != nil {
		return nil, err
	}
	var list []*remains
	for _, e := range entries {
		if e.Name() == in.id || strings.HasPrefix(e.Name(), unborn) {
			continue
		}
		r, err := in.tryBury(e.Name())
		if err != nil {
			return list, err
		}
		if r != nil {
			list = append(list, r)
		}
	}
	return list, nil
}

// tryBury locks the file of an instance; nil if that lives, or is gone.
func (in *instance) tryBury(id string) (*remains, error) {
	name := filepath.Join(in.dir, id)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ok, err := tryLock(f)
	if err != nil || !ok {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := os.Lstat(name); err != nil { // another was quicker
		return nil, f.Close()
	}
	in.mu.Lock()
	in.ours[id] = true
	in.mu.Unlock()
	return &remains{of: in, id: id, file: f}, nil
}

// alive reports whether an instance, which may be this one, is at work.
func (in *instance) alive(id string) (bool, error) {
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
	free, err := tryLock(f)
	return !free, errors.Join(err, f.Close())
}

// lead waits until this process is the one of those that share a home that
// leads, and returns how to give that up. There is no call that waits for a
// file lock and for a context, so it asks again after a while.
func lead(ctx context.Context, home string) (func() error, error) {
	f, err := os.OpenFile(filepath.Join(home, "leader"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ok, err := tryLock(f)
		if ok {
			return f.Close, nil
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
}
