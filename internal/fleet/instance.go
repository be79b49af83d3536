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
	"github.com/atoll-sandbox/atoll/internal/filelock"
)

// presence is this process's part in a fleet, as the others see it.
type presence struct {
	id string
	others
}

// others is what a process must know of those that share a fleet with it.
type others interface {
	// alive reports whether an instance, which may be this one, is at work.
	alive(id string) (bool, error)

	// dead returns those that died and that nobody else is settling.
	dead() ([]*remains, error)

	// lead waits until this process is the one that leads, and returns how to
	// give that up. What it leads in ends when others may lead.
	lead(ctx context.Context) (within context.Context, resign func() error, err error)

	// tryLead is lead that does not wait: nil, if another leads.
	tryLead(ctx context.Context) (resign func() error, err error)

	// end makes this process unknown again.
	end() error
}

// remains is what a process that died has left, while we settle it.
type remains struct {
	id   string
	bury func() error // forgets it, once nothing is left to settle
	keep func() error // leaves it for somebody else to settle
}

// instance is a process of those that share a home: a file that it keeps locked as
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

// end makes this process unknown again.
func (in *instance) end() error {
	err := os.Remove(filepath.Join(in.dir, in.id))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, in.lock.Close())
}

// dead returns the processes whose files nobody has locked; we do then.
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
	ok, err := filelock.Try(f)
	if err != nil || !ok {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := os.Lstat(name); err != nil { // another was quicker
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
	return &remains{id: id, keep: keep, bury: func() error { return errors.Join(os.Remove(name), keep()) }}, nil
}

// alive reports whether an instance has its file locked.
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
	free, err := filelock.Try(f)
	return !free, errors.Join(err, f.Close())
}

// lead waits for the lock of the leader's file. There is no call that waits for
// a file lock and for a context, so it asks again after a while.
func (in *instance) lead(ctx context.Context) (context.Context, func() error, error) {
	resign, err := awaitLead(ctx, in)
	return ctx, resign, err
}

// awaitLead asks again and again until one leads.
func awaitLead(ctx context.Context, o others) (func() error, error) {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		resign, err := o.tryLead(ctx)
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

// tryLead takes the lock of the leader's file, if nobody has it.
func (in *instance) tryLead(context.Context) (func() error, error) {
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
