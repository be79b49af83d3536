package docker

import (
	"runtime"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/seccomp"
)

// guestFeatures are those of every sandbox with a guest.
func guestFeatures(f *atoll.Features) {
	f.Files, f.Dial, f.Listen, f.TTY, f.Signals, f.Watch = true, true, true, true, true, true
	f.Stats, f.Notices, f.Terminal, f.Detach = true, true, true, true
}

// profile is the engine's seccomp profile for a whole sandbox.
var profile = sync.OnceValues(func() ([]byte, error) { return seccomp.JSON(seccomp.Options{Guest: true}) })

// seccompOption is the profile of the container: the guest's, which is a little
// wider than that of commands.
func seccompOption() ([]string, error) {
	b, err := profile()
	return []string{"seccomp=" + string(b)}, err
}

// commandFilter is the program that commands run under, where the engine's
// processors are of the kind that this was built for; elsewhere the container's
// profile is all there is.
func commandFilter(e *engine) ([]byte, error) {
	if arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[e.info.Architecture]; arch != runtime.GOARCH {
		return nil, nil
	}
	return seccomp.Filter(seccomp.Options{})
}
