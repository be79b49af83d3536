package fleet

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
)

// persistent is the configuration of a sandbox with a name that stays until it is removed.
func persistent(name string) atoll.Config {
	return atoll.Config{Spec: atoll.Spec{Name: name}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}}
}

// storeIn returns archive options with a directory.
func storeIn(dir string) ArchiveOptions {
	return ArchiveOptions{Store: &objectstore.Directory{Path: dir}}
}

// storedKeys returns the keys of all objects of a storage.
func storedKeys(t testing.TB, s objectstore.Store) (keys []string) {
	t.Helper()
	for o, err := range s.List(t.Context(), "") {
		must(t, err)
		keys = append(keys, o.Key)
	}
	return keys
}

// checkState fails unless a sandbox has a state, and no process is changing it.
func checkState(t testing.TB, f *Fleet, id string, want atoll.State) {
	t.Helper()
	if r := readRow(t, f, id); r.state != want || r.goal != "" || r.holder != "" {
		t.Fatalf("the sandbox is %s (goal %q, holder %q, %s: %s), not %s", r.state, r.goal, r.holder, r.reason, r.message, want)
	}
}

// driverHas reports whether a driver has a sandbox.
func driverHas(t testing.TB, d atoll.Driver, id string) bool {
	t.Helper()
	list, err := d.List(t.Context())
	must(t, err)
	return slices.ContainsFunc(list, func(s atoll.Status) bool { return s.ID == id })
}

// TestArchive: an archived sandbox is only in the storage, sealed and without a name of its owner; a start brings
// back files, settings, secrets, workspaces and mounts; then the object is gone.
func TestArchive(t *testing.T) {
	home, store := t.TempDir(), t.TempDir()
	d := &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}, Archive: storeIn(store)})
	a := f.Account(Caller{Owner: atoll.Owner{App: "shop", User: "alice"}, Scopes: LocalCaller().Scopes})
	host := t.TempDir()
	cfg := persistent("alicebox")
	cfg.Mounts, cfg.Env, cfg.Secrets = []atoll.Mount{{Source: host, Target: "/host"}}, []string{"A=b"}, map[string]string{"TOKEN": "s3cret-value"}
	cfg.Workspaces = []atoll.WorkspaceMount{{Workspace: "space", Target: "/space"}}
	sb := mustCreate(t, a, cfg)
	shellOutput(t, sb, "mkdir /work; echo hello-content >/work/a; chmod 640 /work/a; ln -s a /work/l; rm /usr/bin/grep; echo host >/host/f; echo space >/space/f; head -c 300000 /dev/urandom >/work/big; sha256sum /work/big >/work/sum")
	checkError(t, "a running one", sb.Archive(t.Context()), atoll.ErrState)
	must(t, sb.Stop(t.Context()))
	must(t, sb.Archive(t.Context()))
	must(t, sb.Archive(t.Context())) // twice is fine
	checkState(t, f, sb.ID(), atoll.Archived)
	if driverHas(t, d, sb.ID()) {
		t.Error("the driver still has the sandbox")
	}
	keys := storedKeys(t, f.opts.Archive.Store)
	if len(keys) != 1 {
		t.Fatalf("objects: %v", keys)
	}
	object, err := os.ReadFile(filepath.Join(store, keys[0]))
	must(t, err)
	for _, word := range []string{"alice", "shop", sb.ID(), "hello-content", "atoll-sandbox.json", "\x28\xb5\x2f\xfd"} {
		if strings.Contains(keys[0], word) || strings.Contains(string(object), word) {
			t.Errorf("key or object have %q", word)
		}
	}
	st, err := sb.Status(t.Context())
	must(t, err)
	if st.State != atoll.Archived {
		t.Errorf("status %+v", st)
	}
	list, err := a.List(t.Context(), Filter{States: []atoll.State{atoll.Archived}})
	must(t, err)
	if len(list) != 1 || list[0].Name != "alicebox" {
		t.Errorf("list %+v", list)
	}
	must(t, f.Reconcile(t.Context()))
	checkState(t, f, sb.ID(), atoll.Archived)

	must(t, sb.Start(t.Context()))
	checkState(t, f, sb.ID(), atoll.Running)
	want := "hello-content\n-rw-r-----\nhost\nspace\nremoved\n/work/big: OK\nb s3cret-value\n"
	if got := shellOutput(t, sb, "cat /work/l; ls -l /work/a | cut -c1-10; cat /host/f /space/f; test -e /usr/bin/grep || echo removed; sha256sum -c /work/sum; echo $A $TOKEN"); got != want {
		t.Errorf("it came back with %q, not %q", got, want)
	}
	if keys := storedKeys(t, f.opts.Archive.Store); len(keys) != 0 {
		t.Errorf("objects are left: %v", keys)
	}
}

