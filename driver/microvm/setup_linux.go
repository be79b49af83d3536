package microvm

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/inside"
)

// What machines in a machine may have together.
const (
	nestedMemory = 4 << 30
	nestedCPUs   = 2
)

// part is what of a setup a machine is told.
type part int

const (
	whole  part = iota
	common      // what machines of a kind have in common, when their template is made
	own         // the rest
)

// setup returns what the guest of a sandbox is told when it goes on: what makes
// the machine this one and no other.
func (d *Driver) setup(r *record, s size, im image.Config, shares []inside.Share, nic string, what part) (json.RawMessage, error) {
	files, err := d.gateFiles(r)
	if err != nil {
		return nil, err
	}
	seed := make([]byte, 64)
	_, _ = rand.Read(seed) // never fails
	id := make([]byte, 16)
	_, _ = rand.Read(id) // likewise
	v := inside.Setup{
		Hostname: hostname(&r.Spec), MachineID: hex.EncodeToString(id), Time: time.Now().UnixNano(), Seed: seed,
		Disks:   []inside.Disk{{Serial: rootSerial, Path: "/"}, {Serial: workSerial, Path: atoll.DefaultDir, Trim: true}},
		Shares:  shares,
		Dirs:    dirsOf(&r.Spec),
		Files:   files,
		User:    inside.User{Name: userName, UID: userID, GID: userID, Home: userHome},
		Limits:  inside.Limits{PIDs: s.pids, Memory: s.commands},
		Network: inside.Network{NIC: nic},
		Guest: guest.Config{
			UID: userID, GID: userID, Home: userHome, Switch: true, Gate: nic == "",
			Env: append(append([]string{
				"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + userHome, "USER=" + userName, "LOGNAME=" + userName,
				"SHELL=/bin/sh", "LANG=C.UTF-8",
			}, gate.Env(r.Spec.Network)...), im.Env...),
		},
	}
	if r.Nested {
		v.Limits.Nested = &inside.Nested{Memory: nestedMemory, CPUs: nestedCPUs}
	}
	switch what {
	case whole:
	case common: // the same whenever it is asked for
		v.Hostname, v.MachineID, v.Time, v.Seed, v.Files, v.Dirs, v.Guest.Env = "", "", 0, nil, nil, nil, nil
		v.Limits.PIDs, v.Limits.Memory = DefaultPIDs, s.memory-guestMemory
	case own:
		v.Disks = nil
	}
	b, err := json.Marshal(v)
	if err == nil && len(b) > inside.MaxSetup {
		err = fmt.Errorf("%w: what the machine is to be told has %d bytes, more than %d", atoll.ErrInvalid, len(b), inside.MaxSetup)
	}
	return b, err
}

// dirsOf are the directories that are made besides the working directory.
func dirsOf(spec *atoll.Spec) []string {
	var dirs []string
	for _, dir := range append([]string{spec.Dir}, spec.Dirs...) {
		if dir != "" && filepath.Clean(dir) != "/" {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	return dirs
}

// hostname is a sandbox's own name of itself.
func hostname(spec *atoll.Spec) string {
	if spec.Name == "" {
		return spec.ID
	}
	return strings.NewReplacer("_", "-", ".", "-").Replace(spec.Name)
}
