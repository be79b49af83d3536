//go:build linux

// Package work tests real work in real sandboxes: it builds and tests this project, and
// installs packages through the egress proxy.
package work

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "namespace", helpertest.Main)) }

// readGoEnv returns a setting of the go command.
func readGoEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestBuildsItself builds this project and runs some of its tests in a sandbox without
// a network. The source and the host's module cache are read-only, the build cache is
// shared.
func TestBuildsItself(t *testing.T) {
	d := newDriver(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	gomod, goroot := readGoEnv(t, "GOMODCACHE"), readGoEnv(t, "GOROOT")
	sb, err := d.Create(t.Context(), atoll.Spec{
		Env: []string{"GOFLAGS=-mod=readonly -buildvcs=false -trimpath", "GOPROXY=off", "GOSUMDB=off", "CGO_ENABLED=0", "GOMODCACHE=/modules", "GOCACHE=/cache", "GOTMPDIR=/workspace/tmp", "GOROOT=/goroot", "GOTOOLCHAIN=local"},
		Mounts: []atoll.Mount{
			{Source: root, Target: "/src", ReadOnly: true},
			{Source: gomod, Target: "/modules", ReadOnly: true},
			{Source: goroot, Target: "/goroot", ReadOnly: true},
			{Source: readGoEnv(t, "GOCACHE"), Target: "/cache"}, // what is compiled already
		},
		Limits: atoll.Resources{Memory: 4 << 30, PIDs: 1000},
	})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(t.Context()); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	var out bytes.Buffer
	exit, err := sb.Exec(t.Context(), atoll.Cmd{
		Shell:  "mkdir -p /workspace/tmp /workspace/out && cd /src && PATH=/goroot/bin:$PATH && go build -o /workspace/out/ ./cmd/atoll-full && /workspace/out/atoll-full run -- echo built && go test ./internal/unix/regex ./vfs ./shell/syntax ./internal/wire",
		Stdout: &out, Stderr: &out, Timeout: 15 * time.Minute,
	})
	if err != nil || exit.Code != 0 {
		t.Fatalf("exit status %d, %v:\n%s", exit.Code, err, &out)
	}
	if !strings.HasPrefix(out.String(), "built\n") {
		t.Errorf("the built program prints %q", &out)
	}
	t.Logf("%s", &out)
}
