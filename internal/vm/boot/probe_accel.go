package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// Accel describes what the processors of this host can do for VMs.
type Accel struct {
	// KVM reports that guests run at the speed of the host's processors. It is not enough that the
	// device exists and can be opened: a host that is a VM itself may emulate every instruction of
	// a guest's kernel.
	KVM        bool   `json:"kvm"`
	KVMProblem string `json:"why"` // one sentence: why not, and how to fix it; empty with KVM

	// Nested reports that VMs can run VMs themselves.
	Nested        bool   `json:"nested"`
	NestedProblem string `json:"nested_why"` // likewise for Nested
}

// ProbeAcceleration probes what this host can do for VMs, by running a guest for a moment. It caches the
// result in a directory, which it makes, until the host reboots; with an empty dir nothing is
// cached. It never fails: if a capability can't be determined it is missing, with the reason.
func ProbeAcceleration(ctx context.Context, dir string) Accel {
	path := ""
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil && dir != "" {
		path = filepath.Join(dir, fmt.Sprintf("accel-%s-%d", strings.TrimSpace(string(id)), os.Getuid()))
		var a Accel
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &a) == nil {
			return a
		}
	}
	a, lasting := explainProbe(probeKVM(ctx), "/")
	if path != "" && lasting && os.MkdirAll(dir, 0o700) == nil {
		if text, err := json.Marshal(a); err == nil {
			_ = atomicfile.Replace(path, text, 0o600) // otherwise it is probed again next time
		}
	}
	return a
}

// Reasons why a probe fails.
var (
	errSlow     = errors.New("guests run too slowly")
	errNoRunner = errors.New("the device does not run guests")
)

// explainProbe combines the result of the probe with the files below a root directory. lasting: the
// result is valid until the host reboots.
func explainProbe(probe error, root string) (a Accel, lasting bool) {
	a.KVM = probe == nil
	pvm := fileExists(root, "sys/module/kvm_pvm")
	switch {
	case probe == nil:
		lasting = true
	case errors.Is(probe, fs.ErrNotExist):
		a.KVMProblem = "there is no /dev/kvm: switch virtualisation on in the firmware and load kvm_intel or kvm_amd; a host that is a VM itself needs nested virtualisation"
	case errors.Is(probe, fs.ErrPermission):
		a.KVMProblem = "/dev/kvm can't be opened: put this user into the group that owns it (usermod -aG kvm USER)"
	case errors.Is(probe, errSlow) && pvm:
		a.KVMProblem, lasting = "this host is a PVM guest: /dev/kvm is there, but every instruction of a guest's kernel is emulated; use a host with virtualisation of its own", true
	case errors.Is(probe, errSlow):
		a.KVMProblem, lasting = "/dev/kvm is there, but guests run more than a hundred times slower than they should: this host emulates their kernels; use a host with virtualisation of its own", true
	default:
		a.KVMProblem = fmt.Sprintf("/dev/kvm does not work: %v", probe)
	}
	a.Nested, a.NestedProblem = decideNested(a, root, pvm)
	return a, lasting
}

// decideNested reports whether a VM's processor would have virtualisation; otherwise why not.
func decideNested(a Accel, root string, pvm bool) (ok bool, why string) {
	switch {
	case pvm:
		return false, "this host is a PVM guest, which has no virtualisation to pass on"
	case !a.KVM:
		return false, "VMs in a VM need KVM on this host: " + a.KVMProblem
	}
	for _, module := range []string{"kvm_intel", "kvm_amd"} {
		text, err := os.ReadFile(filepath.Join(root, "sys/module", module, "parameters/nested"))
		if err != nil {
			continue
		}
		if v := strings.TrimSpace(string(text)); v == "Y" || v == "1" {
			return true, ""
		}
		return false, fmt.Sprintf("nested virtualisation is off: set it on (echo 'options %s nested=1' > /etc/modprobe.d/atoll.conf, then load %s again or boot)", module, module)
	}
	return false, "neither kvm_intel nor kvm_amd is loaded: this host shows no sign of nested virtualisation"
}

func fileExists(root, path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}
