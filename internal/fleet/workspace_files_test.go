package fleet

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/workspace"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkError fails the test unless an error is of a kind; nil means no error.
func checkError(t testing.TB, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) || kind == nil && err != nil {
		t.Errorf("%s: %v, want %v", what, err, kind)
	}
}

// newTestFiles returns the files of a new workspace "w" of atoll.Local and its
// directory on the host.
func newTestFiles(t testing.TB, f *Fleet) (*Files, string) {
	t.Helper()
	a := f.Account(LocalCaller())
	_, err := a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w"})
	must(t, err)
	return reopenFiles(t, a, "w"), f.workspaces.HostPath(workspace.Key{Owner: atoll.Local, Name: "w"})
}

func reopenFiles(t testing.TB, a *Account, name string) *Files {
	t.Helper()
	files, err := a.Files(t.Context(), name)
	must(t, err)
	t.Cleanup(func() { must(t, files.Close()) })
	return files
}

func writeTestFile(t testing.TB, f *Files, name, content string) {
	t.Helper()
	must(t, f.WriteFile(t.Context(), name, strings.NewReader(content), 0o644))
}

func readTestFile(t testing.TB, f *Files, name string) string {
	t.Helper()
	rc, err := f.OpenFile(t.Context(), name)
	must(t, err)
	b, err := io.ReadAll(rc)
	must(t, errors.Join(err, rc.Close()))
	return string(b)
}

// dumpDir describes everything in a directory of the host.
func dumpDir(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		all[rel] = info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			all[rel] += " " + string(b)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			all[rel] += " -> " + target
		}
		return nil
	}))
	return all
}

