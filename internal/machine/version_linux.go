package machine

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
)

// FindQEMU returns the path of QEMU, or an error that says how to get it.
func FindQEMU() (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("%w: machines on %s, only on amd64 so far", atoll.ErrUnsupported, runtime.GOARCH)
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

// versions are what programs answered, by what they were when they were asked.
var versions sync.Map

var versionLine = regexp.MustCompile(`^QEMU emulator version (\d+\.\d+(?:\.\d+)?)`)

// versionTime is how long a program may take to say its version.
const versionTime = 10 * time.Second

// Version returns the version of a QEMU, such as "7.2.22". It is asked once for
// each file as it is.
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
	cmd := exec.CommandContext(ctx, qemu, "-version")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	out, err := cmd.Output()
	m := versionLine.FindSubmatch(out)
	if err != nil || m == nil {
		return "", fmt.Errorf("%w: %s is no QEMU that works: %q: %v", atoll.ErrUnavailable, qemu, printable(string(out), maxShown), err)
	}
	versions.Store(key, string(m[1]))
	return string(m[1]), nil
}
