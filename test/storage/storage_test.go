// Package storage_test archives sandboxes in a real S3 server: see scripts/s3.
package storage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB, o objectstore.Options) objectstore.Store {
	t.Helper()
	s, err := objectstore.Open(o)
	must(t, err)
	return s
}

// files returns the files in the bucket.
func (s *s3Server) files(t testing.TB) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(s.dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// randomBytes returns bytes that can't be compressed, always the same.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	return b
}

// TestStore: objects of every number of parts come back; a connection that breaks is repeated; what is missing,
// refused or not there is named.
func TestStore(t *testing.T) {
	server := startServer(t)
	s := openStore(t, server.options)
	ctx := t.Context()
	content := randomBytes(40 << 20)
	for _, n := range []int{0, 1, 16<<20 - 1, 16 << 20, 16<<20 + 1, 32 << 20, len(content)} {
		size, err := s.Put(ctx, "a/b", bytes.NewReader(content[:n]))
		must(t, err)
		rc, err := s.Get(ctx, "a/b")
		must(t, err)
		got, err := io.ReadAll(rc)
		must(t, errors.Join(err, rc.Close()))
		if size != int64(n) || !bytes.Equal(got, content[:n]) {
			t.Fatalf("%d bytes came back as %d (%d)", n, len(got), size)
		}
	}

	server.cutAfter(20<<20, false)
	_, err := s.Put(ctx, "a/cut", bytes.NewReader(content))
	must(t, err)
	server.cutAfter(20<<20, false)
	rc, err := s.Get(ctx, "a/cut")
	must(t, err)
	got, err := io.ReadAll(rc)
	must(t, errors.Join(err, rc.Close()))
	if !bytes.Equal(got, content) {
		t.Error("a download that broke came back with other bytes")
	}
	if n := server.up(); n != 2 {
		t.Errorf("%d connections were cut, not 2", n)
	}

	// An upload that fails leaves no object, and a deletion none of its parts.
	broken := io.MultiReader(bytes.NewReader(content[:20<<20]), errorReader{})
	if _, err := s.Put(ctx, "a/broken", broken); !errors.Is(err, errBroken) {
		t.Errorf("put of a broken stream: %v", err)
	}
	if _, err := s.Get(ctx, "a/broken"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("get of a missing object: %v", err)
	}
	var keys []string
	for o, err := range s.List(ctx, "a/") {
		must(t, err)
		keys = append(keys, o.Key)
	}
	if strings.Join(keys, " ") != "a/b a/cut" {
		t.Errorf("list %v", keys)
	}
	for _, key := range append(keys, "a/missing", "a/broken") {
		must(t, s.Delete(ctx, key))
	}
	if left := server.files(t); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

// TestStoreMemory: an object of any size takes the memory of one part.
func TestStoreMemory(t *testing.T) {
	server := startServer(t)
	s := openStore(t, server.options)
	const size = 160 << 20
	var peak uint64
	watch := &watchedReader{r: io.LimitReader(rand.NewChaCha8([32]byte{2}), size), see: func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	}}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := s.Put(t.Context(), "big", watch)
	must(t, err)
	grown := (int64(peak) - int64(before.HeapAlloc)) >> 20
	t.Logf("%d MiB were stored with %d MiB of memory", n>>20, grown)
	if n != size || grown > 64 {
		t.Errorf("%d bytes took %d MiB of memory", n, grown)
	}
}

// watchedReader calls a function before reads.
type watchedReader struct {
	r   io.Reader
	see func()
}

func (w *watchedReader) Read(p []byte) (int, error) {
	w.see()
	return w.r.Read(p)
}

var errBroken = errors.New("broken")

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errBroken }

// TestStoreRefused: settings that are wrong are named.
func TestStoreRefused(t *testing.T) {
	server := startServer(t)
	for _, c := range []struct {
		what   string
		change func(o *objectstore.Options)
		want   string
	}{
		{"secret key", func(o *objectstore.Options) { o.SecretKey = "wrong" }, "refuses the credentials of this server (SignatureDoesNotMatch): check archive.access_key"},
		{"access key", func(o *objectstore.Options) { o.AccessKey = "wrong" }, "refuses the credentials of this server (XAdminUserNotFound)"},
		{"bucket", func(o *objectstore.Options) { o.Storage = "s3://missing" }, "there is no bucket missing"},
		{"authority", func(o *objectstore.Options) { o.CAFile = "" }, "certificate signed by unknown authority"},
	} {
		o := server.options
		c.change(&o)
		_, err := openStore(t, o).Put(t.Context(), "a", strings.NewReader("a"))
		if !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secretKey) {
			t.Errorf("a wrong %s: %v, want %q", c.what, err, c.want)
		}
	}
}

// openFleet opens a fleet with a registry in a home and a driver in a directory.
func openFleet(t *testing.T, home, dir string, o objectstore.Options) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Open(t.Context(), fleet.Options{
		Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: dir}}, Archive: fleet.ArchiveOptions{Storage: o}, Keys: keyring.Options{File: filepath.Join(home, "key")},
	})
	must(t, err)
	t.Cleanup(func() { _ = f.Close(context.WithoutCancel(t.Context())) }) // a second time
	return f
}

func output(t *testing.T, sb atoll.Sandbox, script string) string {
	t.Helper()
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: script})
	must(t, err)
	return string(exit.Stdout) + string(exit.Stderr)
}

