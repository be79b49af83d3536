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

	"github.com/atoll-sandbox/atoll/internal/whole"
)

// Accel says what the processors of this host do for machines.
type Accel struct {
	// KVM: guests run at the speed of the host's own processors. That the
	// device is there and can be opened proves nothing: hosts that are machines
	// themselves may emulate every instruction of a guest's kernel.
	KVM bool   `json:"kvm"`
	Why string `json:"why"` // one sentence: why not, and what helps; empty with KVM

	// Nested: machines can run machines themselves.
	Nested    bool   `json:"nested"`
	NestedWhy string `json:"nested_why"` // likewise
}

// Acceleration finds out what this host does for machines, by running a guest
// for a moment. The answer is kept in a directory, which is made, and holds
// until the host boots again; empty: nothing is kept. It never fails: what can't
// be found out is not there, and the answer says why.
func Acceleration(ctx context.Context, dir string) Accel {
	path := ""
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil && dir != "" {
		path = filepath.Join(dir, fmt.Sprintf("accel-%s-%d", strings.TrimSpace(string(id)), os.Getuid()))
		var a Accel
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &a) == nil {
			return a
		}
	}
	a, lasting := accelOf(probeKVM(ctx), "/")
	if path != "" && lasting && os.MkdirAll(dir, 0o700) == nil {
		if text, err := json.Marshal(a); err == nil {
			_ = whole.Replace(path, text, 0o600) // it is found out again
		}
	}
	return a
}

// Why a probe fails.
var (
	errSlow     = errors.New("guests crawl")
	errNoRunner = errors.New("the device does not run guests")
)

// accelOf puts an answer together from what the probe said and what the files
// below a root tell. lasting: it will be the same until the host boots again.
func accelOf(probe error, root string) (a Accel, lasting bool) {
	a.KVM = probe == nil
	pvm := exists(root, "sys/module/kvm_pvm")
	switch {
	case probe == nil:
		lasting = true
	case errors.Is(probe, fs.ErrNotExist):
		a.Why = "there is no /dev/kvm: switch virtualisation on in the firmware and load kvm_intel or kvm_amd; a host that is a machine itself needs nested virtualisation"
	case errors.Is(probe, fs.ErrPermission):
		a.Why = "/dev/kvm can't be opened: put this user into the group that owns it (usermod -aG kvm USER)"
	case errors.Is(probe, errSlow) && pvm:
		a.Why, lasting = "this host is a PVM guest: /dev/kvm is there, but every instruction of a guest's kernel is emulated; use a host with virtualisation of its own", true
	case errors.Is(probe, errSlow):
		a.Why, lasting = "/dev/kvm is there, but guests run more than a hundred times slower than they should: this host emulates their kernels; use a host with virtualisation of its own", true
	default:
		a.Why = fmt.Sprintf("/dev/kvm does not work: %v", probe)
	}
	a.Nested, a.NestedWhy = nestedOf(a, root, pvm)
	return a, lasting
}

// nestedOf tells whether what a machine sees of the processor has virtualisation.
func nestedOf(a Accel, root string, pvm bool) (ok bool, why string) {
	switch {
	case pvm:
		return false, "this host is a PVM guest, which has no virtualisation to pass on"
	case !a.KVM:
		return false, "machines in a machine need KVM on this host: " + a.Why
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
	return false, "neither kvm_intel nor kvm_amd is loaded: nothing says that this host passes virtualisation on"
}

func exists(root, path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}
