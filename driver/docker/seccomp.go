package docker

import (
	"runtime"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/seccomp"
)

// guestFeatures sets the features that every sandbox with a guest has.
func guestFeatures(f *atoll.Features) {
	f.Files, f.Dial, f.Listen, f.TTY, f.Signals, f.Watch = true, true, true, true, true, true
	f.Stats, f.Notices, f.Terminal, f.Detach = true, true, true, true
}

// seccompProfile returns the engine's seccomp profile for a whole sandbox.
var seccompProfile = sync.OnceValues(func() ([]byte, error) { return seccomp.JSON(seccomp.Options{Guest: true}) })

// seccompOption returns the security option of the container's profile: that of the guest, which
// allows a little more than that of commands.
func seccompOption() ([]string, error) {
	b, err := seccompProfile()
	return []string{"seccomp=" + string(b)}, err
}

// commandFilter returns the seccomp filter of commands, if the engine has processors of the
// architecture that this program was built for; otherwise only the container's profile applies.
func commandFilter(e *engine) ([]byte, error) {
	if arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[e.info.Architecture]; arch != runtime.GOARCH {
		return nil, nil
	}
	return seccomp.Filter(seccomp.Options{})
}
