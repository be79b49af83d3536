package namespace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
)

// The files of a sandbox's directory besides its record. Only the host uses that directory; what
// the sandbox can write is only in rootDir.
const (
	socketFile = "guest.sock"
	logFile    = "boot.log"
	rootDir    = "root"
	egressDir  = "gate" // of its egress proxy
)

// record is the persistent state of a sandbox.
type record struct {
	ID      string      `json:"id"`
	Spec    atoll.Spec  `json:"spec"`
	Created time.Time   `json:"created"`
	State   atoll.State `json:"state"` // starting, running, paused, stopped
	PID     int         `json:"pid,omitempty"`
	Start   uint64      `json:"start,omitempty"`   // when PID started, as jail.StartTime returns it
	Boot    string      `json:"boot,omitempty"`    // statedir.BootID at that time
	Base    int         `json:"base,omitempty"`    // first user ID of its range on the host; 0: it has only the user that created it
	Failure string      `json:"failure,omitempty"` // why the last start failed; empty: it did not

	mount *os.File // of its disk, while that is made; nil: none
}

// stateHome returns the store of this driver's sandboxes.
func (d *Driver) stateHome() *statedir.Home[record] {
	return &statedir.Home[record]{Dir: d.Dir, Clear: d.clearSandbox, Recover: d.recoverSandbox}
}

func (d *Driver) sandboxDir(id string) string { return filepath.Join(d.Dir, id) }

// load reads the record of a sandbox.
func (d *Driver) load(id string) (*record, error) { return d.stateHome().Load(id) }

// save replaces the record of a sandbox.
func (d *Driver) save(r *record) error { return d.stateHome().Save(r.ID, r) }

// The user IDs of the host that sandboxes get: each a range of its own, in a part that nothing
// else hands out.
const (
	firstID = 0x70000000
	perID   = 1 << 16
	ranges  = 4000
)

// userIDs returns the ranges of user IDs.
func (d *Driver) userIDs() statedir.RangeAllocator {
	return statedir.RangeAllocator{Dir: filepath.Join(d.Dir, "ids"), First: firstID, PerRange: perID, Count: ranges}
}

// clearSandbox ends a sandbox that is being removed, whose directory is now dir, and releases all
// its resources. r is nil when its record was never complete.
func (d *Driver) clearSandbox(dir string, r *record) error {
	if r == nil {
		return removeAll(dir)
	}
	if !statedir.Claimed(dir) {
		return errors.Join(removeAll(dir), d.userIDs().Release(r.ID, r.Base))
	}
	if err := d.killProcesses(r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if egress.IsNeeded(r.Spec.Network) {
		if err := egress.Open(filepath.Join(dir, egressDir)).WaitForExit(ctx); err != nil {
			return err
		}
	}
	return errors.Join(removeAll(dir), d.releaseImage(r), d.userIDs().Release(r.ID, r.Base))
}

// bootID returns statedir.BootID, which is read once.
func (d *Driver) bootID() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.host.boot == "" {
		boot, err := statedir.BootID()
		if err != nil {
			return "", err
		}
		d.host.boot = boot
	}
	return d.host.boot, nil
}