func TestFilesWithoutSandbox(t *testing.T) {
	f := openFleet(t, Options{})
	files, host := newTestFiles(t, f)
	ctx := t.Context()
	checkError(t, "write without a directory", files.WriteFile(ctx, "/a/b/c", strings.NewReader("x"), 0o640), atoll.ErrNotFound)
	must(t, files.Mkdir(ctx, "/a/b", 0o711))
	must(t, files.Mkdir(ctx, "/a/b", 0o700)) // it is there
	must(t, files.WriteFile(ctx, "/a/b/c", strings.NewReader("one"), 0o4755))
	must(t, files.WriteFile(ctx, "/a/b/c", strings.NewReader("two"), 0o4755))
	if got := readTestFile(t, files, "/a/b/../b/c"); got != "two" {
		t.Errorf("read %q", got)
	}
	info, err := files.StatFile(ctx, "/a/b/c")
	if err != nil || info.Mode() != 0o755 || info.Size() != 3 {
		t.Errorf("stat: %v, %v: want -rwxr-xr-x without the set-uid bit", info, err)
	}
	if info, err := files.StatFile(ctx, "/a/b"); err != nil || info.Mode() != fs.ModeDir|0o711 {
		t.Errorf("stat of the directory: %v, %v", info, err)
	}
	writeTestFile(t, files, "/z", "")
	list, err := files.ReadDir(ctx, "/")
	if err != nil || len(list) != 2 || list[0].Name() != "a" || list[1].Name() != "z" {
		t.Errorf("list: %v, %v", list, err)
	}
	rc, err := files.OpenFile(ctx, "/a/b/c")
	must(t, err)
	if s, ok := rc.(io.Seeker); !ok {
		t.Error("what is opened can't seek, so no range of it can be served")
	} else if _, err := s.Seek(1, io.SeekStart); err != nil {
		t.Error(err)
	}
	must(t, rc.Close())
	must(t, files.Remove(ctx, "/a"))
	checkError(t, "remove twice", files.Remove(ctx, "/a"), atoll.ErrNotFound)
	if got := dumpDir(t, host); len(got) != 2 {
		t.Errorf("there is more than /z: %v", got)
	}
	for name, c := range map[string]struct {
		err  error
		kind error
	}{
		"read missing":         {errorOf(files.OpenFile(ctx, "/none")), atoll.ErrNotFound},
		"read directory":       {errorOf(files.OpenFile(ctx, "/")), atoll.ErrInvalid},
		"read relative":        {errorOf(files.OpenFile(ctx, "z")), atoll.ErrInvalid},
		"read NUL":             {errorOf(files.OpenFile(ctx, "/z\x00")), atoll.ErrInvalid},
		"read beneath file":    {errorOf(files.OpenFile(ctx, "/z/z")), atoll.ErrInvalid},
		"read endless name":    {errorOf(files.OpenFile(ctx, "/"+strings.Repeat("x/", 5000))), atoll.ErrInvalid},
		"read long name":       {errorOf(files.OpenFile(ctx, "/"+strings.Repeat("x", 300))), atoll.ErrInvalid},
		"list file":            {errorOf(files.ReadDir(ctx, "/z")), atoll.ErrInvalid},
		"list missing":         {errorOf(files.ReadDir(ctx, "/none")), atoll.ErrNotFound},
		"mkdir over file":      {files.Mkdir(ctx, "/z", 0o755), atoll.ErrExists},
		"mkdir beneath file":   {files.Mkdir(ctx, "/z/y", 0o755), atoll.ErrInvalid},
		"write over directory": {files.WriteFile(ctx, "/", strings.NewReader("x"), 0o644), atoll.ErrInvalid},
		"remove all":           {files.Remove(ctx, "/x/.."), atoll.ErrInvalid},
		"export missing":       {errorOf(files.Export(ctx, "/none")), atoll.ErrNotFound},
	} {
		checkError(t, name, c.err, c.kind)
		var e *atoll.Error
		if !errors.As(c.err, &e) || e.ID != "w" || strings.Contains(c.err.Error(), f.opts.Home) {
			t.Errorf("%s: %v: want an *atoll.Error of w that does not name the host's directories", name, c.err)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

// TestHostileFiles checks files that a sandbox can leave in a workspace to make the
// fleet access the host.
func TestHostileFiles(t *testing.T) {
	f := openFleet(t, Options{})
	files, host := newTestFiles(t, f)
	ctx := t.Context()
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	_, err := f.Account(LocalCaller()).CreateWorkspace(ctx, atoll.Workspace{Name: "other"})
	must(t, err)
	other := reopenFiles(t, f.Account(LocalCaller()), "other")
	writeTestFile(t, other, "/secret", "secret")
	up := strings.Repeat("../", 20)
	for name, target := range map[string]string{
		"absolute": outside, "relative": up + outside[1:], "neighbour": "../other", "file": filepath.Join(outside, "secret"),
		"root": "/", "proc": "/proc/self/root", "dangling": filepath.Join(outside, "new"), "dot": "..",
	} {
		must(t, os.Symlink(target, filepath.Join(host, name)))
	}
	before, neighbour := dumpDir(t, outside), dumpDir(t, f.workspaces.HostPath(workspace.Key{Owner: atoll.Local, Name: "other"}))
	for _, name := range []string{
		"/absolute/secret", "/relative/secret", "/neighbour/secret", "/file", "/root" + outside + "/secret",
		"/proc" + outside + "/secret", "/dot/other/secret", "/absolute/../absolute/secret",
	} {
		if rc, err := files.OpenFile(ctx, name); err == nil {
			t.Errorf("read %s: it is possible", name)
			must(t, rc.Close())
		}
	}
	for _, name := range []string{"absolute", "relative", "neighbour", "dot", "root"} {
		if _, err := files.ReadDir(ctx, "/"+name); err == nil {
			t.Errorf("list %s: it is possible", name)
		}
		if files.WriteFile(ctx, "/"+name+"/planted", strings.NewReader("x"), 0o644) == nil {
			t.Errorf("write beneath %s: it is possible", name)
		}
		if files.Mkdir(ctx, "/"+name+"/planted/x", 0o755) == nil {
			t.Errorf("mkdir beneath %s: it is possible", name)
		}
		if files.Import(ctx, "/"+name, makeArchive(t, tar.Header{Name: "planted"})) == nil {
			t.Errorf("import into %s: it is possible", name)
		}
		if rc, err := files.Export(ctx, "/"+name); err == nil {
			t.Errorf("export of %s: it is possible", name)
			_ = rc.Close()
		}
		if files.Remove(ctx, "/"+name+"/secret") == nil {
			t.Errorf("remove beneath %s: it is possible", name)
		}
		checkError(t, "stat of the link "+name, errorOf(files.StatFile(ctx, "/"+name)), nil)
	}
	writeTestFile(t, files, "/dangling", "here") // replaces the link itself
	writeTestFile(t, files, "/file", "here")
	must(t, files.Remove(ctx, "/absolute"))
	if d := cmp.Diff(before, dumpDir(t, outside)); d != "" {
		t.Errorf("the host has changed: %s", d)
	}
	if d := cmp.Diff(neighbour, dumpDir(t, f.workspaces.HostPath(workspace.Key{Owner: atoll.Local, Name: "other"}))); d != "" {
		t.Errorf("the neighbour has changed: %s", d)
	}
	must(t, os.MkdirAll(filepath.Join(host, "real", "dir"), 0o755))
	must(t, os.Symlink("real/dir", filepath.Join(host, "inner")))
	writeTestFile(t, files, "/inner/x", "inside")
	if got := readTestFile(t, files, "/real/dir/x"); got != "inside" {
		t.Errorf("a link that stays inside: %q", got)
	}
}

// TestHostilePipes reads files whose opening blocks until another process opens them.
func TestHostilePipes(t *testing.T) {
	f := openFleet(t, Options{})
	files, host := newTestFiles(t, f)
	ctx := t.Context()
	must(t, syscall.Mkfifo(filepath.Join(host, "pipe"), 0o666))
	short := filepath.Join(t.TempDir(), "s")
	must(t, os.Symlink(host, short))
	l, err := net.Listen("unix", filepath.Join(short, "socket"))
	must(t, err)
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, name := range []string{"/pipe", "/socket"} {
			checkError(t, "read "+name, errorOf(files.OpenFile(ctx, name)), atoll.ErrInvalid)
			checkError(t, "list "+name, errorOf(files.ReadDir(ctx, name)), atoll.ErrInvalid)
			checkError(t, "beneath "+name, errorOf(files.OpenFile(ctx, name+"/x")), atoll.ErrInvalid)
			checkError(t, "import into "+name, files.Import(ctx, name, makeArchive(t, tar.Header{Name: "x"})), atoll.ErrInvalid)
			checkError(t, "export "+name, errorOf(files.Export(ctx, name)), atoll.ErrInvalid)
			if root, err := workspace.OpenDir(files.root, name[1:]); err == nil {
				t.Errorf("%s is taken for a directory", name)
				must(t, root.Close())
			}
		}
		if names := listEntries(t, files, "/"); !slices.Equal(names, []string{"./", "./pipe"}) {
			t.Errorf("exported %v: want the pipe, as a pipe, and no socket", names)
		}
		f.workspaces.ForgetSize(files.key)
		if held, err := f.workspaces.Measure(ctx, files.key); err != nil || held.Files != 2 || !held.Complete {
			t.Errorf("size: %+v, %v", held, err)
		}
		writeTestFile(t, files, "/pipe", "a file now")
		must(t, files.Remove(ctx, "/socket"))
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("something waits for the other end of a pipe")
	}
}

// TestRacingLinks repeatedly replaces a directory by a link out of the workspace while
// files are written, imported and removed through it.
func TestRacingLinks(t *testing.T) {
	testenv.Logic(t)
	f := openFleet(t, Options{})
	files, host := newTestFiles(t, f)
	outside := t.TempDir()
	must(t, os.Mkdir(filepath.Join(host, "real"), 0o755))
	must(t, os.Symlink(outside, filepath.Join(host, "evil")))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // the sandbox
		d, x := filepath.Join(host, "d"), filepath.Join(host, "x")
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, kind := range []string{"real", "evil"} {
				if kind == "real" {
					_ = os.Mkdir(x, 0o755)
				} else {
					_ = os.Symlink(outside, x)
				}
				_ = os.RemoveAll(d)
				_ = os.Rename(x, d)
				runtime.Gosched()
			}
		}
	})
	for i := range 300 {
		_ = files.WriteFile(t.Context(), "/d/f", strings.NewReader("x"), 0o644)
		_ = files.Mkdir(t.Context(), "/d/sub/sub", 0o755)
		_ = files.Import(t.Context(), "/d", makeArchive(t, tar.Header{Name: fmt.Sprint("i", i)}, tar.Header{Typeflag: tar.TypeDir, Name: "sub/dir/"}))
		_ = files.Remove(t.Context(), "/d/sub")
		if rc, err := files.Export(t.Context(), "/d"); err == nil {
			_, _ = io.Copy(io.Discard, rc)
			_ = rc.Close()
		}
	}
	close(stop)
	wg.Wait()
	if got := dumpDir(t, outside); len(got) != 1 {
		t.Errorf("outside of the workspace: %v", got)
	}
}

