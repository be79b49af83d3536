package statedir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// RunAct does an act of several steps on a sandbox whose lock the caller holds: name and args are
// recorded before do is called. What an error or a kill leaves half done, Recover finishes or undoes.
func (h *Home[T]) RunAct(id string, r *T, name string, args any, do func(act *journal.Act) error) error {
	act, err := journal.Begin(h.Path(id), name, args)
	if err != nil {
		return err
	}
	if err := do(act); err != nil {
		return errors.Join(err, h.endAct(r, act))
	}
	return act.End()
}

// endAct recovers from an act that did not succeed.
func (h *Home[T]) endAct(r *T, act *journal.Act) error {
	if err := h.Recover(r, act); err != nil {
		return errors.Join(err, act.Leave())
	}
	return act.End()
}

// LoadRecovered is like Load, but first recovers from an act whose process died.
func (h *Home[T]) LoadRecovered(id string) (*T, error) {
	h.recoverIdle(id)
	return h.Load(id)
}

// recoverIdle recovers from an act whose process died, unless another process has the sandbox's
// lock: it does the same. It ignores errors; the next change of the sandbox reports them.
func (h *Home[T]) recoverIdle(id string) {
	if h.Recover == nil || !journal.IsBegun(h.Path(id)) {
		return
	}
	held, err := lockExisting(h.Path(id))
	if err != nil {
		return
	}
	defer held.Close()
	_ = h.recoverAct(id) // see above
}

// settleTimeout bounds how long LoadSettled waits.
const settleTimeout = 5 * time.Second

// LoadSettled is like LoadRecovered, but waits for the end of an act in progress for a few seconds:
// the process that does it may have been killed a moment ago. The caller does not hold the lock.
func (h *Home[T]) LoadSettled(id string) (*T, error) {
	if !journal.IsBegun(h.Path(id)) {
		return h.Load(id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	held, err := h.Lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	if err := h.recoverAct(id); err != nil {
		return nil, err
	}
	return h.Load(id)
}

// lockExisting locks a directory with a lock file if the lock is free.
func lockExisting(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// recoverAct recovers from an act whose process died. The caller holds the sandbox's lock.
func (h *Home[T]) recoverAct(id string) error {
	if h.Recover == nil {
		return nil
	}
	act, err := journal.TakeOver(h.Path(id))
	if err != nil || act == nil {
		return err
	}
	r, err := h.Load(id)
	if err == nil {
		err = h.endAct(r, act)
	} else {
		err = errors.Join(err, act.Leave())
	}
	if err != nil {
		return fmt.Errorf("recover from an interrupted %s: %w", act.Name, err)
	}
	return nil
}
