package microvm

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/vm/vminit"
)

// The limits of all VMs in a VM together.
const (
	nestedMemory = 4 << 30
	nestedCPUs   = 2
)

// setupPart is a part of a VM's setup.
type setupPart int

const (
	setupAll    setupPart = iota
	setupCommon           // what all VMs of a template have in common
	setupOwn              // the rest
)

// encodeSetup returns what the guest of a sandbox needs to know when its VM starts or is resumed
// from a template: everything that distinguishes the VM from others.
func (d *Driver) encodeSetup(r *record, s vmSize, im image.Config, shares []vminit.Share, nic string, what setupPart) (json.RawMessage, error) {
	files, err := d.egressProxy(r).Files(r.Spec.Network)
	if err != nil {
		return nil, err
	}
	seed := make([]byte, 64)
	_, _ = rand.Read(seed) // never fails
	id := make([]byte, 16)
	_, _ = rand.Read(id) // likewise
	v := vminit.Setup{
		Hostname: guest.Hostname(&r.Spec), MachineID: hex.EncodeToString(id), Time: time.Now().UnixNano(), Seed: seed,
		Disks:   []vminit.Disk{{Serial: rootSerial, Path: "/"}, {Serial: workSerial, Path: atoll.DefaultDir, Trim: true}},
		Shares:  shares,
		Dirs:    extraDirs(&r.Spec),
		Files:   files,
		User:    vminit.User{Name: guest.UserName, UID: guest.UserID, GID: guest.UserID, Home: guest.UserHome},
		Limits:  vminit.Limits{PIDs: s.pids, Memory: s.commands},
		Network: vminit.Network{NIC: nic},
		Guest: guest.Config{
			UID: guest.UserID, GID: guest.UserID, Home: guest.UserHome, CanSwitchUser: true, Durable: true, Egress: nic == "",
			Env: append(append(guest.UserEnv(), egress.Env(r.Spec.Network)...), im.Env...),
		},
	}
	if r.Nested {
		v.Limits.Nested = &vminit.Nested{Memory: nestedMemory, CPUs: nestedCPUs}
	}
	switch what {
	case setupAll:
	case setupCommon: // the same at each call
		v.Hostname, v.MachineID, v.Time, v.Seed, v.Files, v.Dirs, v.Guest.Env = "", "", 0, nil, nil, nil, nil
		v.Limits.PIDs, v.Limits.Memory = DefaultPIDs, s.memory-guestMemory
	case setupOwn:
		v.Disks = nil
	}
	b, err := json.Marshal(v)
	if err == nil && len(b) > vminit.MaxSetup {
		err = fmt.Errorf("%w: the setup of the VM has %d bytes, more than %d", atoll.ErrInvalid, len(b), vminit.MaxSetup)
	}
	return b, err
}

// extraDirs returns the directories that are made besides the working directory.
func extraDirs(spec *atoll.Spec) []string {
	var dirs []string
	for _, dir := range append([]string{spec.Dir}, spec.Dirs...) {
		if dir != "" && filepath.Clean(dir) != "/" {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	return dirs
}