func checkState(t *testing.T, sb *fleet.Sandbox, want atoll.State) {
	t.Helper()
	st, err := sb.Status(t.Context())
	must(t, err)
	if st.State != want {
		t.Fatalf("the sandbox is %s, not %s", st.State, want)
	}
}

// TestArchiveOnAnotherHost: a sandbox that one server has archived comes back on another, whose driver never had it.
// On the way its storage is down, its object is exchanged, and its credentials are wrong: it stays what it was.
func TestArchiveOnAnotherHost(t *testing.T) {
	server := startServer(t)
	home := t.TempDir()
	wrong := server.options
	wrong.SecretKey = "wrong"
	refused := openFleet(t, home, filepath.Join(home, "one"), wrong)
	made, err := refused.Account(fleet.LocalCaller()).Create(t.Context(), atoll.Config{
		Spec: atoll.Spec{Name: "box", Limits: atoll.Resources{Disk: 200 << 20}}, Secrets: map[string]string{"TOKEN": "s3cret-value"}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent},
	})
	must(t, err)
	output(t, made, "echo hello >/a; mkdir /big; for i in 1 2 3 4; do head -c 10000000 /dev/urandom >/big/$i; done; sha256sum /big/* >/sum")
	must(t, made.Stop(t.Context()))
	if err := made.Archive(t.Context()); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "refuses the credentials") {
		t.Errorf("wrong credentials: %v", err)
	}
	checkState(t, made, atoll.Stopped)
	must(t, refused.Close(t.Context()))

	one := openFleet(t, home, filepath.Join(home, "one"), server.options)
	sb, err := one.Account(fleet.LocalCaller()).Open(t.Context(), "box")
	must(t, err)
	server.cutAfter(20<<20, true)
	if err := sb.Archive(t.Context()); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("a storage that goes down: %v", err)
	}
	checkState(t, sb, atoll.Stopped)
	server.up()
	must(t, sb.Archive(t.Context()))
	checkState(t, sb, atoll.Archived)
	must(t, one.Close(t.Context()))

	two := openFleet(t, home, filepath.Join(home, "two"), server.options)
	must(t, two.Reconcile(t.Context()))
	sb, err = two.Account(fleet.LocalCaller()).Open(t.Context(), "box")
	must(t, err)
	checkState(t, sb, atoll.Archived)
	server.cutAfter(20<<20, true)
	if err := sb.Start(t.Context()); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("a storage that goes down: %v", err)
	}
	checkState(t, sb, atoll.Archived)
	server.up()
	name := server.onlyObject(t)
	good, err := os.ReadFile(name)
	must(t, err)
	bad := bytes.Clone(good)
	bad[len(bad)/2] ^= 1
	must(t, os.WriteFile(name, bad, 0o644))
	if err := sb.Start(t.Context()); !errors.Is(err, atoll.ErrState) || !strings.Contains(err.Error(), "was changed, damaged or exchanged") {
		t.Errorf("an object that was changed: %v", err)
	}
	checkState(t, sb, atoll.Archived)
	must(t, os.WriteFile(name, good, 0o644))
	server.cutAfter(20<<20, false)
	if got := output(t, sb, "cat /a; sha256sum -c /sum; echo $TOKEN"); got != "hello\n/big/1: OK\n/big/2: OK\n/big/3: OK\n/big/4: OK\ns3cret-value\n" {
		t.Errorf("it came back with %q", got)
	}
	if n := server.up(); n != 1 {
		t.Errorf("the download was cut %d times, not once", n)
	}
	if left := server.files(t); len(left) != 0 {
		t.Errorf("objects are left: %v", left)
	}
}

// onlyObject returns the file of the only object in the bucket.
func (s *s3Server) onlyObject(t *testing.T) string {
	t.Helper()
	names := slices.DeleteFunc(s.files(t), func(name string) bool { return !strings.Contains(name, "/some/prefix/") }) // without parts
	if len(names) != 1 {
		t.Fatalf("files in the bucket: %v", names)
	}
	return names[0]
}

// TestCommand archives with the command, whose key is a secret of a provider.
func TestCommand(t *testing.T) {
	server := startServer(t)
	home := t.TempDir()
	must(t, os.WriteFile(filepath.Join(home, "s3-key"), []byte(secretKey+"\n"), 0o600))
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), testenv.Atoll(t), args...)
		cmd.Env = append(os.Environ(), "ATOLL_HOME="+home, "ATOLL_CONFIG="+filepath.Join(home, "none.yaml"), "ATOLL_DRIVER=virtual",
			"ATOLL_ARCHIVE_STORAGE="+server.options.Storage, "ATOLL_ARCHIVE_ENDPOINT="+server.options.Endpoint, "ATOLL_ARCHIVE_CA_FILE="+server.options.CAFile,
			"ATOLL_ARCHIVE_ACCESS_KEY="+accessKey, "ATOLL_ARCHIVE_SECRET_KEY=secret://files/s3-key", `ATOLL_SECRETS_PROVIDERS={"files":{"directory":"`+home+`","allow":["s3-key"]}}`)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("atoll %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("create", "--name", "box")
	run("exec", "box", "--", "sh", "-c", "echo hello >/a")
	run("stop", "box")
	run("archive", "box")
	server.onlyObject(t)
	if got := run("ls"); !strings.Contains(got, "archived") {
		t.Errorf("ls: %s", got)
	}
	if got := run("exec", "box", "--", "cat", "/a"); got != "hello\n" {
		t.Errorf("it has %q", got)
	}
	run("archive", "--orphans")
}