// TestArchivedIsUsed: calls on an archived sandbox bring it back, unless their caller may not start it or only looks
// at it.
func TestArchivedIsUsed(t *testing.T) {
	f := openFleet(t, Options{Archive: storeIn(t.TempDir())})
	sb := mustCreate(t, f.Account(LocalCaller()), persistent("box"))
	shellOutput(t, sb, "echo one >/a")
	archive := func() {
		must(t, sb.Stop(t.Context()))
		must(t, sb.Archive(t.Context()))
	}
	archive()
	reader, err := f.Account(Caller{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead}}).Open(t.Context(), sb.ID())
	must(t, err)
	_, err = atoll.ReadFile(t.Context(), reader, "/a")
	checkError(t, "a caller who may only read", err, atoll.ErrState)
	_, _ = sb.Stats(t.Context()) // asks nothing of it
	checkState(t, f, sb.ID(), atoll.Archived)
	if got := shellOutput(t, sb, "cat /a"); got != "one\n" {
		t.Errorf("a command reads %q", got)
	}
	archive()
	b, err := atoll.ReadFile(t.Context(), sb, "/a")
	must(t, err)
	if string(b) != "one\n" {
		t.Errorf("read %q", b)
	}
	checkState(t, f, sb.ID(), atoll.Running)
	archive()
	checkError(t, "pause", sb.Pause(t.Context()), atoll.ErrState)
	checkError(t, "fresh", sb.StartFresh(t.Context()), atoll.ErrUnsupported)
	must(t, sb.Destroy(t.Context()))
	if keys := storedKeys(t, f.opts.Archive.Store); len(keys) != 0 {
		t.Errorf("objects of a removed sandbox: %v", keys)
	}
}

// TestArchiveRefused: what can't come back whole is not archived.
func TestArchiveRefused(t *testing.T) {
	f := openFleet(t, Options{})
	sb := mustCreate(t, f.Account(LocalCaller()), persistent("box"))
	checkError(t, "without storage", sb.Archive(t.Context()), atoll.ErrUnsupported)
	_, err := f.Account(LocalCaller()).Create(t.Context(), atoll.Config{Lifecycle: atoll.Lifecycle{Archive: time.Hour}})
	checkError(t, "a lifecycle without storage", err, atoll.ErrUnsupported)

	f = openFleet(t, Options{Archive: storeIn(t.TempDir())})
	sb = mustCreate(t, f.Account(LocalCaller()), persistent("box"))
	_, err = sb.Snapshot(t.Context(), "point")
	must(t, err)
	must(t, sb.Stop(t.Context()))
	checkError(t, "with a snapshot", sb.Archive(t.Context()), atoll.ErrState)
	checkState(t, f, sb.ID(), atoll.Stopped)

	home := t.TempDir()
	f = openFleet(t, Options{Home: home, Drivers: []atoll.Driver{otherDriver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}}, Archive: storeIn(t.TempDir())})
	_, err = f.Account(LocalCaller()).Create(t.Context(), atoll.Config{Lifecycle: atoll.Lifecycle{Archive: time.Hour}})
	checkError(t, "a driver that packs only a directory", err, atoll.ErrUnsupported)
}

// TestArchiveTampered: an object that was changed, cut off, lengthened, exchanged with that of another owner or
// removed is refused; the sandbox stays archived, and comes back when the object does.
func TestArchiveTampered(t *testing.T) {
	store, home := t.TempDir(), t.TempDir()
	d := &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}, Archive: storeIn(store)})
	owner := func(user string) *Account {
		return f.Account(Caller{Owner: atoll.Owner{App: "app", User: user}, Scopes: LocalCaller().Scopes})
	}
	archived := func(a *Account, word string) (*Sandbox, string, []byte) {
		sb := mustCreate(t, a, persistent("box"))
		shellOutput(t, sb, "echo "+word+" >/a; head -c 200000 /dev/urandom >/b")
		must(t, sb.Stop(t.Context()))
		before := storedKeys(t, f.opts.Archive.Store)
		must(t, sb.Archive(t.Context()))
		for _, key := range storedKeys(t, f.opts.Archive.Store) {
			if !slices.Contains(before, key) {
				name := filepath.Join(store, key)
				b, err := os.ReadFile(name)
				must(t, err)
				return sb, name, b
			}
		}
		t.Fatal("no object")
		return nil, "", nil
	}
	mine, name, good := archived(owner("mine"), "mine")
	theirs, _, other := archived(owner("theirs"), "theirs")
	flipped := func(at int) []byte {
		b := slices.Clone(good)
		b[at] ^= 1
		return b
	}
	for what, bad := range map[string][]byte{
		"first byte": flipped(0), "a byte of the first chunk": flipped(100), "a byte in the middle": flipped(len(good) / 2), "last byte": flipped(len(good) - 1),
		"cut off": good[:len(good)-1], "cut at a chunk": good[:len(sealedHeader)+2*(64<<10+16)], "longer": append(slices.Clone(good), 0), "empty": {},
		"of another owner": other, "twice": append(slices.Clone(good), good...),
	} {
		must(t, os.WriteFile(name, bad, 0o600))
		checkError(t, what, mine.Start(t.Context()), atoll.ErrState)
		checkState(t, f, mine.ID(), atoll.Archived)
		if driverHas(t, d, mine.ID()) {
			t.Errorf("%s: the driver has something of it", what)
		}
	}
	must(t, os.Remove(name))
	checkError(t, "removed", mine.Start(t.Context()), atoll.ErrUnavailable)
	checkState(t, f, mine.ID(), atoll.Archived)
	must(t, os.WriteFile(name, good, 0o600))
	for sb, want := range map[*Sandbox]string{mine: "mine\n", theirs: "theirs\n"} {
		if got := shellOutput(t, sb, "cat /a"); got != want {
			t.Errorf("it came back with %q, not %q", got, want)
		}
	}
}

