package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// The files of a sandbox's directory, which is the host's alone. What the
// sandbox can write is only in rootDir.
const (
	recordFile = "sandbox.json"
	socketFile = "guest.sock"
	logFile    = "boot.log"
	lockFile   = "lock"
	rootDir    = "root"
)

// record is what is kept of a sandbox.
type record struct {
	ID      string      `json:"id"`
	Spec    atoll.Spec  `json:"spec"`
	Created time.Time   `json:"created"`
	State   atoll.State `json:"state"` // starting, running, paused, stopped
	PID     int         `json:"pid,omitempty"`
	Start   uint64      `json:"start,omitempty"` // when PID began, as jail.StartTime tells it
	Boot    string      `json:"boot,omitempty"`  // in which run of the kernel
	Base    int         `json:"base,omitempty"`  // first user number of the host; 0: it has only the user who made it

	mount *os.File // of its disk, while that is made; nil: none
}

func (d *Driver) dir(id string) string { return filepath.Join(d.Dir, id) }

// load reads the record of a sandbox.
func (d *Driver) load(id string) (*record, error) {
	if atoll.CheckID(id) != nil {
		return nil, atoll.ErrNotFound
	}
	return readRecord(d.dir(id))
}

func readRecord(dir string) (*record, error) {
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, atoll.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", recordFile, err)
	}
	return &r, nil
}

// save replaces the record in a directory in one step.
func (r *record) save(dir string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, recordFile+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, recordFile))
}

// share waits until nobody holds the lock of a sandbox's directory.
func share(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err == nil {
		return f, nil
	}
	done := make(chan error, 1)
	go func() { done <- unix.Flock(int(f.Fd()), unix.LOCK_SH) }()
	select {
	case err := <-done:
		if err != nil {
			return nil, errors.Join(os.NewSyscallError("flock", err), f.Close())
		}
		return f, nil
	case <-ctx.Done():
		go func() { // it can't be called back
			<-done
			_ = f.Close() // nobody waits for it
		}()
		return nil, context.Cause(ctx)
	}
}

// lock takes the lock of a sandbox's directory: who holds it changes its life.
func lock(dir string, flag int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|flag)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("flock", err), f.Close())
	}
	return f, nil
}