func TestAbandonedWriteChangesNothing(t *testing.T) {
	f := openFleet(t, Options{})
	files, host := newTestFiles(t, f)
	writeTestFile(t, files, "/a", "before")
	before := dumpDir(t, host)
	boom := errors.New("line is dead")
	err := files.WriteFile(t.Context(), "/a", io.MultiReader(strings.NewReader("half"), &failingReader{boom}), 0o644)
	checkError(t, "write", err, boom)
	checkError(t, "import", files.Import(t.Context(), "/", io.MultiReader(bytes.NewReader(makeArchive(t, tar.Header{Name: "b"}).Bytes()[:512]), &failingReader{boom})), boom)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	r, w := io.Pipe()
	checkError(t, "write that hangs", files.WriteFile(ctx, "/a", r, 0o644), atoll.ErrTimeout)
	must(t, w.Close())
	if d := cmp.Diff(before, dumpDir(t, host)); d != "" || before["a"] != "-rw-r--r-- before" {
		t.Error(d)
	}
	for _, dir := range []string{workspace.IncomingDir, workspace.RemovedDir} {
		if left, err := os.ReadDir(filepath.Join(f.workspaces.Dir, dir)); err != nil || len(left) != 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

type failingReader struct{ err error }

func (f *failingReader) Read([]byte) (int, error) { return 0, f.err }

// TestDeepTrees counts, exports and removes directories that are deeper than the
// longest path.
func TestDeepTrees(t *testing.T) {
	testenv.Logic(t)
	f := openFleet(t, Options{})
	files, host := newTestFiles(t, f)
	const depth = 3000
	d, err := os.OpenRoot(host)
	must(t, err)
	for i := range depth {
		must(t, d.Mkdir("deeper-and-deeper", 0o700))
		if i%2 == 1 {
			must(t, d.WriteFile("f", []byte("x"), 0o400))
		}
		next, err := d.OpenRoot("deeper-and-deeper")
		must(t, errors.Join(err, d.Close()))
		d = next
	}
	must(t, d.Close())
	f.workspaces.ForgetSize(files.key)
	held, err := f.workspaces.Measure(t.Context(), files.key)
	if err != nil || held.Complete || !held.TooDeep {
		t.Errorf("size: %+v, %v: want it marked as incomplete", held, err)
	}
	rc, err := files.Export(t.Context(), "/")
	must(t, err)
	_, err = io.Copy(io.Discard, rc)
	checkError(t, "export", err, atoll.ErrInvalid)
	checkError(t, "close of the export", rc.Close(), atoll.ErrInvalid)
	must(t, files.Remove(t.Context(), "/deeper-and-deeper"))
	if got := dumpDir(t, f.workspaces.Dir); len(got) != 6 {
		t.Errorf("something is left: %v", got)
	}
}

func TestOwnersAreSeparate(t *testing.T) {
	f := openFleet(t, Options{})
	mallory := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "mallory"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	alice := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "alice"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	_, err := alice.CreateWorkspace(t.Context(), atoll.Workspace{Name: "mine"})
	must(t, err)
	writeTestFile(t, reopenFiles(t, alice, "mine"), "/secret", "secret")
	missing := errorOf(mallory.Workspace(t.Context(), "nothing"))
	for _, name := range []string{"mine", "../alice/mine", "../../app/alice/mine", "/mine", "mine/", ".", "..", "", "mine\x00", "MINE", strings.Repeat("x", 1000), "%2e%2e/alice/mine", "' or 1=1 --"} {
		for what, err := range map[string]error{
			"workspace": errorOf(mallory.Workspace(t.Context(), name)),
			"remove":    mallory.RemoveWorkspace(t.Context(), name),
			"files":     errorOf(mallory.Files(t.Context(), name)),
		} {
			var e, m *atoll.Error
			if !errors.Is(err, atoll.ErrNotFound) || !errors.As(err, &e) || !errors.As(missing, &m) || e.Err.Error() != m.Err.Error() {
				t.Errorf("%s %q: %v, want what there is for one that is not there: %v", what, name, err, missing)
			}
		}
		if name == "mine" {
			continue
		}
		checkError(t, "create "+name, errorOf(mallory.CreateWorkspace(t.Context(), atoll.Workspace{Name: name})), atoll.ErrInvalid)
		checkError(t, "mount "+name, errorOf(mallory.Create(t.Context(), atoll.Config{Workspaces: []atoll.WorkspaceMount{{Workspace: name}}})), atoll.ErrInvalid)
	}
	if list, err := mallory.Workspaces(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("mallory sees %v, %v", list, err)
	}
	for _, c := range []Caller{{Owner: mallory.caller.Owner}, {Owner: alice.caller.Owner, Scopes: []atoll.Scope{atoll.ScopeRead}}} {
		a := f.Account(c)
		checkError(t, "create without the scope", errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "x"})), atoll.ErrDenied)
		checkError(t, "remove without the scope", a.RemoveWorkspace(t.Context(), "mine"), atoll.ErrDenied)
		checkError(t, "prune without the scope", errorOf(a.Prune(t.Context(), PruneOptions{})), atoll.ErrDenied)
		checkError(t, "prune of all without the scope", errorOf(a.Prune(t.Context(), PruneOptions{AllOwners: true, DryRun: true})), atoll.ErrDenied)
	}
	files := reopenFiles(t, f.Account(Caller{Owner: alice.caller.Owner, Scopes: []atoll.Scope{atoll.ScopeRead}}), "mine")
	if got := readTestFile(t, files, "/secret"); got != "secret" {
		t.Errorf("read with the scope: %q", got)
	}
	for what, err := range map[string]error{
		"write":  files.WriteFile(t.Context(), "/x", strings.NewReader("x"), 0o644),
		"mkdir":  files.Mkdir(t.Context(), "/x", 0o755),
		"remove": files.Remove(t.Context(), "/secret"),
		"import": files.Import(t.Context(), "/", makeArchive(t)),
	} {
		checkError(t, what+" without the scope", err, atoll.ErrDenied)
	}
}
