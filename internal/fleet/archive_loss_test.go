package fleet

import (
	"archive/tar"
	"bytes"
	"context"
	"database/sql"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// packDriver is a driver whose sandboxes are packed by a function.
type packDriver struct {
	*virtual.Driver

	pack func(ctx context.Context, snapshot string) (*atoll.PackedFiles, error)
}

func (d packDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	sb, err := d.Driver.Create(ctx, spec)
	return packSandbox{sb, d}, err
}

func (d packDriver) OpenOwned(ctx context.Context, id string, owner atoll.Owner) (atoll.Sandbox, error) {
	sb, err := d.Driver.OpenOwned(ctx, id, owner)
	return packSandbox{sb, d}, err
}

type packSandbox struct {
	atoll.Sandbox

	d packDriver
}

func (s packSandbox) Unwrap() atoll.Sandbox { return s.Sandbox }

func (s packSandbox) PackFiles(ctx context.Context, snapshot string) (*atoll.PackedFiles, error) {
	return s.d.pack(ctx, snapshot)
}

// packedEntry returns packed files with one header.
func packedEntry(h *tar.Header) (*atoll.PackedFiles, error) {
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(h); err != nil {
		return nil, err
	}
	return &atoll.PackedFiles{Kind: atoll.PackedLayer, Dir: "/", ReadCloser: io.NopCloser(&b)}, nil
}

// TestArchiveThatNeverReturns: files that no return of a sandbox takes, such as one with a hole of a terabyte, are not
// archived: they stay where they are.
func TestArchiveThatNeverReturns(t *testing.T) {
	home, store := t.TempDir(), t.TempDir()
	d := packDriver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}, func(context.Context, string) (*atoll.PackedFiles, error) {
		return packedEntry(&tar.Header{Typeflag: tar.TypeReg, Name: "hole", Mode: 0o600, Size: 1 << 40})
	}}
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

// TestArchivingsAreBounded: a sandbox waits while as many as may be are archived, and is archived then.
func TestArchivingsAreBounded(t *testing.T) {
	store := &objectstore.Directory{Path: t.TempDir()}
	f := openFleet(t, Options{Archive: ArchiveOptions{Store: store}})
	sb := mustCreate(t, f.Account(LocalCaller()), persistent(""))
	must(t, sb.Stop(t.Context()))
	for range maxArchivings {
		f.archivings <- struct{}{}
	}
	brief, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	checkError(t, "archive", sb.Archive(brief), atoll.ErrTimeout)
	info, err := sb.Info(t.Context())
	must(t, err)
	if keys := storedKeys(t, store); len(keys) > 0 || info.State != atoll.Stopped {
		t.Errorf("it is %s, with the objects %v", info.State, keys)
	}
	<-f.archivings
	must(t, sb.Archive(t.Context()))
	if len(f.archivings) != maxArchivings-1 {
		t.Errorf("%d are archived afterwards", len(f.archivings))
	}
}

// TestComparisonsOfOneOwner: an owner whose comparisons last leaves room for those of others.
func TestComparisonsOfOneOwner(t *testing.T) {
	home := t.TempDir()
	begun := make(chan struct{}, 10)
	d := packDriver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}, func(ctx context.Context, snapshot string) (*atoll.PackedFiles, error) {
		if snapshot == "slow" {
			begun <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return packedEntry(&tar.Header{Typeflag: tar.TypeDir, Name: "./"})
	}}
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	box := func(user string) *Sandbox {
		return mustCreate(t, f.Account(Caller{Owner: atoll.Owner{App: "app", User: user}, Scopes: LocalCaller().Scopes}), persistent(""))
	}
	busy, other := box("busy"), box("other")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _, _ = busy.CompareSnapshots(ctx, "slow", "") })
	<-begun
	second, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	_, err := busy.CompareSnapshots(second, "slow", "")
	checkError(t, "a second one of the owner", err, atoll.ErrTimeout)
	if len(begun) > 0 || len(f.comparisons.all) != 1 {
		t.Errorf("%d run", len(f.comparisons.all))
	}
	brief, end := context.WithTimeout(t.Context(), 20*time.Second)
	defer end()
	if _, err := other.CompareSnapshots(brief, "first", ""); err != nil {
		t.Errorf("another owner's: %v", err)
	}
	cancel()
	all.Wait()
	if n := len(f.comparisons.owners); n > 0 {
		t.Errorf("%d owners are remembered", n)
	}
}
