//go:build linux

package escape

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/seal"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestSealedWorker runs every attack in a process that is sealed as the workers of virtual
// sandboxes are: what code could do that has taken one over.
func TestSealedWorker(t *testing.T) {
	f := newHostTargets(t)
	for _, mounts := range []struct{ name, dir string }{{"no-mounts", ""}, {"mounts", makeTempDir(t)}} {
		t.Run(mounts.name, func(t *testing.T) {
			for _, a := range listAttacks() {
				t.Run(a.name, func(t *testing.T) { runSealed(t, f, a, mounts.dir) })
			}
		})
	}
}

// runSealed runs an attack in a sealed process.
func runSealed(t *testing.T, f *hostTargets, a attack, dir string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, probePath, append([]string{hostNamespace(t, "mnt"), "sealed", dir, a.name}, a.buildArgs(f)...)...)
	cmd.Env = []string{"ATOLL_WORD=" + secretWord}
	cmd.SysProcAttr = seal.Attr()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case dir != "" && a.name == "bomb-inotify":
		t.Logf("which this isolation allows: instances are counted for a user of the host: %s", &out)
	case err == nil || strings.Contains(out.String(), "CROSSED"):
		t.Errorf("crossed: %s", &out)
	case strings.Contains(out.String(), "sealing:") || strings.Contains(out.String(), "mount namespace"):
		t.Fatalf("the attack was not run: %s", &out)
	case !errors.As(err, &exit):
		testenv.Skip(t, "escape", "a process with namespaces of its own: %v: %v", atoll.ErrUnavailable, err)
	}
	f.checkUntouched(t)
}
