package namespace_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// gvisor is the driver with runsc as its default runtime.
type gvisor struct{ *namespace.Driver }

func (g gvisor) Probe(ctx context.Context) (atoll.Features, error) {
	f, err := g.Driver.Probe(ctx)
	f.Isolation, f.Pause = "gvisor", false
	f.Networks = []atoll.NetworkMode{atoll.NetworkNone}
	for law, reason := range map[string]string{
		"FullDiskIsQuota":               "gVisor's sandboxes have a directory of the host, whose file system has no limit for it",
		"ForkBombIsContained":           "gVisor takes threads of the host as it needs them, and ends where there are no more",
		"WatchReportsMountChanges":      "gVisor holds a file of the host open for each directory that is watched: the whole root has too many",
		"WatchSeesRestore":              "gVisor is started anew to go back, which ends watches",
		"TerminalInterrupts":            "gVisor's terminals don't show the control characters that are typed",
		"TerminalsSmallestWindowCounts": "a shell in gVisor is not told of a new size of a terminal that it waits in",
	} {
		f.Lacks[law] = reason
	}
	return f, err
}

func (g gvisor) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	if spec.Runtime == "" {
		spec.Runtime = "runsc"
	}
	return g.Driver.Create(ctx, spec)
}

// skipWithoutRunsc skips a test where gVisor is missing.
func skipWithoutRunsc(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("runsc")
	if err == nil && os.Geteuid() == 0 {
		return
	}
	testenv.Skip(t, "runsc", "runsc is not in $PATH, or this is not root: %v", err)
}

func TestRunsc(t *testing.T) {
	skipWithoutRunsc(t)
	atolltest.Run(t, gvisor{newDriver(t)})
}

// TestRunscSetsNoBits checks that programs in gVisor leave no set-uid files on the host.
func TestRunscSetsNoBits(t *testing.T) {
	skipWithoutRunsc(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	sb, err := newDriver(t).Create(t.Context(), atoll.Spec{Runtime: "runsc", Mounts: []atoll.Mount{{Source: dir, Target: "/m"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo x > /m/f; chmod 755 /m/f && ! chmod 4755 /m/f && ! chmod 2755 /m/f"})
	if err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	info, err := os.Stat(dir + "/f")
	if err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 || info.Mode().Perm() != 0o755 {
		t.Errorf("the host's file has mode %v, %v", info.Mode(), err)
	}
}
