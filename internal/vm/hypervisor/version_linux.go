package hypervisor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// FindQEMU returns the path of QEMU, or an error with a hint how to install it.
func FindQEMU() (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("%w: VMs on %s: only amd64 is supported so far", atoll.ErrUnsupported, runtime.GOARCH)
	}
	path, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		if path = "/usr/libexec/qemu-kvm"; !isProgram(path) { // RHEL's
			return "", fmt.Errorf("%w: %w", atoll.ErrUnavailable, errNoQEMU)
		}
	}
	return filepath.Abs(path)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// versions caches the versions of programs, by path, size and time.
var versions sync.Map

// versionLine returns the pattern of the line with the version. Guests have this package too, and don't
// need it.
var versionLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^QEMU emulator version (\d+\.\d+(?:\.\d+)?)`)
})

// versionTime is the time limit for a program to print its version.
const versionTime = 10 * time.Second

// Version returns the version of a QEMU, such as "7.2.22". It runs a program only once as long as
// the file does not change.
func Version(ctx context.Context, qemu string) (string, error) {
	info, err := os.Stat(qemu)
	if err != nil {
		return "", fmt.Errorf("%w: QEMU: %w", atoll.ErrUnavailable, err)
	}
	key := fmt.Sprintf("%s %d %d", qemu, info.Size(), info.ModTime().UnixNano())
	if v, ok := versions.Load(key); ok {
		return v.(string), nil // only strings are stored
	}
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	if err := fdpass.SealInherited(); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, qemu, "-version")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	out, err := cmd.Output()
	m := versionLine().FindSubmatch(out)
	if err != nil || m == nil {
		return "", fmt.Errorf("%w: %s is not a working QEMU: %q: %v", atoll.ErrUnavailable, qemu, printableLine(string(out), maxShown), err) //nolint:errorlint // it may be nil
	}
	versions.Store(key, string(m[1]))
	return string(m[1]), nil
}
