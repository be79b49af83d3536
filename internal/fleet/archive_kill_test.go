package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
)

// Environment variables that make the test binary the child process of TestArchiveKilled: where it kills itself, and
// in which home.
const (
	archiveKillVar     = "ATOLL_FLEET_ARCHIVE_KILL"
	archiveKillHomeVar = "ATOLL_FLEET_ARCHIVE_HOME"
)

// killingStore kills this process within a transfer.
type killingStore struct {
	objectstore.Store
	step string
}

// killingReader kills this process after some bytes.
type killingReader struct {
	io.ReadCloser
	left int
}

func (k *killingReader) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	if k.left -= n; k.left < 0 {
		killSelf()
	}
	return n, err
}

func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // can't fail
	select {}
}

func (s *killingStore) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if s.step == "within put" {
		r = &killingReader{io.NopCloser(r), 100_000}
	}
	return s.Store.Put(ctx, key, r)
}

func (s *killingStore) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	rc, err := s.Store.Get(ctx, key)
	if err == nil && s.step == "within get" {
		rc = &killingReader{rc, 100_000}
	}
	return rc, err
}

func (s *killingStore) Delete(ctx context.Context, key string) error {
	if s.step == "before delete" {
		killSelf()
	}
	err := s.Store.Delete(ctx, key)
	if s.step == "after delete" {
		killSelf()
	}
	return err
}

// archiveKillOptions are the options of parent and child.
func archiveKillOptions(home string) Options {
	return withPostgres(Options{
		Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}, Archive: storeIn(filepath.Join(home, "objects")),
	})
}

// runArchiveKillChild archives or starts the sandbox of a home, until it kills itself.
func runArchiveKillChild(home, step string) error {
	act, step, _ := strings.Cut(step, ": ")
	o := archiveKillOptions(home)
	o.Archive.Store = &killingStore{Store: o.Archive.Store, step: step}
	o.onArchiveStep = func(name string) {
		if name == step {
			killSelf()
		}
	}
	f, err := Open(context.Background(), o)
	if err != nil {
		return err
	}
	sb, err := f.Account(LocalCaller()).Open(context.Background(), "box")
	if err != nil {
		return err
	}
	switch act {
	case "archive":
		err = sb.Archive(context.Background())
	case "start":
		err = sb.Start(context.Background())
	case "destroy":
		err = sb.Destroy(context.Background())
	}
	return errors.Join(err, fmt.Errorf("it was not killed at %q", step))
}

// TestArchiveKilled kills a server at each step of archiving, of the return and of the removal: the sandbox is
// stopped or archived then, never lost; it has its files when it is started, its driver has it at most once, and in the
// end no object is left that no sandbox needs.
func TestArchiveKilled(t *testing.T) {
	for _, c := range []struct {
		step string
		want atoll.State
	}{
		{"archive: archive begun", atoll.Stopped},
		{"archive: within put", atoll.Stopped},
		{"archive: archive stored", atoll.Stopped},
		{"archive: archive committed", atoll.Archived},
		{"archive: leftover removed", atoll.Archived},
		{"start: restore begun", atoll.Archived},
		{"start: within get", atoll.Archived},
		{"start: restore unpacked", atoll.Archived},
		{"start: restore committed", atoll.Running},
		{"start: before delete", atoll.Running},
		{"start: after delete", atoll.Running},
		{"destroy: before delete", atoll.Destroyed},
		{"destroy: after delete", atoll.Destroyed},
	} {
		t.Run(strings.ReplaceAll(c.step, ": ", "/"), func(t *testing.T) {
			home := t.TempDir()
			f := openFleet(t, archiveKillOptions(home))
			sb := mustCreate(t, f.Account(LocalCaller()), persistent("box"))
			shellOutput(t, sb, "echo kept >/a; head -c 300000 /dev/urandom >/b; sha256sum /b >/sum")
			must(t, sb.Stop(t.Context()))
			if !strings.HasPrefix(c.step, "archive") {
				must(t, sb.Archive(t.Context()))
			}
			closeFleet(t, f)
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), archiveKillVar+"="+c.step, archiveKillHomeVar+"="+home)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the child was not killed: %v\n%s", err, out)
			}
			checkKilledArchive(t, home, sb.ID(), c.want)
		})
	}
}

// checkKilledArchive checks what a killed server has left.
func checkKilledArchive(t *testing.T, home, id string, want atoll.State) {
	t.Helper()
	o := archiveKillOptions(home)
	f := openFleet(t, o)
	waitForDead(t, f, id)
	checkState(t, f, id, want)
	if there, should := driverHas(t, o.Drivers[0], id), want == atoll.Stopped || want == atoll.Running; there != should {
		t.Fatalf("the driver has it: %v, and it is %s", there, want)
	}
	must(t, f.sweepObjects(t.Context(), ""))
	objects := 0
	if want == atoll.Archived {
		objects = 1
	}
	if keys := storedKeys(t, o.Archive.Store); len(keys) != objects {
		t.Errorf("objects %v, not %d", keys, objects)
	}
	if want == atoll.Destroyed {
		return
	}
	sb, err := f.Account(LocalCaller()).Open(t.Context(), id)
	must(t, err)
	if want == atoll.Stopped { // it can be archived now
		must(t, sb.Archive(t.Context()))
	}
	must(t, sb.Start(t.Context()))
	if got := shellOutput(t, sb, "cat /a; sha256sum -c /sum"); got != "kept\n/b: OK\n" {
		t.Errorf("it has %q", got)
	}
	if keys := storedKeys(t, o.Archive.Store); len(keys) != 0 {
		t.Errorf("objects are left: %v", keys)
	}
}

// waitForDead reconciles until no process holds a sandbox: with PostgreSQL the lease of a killed server must expire.
func waitForDead(t *testing.T, f *Fleet, id string) {
	t.Helper()
	release, err := f.ensureHandle(readRow(t, f, id)).acquireTurn(t.Context())
	must(t, err)
	defer release()
	err = f.changeExclusive(t.Context(), id, func(*sql.Tx, *row) error { return nil })
	must(t, ignoreError(err, atoll.ErrNotFound))
}
