package fleet

import (
	"archive/tar"
	"bytes"
	"context"
	"database/sql"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// holeDriver is a driver whose sandboxes have a file of a size that no archive may have, like one with a hole.
type holeDriver struct{ *virtual.Driver }

func (d holeDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	sb, err := d.Driver.Create(ctx, spec)
	return holeSandbox{sb}, err
}

func (d holeDriver) OpenOwned(ctx context.Context, id string, owner atoll.Owner) (atoll.Sandbox, error) {
	sb, err := d.Driver.OpenOwned(ctx, id, owner)
	return holeSandbox{sb}, err
}

type holeSandbox struct{ atoll.Sandbox }

func (s holeSandbox) Unwrap() atoll.Sandbox { return s.Sandbox }

func (holeSandbox) PackFiles(context.Context, string) (*atoll.PackedFiles, error) {
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "hole", Mode: 0o600, Size: 1 << 40}); err != nil {
		return nil, err
	}
	return &atoll.PackedFiles{Kind: atoll.PackedLayer, Dir: "/", ReadCloser: io.NopCloser(&b)}, nil
}

// TestArchiveThatNeverReturns: files that no return of a sandbox takes, such as one with a hole of a terabyte, are not
// archived: they stay where they are.
func TestArchiveThatNeverReturns(t *testing.T) {
	home, store := t.TempDir(), t.TempDir()
	d := holeDriver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}, Archive: storeIn(store)})
	sb := mustCreate(t, f.Account(LocalCaller()), persistent("box"))
	must(t, sb.Stop(t.Context()))
	checkError(t, "archive", sb.Archive(t.Context()), atoll.ErrQuota)
	checkState(t, f, sb.ID(), atoll.Stopped)
	if !driverHas(t, d, sb.ID()) {
		t.Error("the driver does not have it any more")
	}
	if keys := storedKeys(t, f.opts.Archive.Store); len(keys) != 0 {
		t.Errorf("objects are left: %v", keys)
	}
}

// TestOlderRegistryRemovesNoFiles: a registry of a time when a sandbox was archived does not make a server remove the
// sandbox that has come back since, and whose object is gone.
func TestOlderRegistryRemovesNoFiles(t *testing.T) {
	home := t.TempDir()
	d := &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}, Archive: storeIn(t.TempDir())})
	sb := mustCreate(t, f.Account(LocalCaller()), persistent("box"))
	shellOutput(t, sb, "echo kept >/a")
	must(t, sb.Stop(t.Context()))
	must(t, sb.Archive(t.Context()))
	old, err := f.keptObject(t.Context(), f.registry.DB, sb.ID())
	must(t, err)
	var secret string
	must(t, f.registry.DB.QueryRowContext(t.Context(), "select secret from archives where key = ?", old.key).Scan(&secret))
	must(t, sb.Start(t.Context()))
	must(t, sb.Stop(t.Context()))
	_, err = f.changeRow(t.Context(), sb.ID(), func(tx *sql.Tx, r *row) error {
		r.state = atoll.Archived
		_, err := tx.ExecContext(t.Context(), "insert into archives (key, sandbox, state, secret, bytes, digest, created) values (?, ?, ?, ?, ?, ?, ?)",
			old.key, sb.ID(), objectKept, secret, old.bytes, old.digest, registry.Timestamp(old.created))
		must(t, err)
		return f.saveRow(t.Context(), tx, r)
	})
	must(t, err)
	must(t, f.Reconcile(t.Context()))
	checkError(t, "start", sb.Start(t.Context()), atoll.ErrState)
	must(t, f.Reconcile(t.Context()))
	there, err := d.Open(t.Context(), sb.ID())
	must(t, err)
	b, err := atoll.ReadFile(t.Context(), there, "/a")
	must(t, err)
	if string(b) != "kept\n" {
		t.Errorf("it has %q", b)
	}
}

// countingStore counts the Puts that run at once.
type countingStore struct {
	objectstore.Store

	now, most atomic.Int32
}

func (s *countingStore) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(300 * time.Millisecond)
	return s.Store.Put(ctx, key, r)
}

// TestArchiveStorm: of many sandboxes that an owner archives at once, a few are packed at a time; all are archived.
func TestArchiveStorm(t *testing.T) {
	s := &countingStore{Store: &objectstore.Directory{Path: t.TempDir()}}
	f := openFleet(t, Options{Archive: ArchiveOptions{Store: s}})
	var all sync.WaitGroup
	for range maxArchivings + 4 {
		sb := mustCreate(t, f.Account(LocalCaller()), persistent(""))
		must(t, sb.Stop(t.Context()))
		all.Go(func() {
			if err := sb.Archive(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.most.Load(); n > maxArchivings {
		t.Errorf("%d were stored at once", n)
	}
	if n := len(storedKeys(t, s)); n != maxArchivings+4 {
		t.Errorf("%d objects", n)
	}
}