const sealedHeader = "atoll sealed object 1\n"

// faultyStore is a Store that fails.
type faultyStore struct {
	objectstore.Store

	mu       sync.Mutex
	putAfter int64 // bytes after which Put fails; 0: it does not
	getAfter int64 // the same for Get
	deletes  error // of Delete
}

var errStorageDown = errors.Join(atoll.ErrUnavailable, errors.New("the storage is down"))

// breakingReader fails after some bytes.
type breakingReader struct {
	io.ReadCloser
	left int64
}

func (b *breakingReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errStorageDown
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (s *faultyStore) set(put, get int64, deletes error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putAfter, s.getAfter, s.deletes = put, get, deletes
}

func (s *faultyStore) get() (put, get int64, deletes error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putAfter, s.getAfter, s.deletes
}

func (s *faultyStore) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if after, _, _ := s.get(); after > 0 {
		r = &breakingReader{io.NopCloser(r), after}
	}
	return s.Store.Put(ctx, key, r)
}

func (s *faultyStore) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	rc, err := s.Store.Get(ctx, key)
	if _, after, _ := s.get(); err == nil && after > 0 {
		rc = &breakingReader{rc, after}
	}
	return rc, err
}

func (s *faultyStore) Delete(ctx context.Context, key string) error {
	if _, _, err := s.get(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

func (s *faultyStore) List(ctx context.Context, prefix string) iter.Seq2[objectstore.Object, error] {
	return s.Store.List(ctx, prefix)
}

// TestArchiveStorageDown: a storage that fails in the middle leaves a stopped sandbox stopped and an archived one
// archived; one that deletes nothing delays no removal, and what it has is deleted later.
func TestArchiveStorageDown(t *testing.T) {
	s := &faultyStore{Store: &objectstore.Directory{Path: t.TempDir()}}
	f := openFleet(t, Options{Archive: ArchiveOptions{Store: s}})
	sb := mustCreate(t, f.Account(LocalCaller()), persistent("box"))
	shellOutput(t, sb, "echo one >/a; head -c 300000 /dev/urandom >/b")
	must(t, sb.Stop(t.Context()))
	s.set(100_000, 0, nil)
	checkError(t, "archive", sb.Archive(t.Context()), atoll.ErrUnavailable)
	checkState(t, f, sb.ID(), atoll.Stopped)
	if r := readRow(t, f, sb.ID()); r.reason != goalArchive || !strings.Contains(r.message, "the storage is down") {
		t.Errorf("the row names %s: %s", r.reason, r.message)
	}
	b, err := atoll.ReadFile(t.Context(), sb, "/a") // it is as before
	must(t, err)
	if string(b) != "one\n" {
		t.Errorf("read %q", b)
	}
	s.set(0, 0, nil)
	must(t, sb.Archive(t.Context()))
	s.set(0, 100_000, nil)
	checkError(t, "start", sb.Start(t.Context()), atoll.ErrUnavailable)
	checkState(t, f, sb.ID(), atoll.Archived)
	s.set(0, 0, errStorageDown)
	if got := shellOutput(t, sb, "cat /a"); got != "one\n" {
		t.Errorf("it came back with %q", got)
	}
	must(t, sb.Stop(t.Context()))
	must(t, sb.Archive(t.Context()))
	must(t, sb.Destroy(t.Context()))
	if n := len(storedKeys(t, s)); n != 2 {
		t.Errorf("%d objects, not 2 that could not be deleted", n)
	}
	s.set(0, 0, nil)
	must(t, f.sweepObjects(t.Context(), ""))
	if keys := storedKeys(t, s); len(keys) != 0 {
		t.Errorf("objects are left: %v", keys)
	}
}
