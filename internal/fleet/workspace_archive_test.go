package fleet

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

// makeArchive returns a tar stream. The content of a file is in its Linkname.
func makeArchive(t testing.TB, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		body := ""
		if h.Typeflag == tar.TypeReg || h.Typeflag == 0 {
			body, h.Linkname = h.Linkname, ""
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
			if h.Typeflag == tar.TypeDir {
				h.Mode = 0o755
			}
		}
		if h.ModTime.IsZero() {
			h.ModTime = time.Unix(1234567890, 0)
		}
		h.Size = int64(len(body))
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, body)
		must(t, err)
	}
	must(t, w.Close())
	return &b
}

// listEntries returns the names in an export.
func listEntries(t testing.TB, f *Files, name string) (names []string) {
	t.Helper()
	rc, err := f.Export(t.Context(), name)
	must(t, err)
	for r := tar.NewReader(rc); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			must(t, rc.Close())
			return names
		}
		must(t, err)
		names = append(names, h.Name)
	}
}

func fileHeader(name, content string) tar.Header { return tar.Header{Name: name, Linkname: content} }

func dirHeader(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name} }

func linkHeader(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}

func hardLinkHeader(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}

// TestHostileImports imports archives that must be refused. Nothing may change, and the
// error must name the entry.
func TestHostileImports(t *testing.T) {
	f := openFleet(t, Options{})
	files, host := newTestFiles(t, f)
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(host, "out")))
	must(t, os.Mkdir(filepath.Join(host, "keep"), 0o755))
	must(t, os.WriteFile(filepath.Join(host, "keep", "x"), []byte("x"), 0o600))
	must(t, os.Symlink("keep", filepath.Join(host, "in")))
	must(t, os.WriteFile(filepath.Join(host, "old"), []byte("old"), 0o600))
	must(t, syscall.Mkfifo(filepath.Join(host, "pipe"), 0o600))
	for name, c := range map[string]struct {
		entries []tar.Header
		bad     string
		err     error
	}{
		"AbsoluteName":         {[]tar.Header{fileHeader("ok", "x"), fileHeader("/etc/passwd", "x")}, "/etc/passwd", atoll.ErrInvalid},
		"DotDotName":           {[]tar.Header{fileHeader("a/../../b", "x")}, "a/../../b", atoll.ErrInvalid},
		"DotDotAlone":          {[]tar.Header{dirHeader("..")}, "..", atoll.ErrInvalid},
		"DotDotInside":         {[]tar.Header{fileHeader("a/../b", "x")}, "a/../b", atoll.ErrInvalid},
		"ThroughPlantedLink":   {[]tar.Header{linkHeader("l", "/etc"), fileHeader("l/x", "x")}, "l/x", atoll.ErrInvalid},
		"ThroughPlantedInside": {[]tar.Header{dirHeader("d"), linkHeader("l", "d"), fileHeader("l/x", "x")}, "l/x", atoll.ErrInvalid},
		"ThroughLinkOfLink":    {[]tar.Header{linkHeader("a", ".."), linkHeader("b", "a"), dirHeader("b/c")}, "b/c", atoll.ErrInvalid},
		"DirThroughPlanted":    {[]tar.Header{linkHeader("l", "/"), dirHeader("l/x/y")}, "l/x/y", atoll.ErrInvalid},
		"ThroughOldLinkOut":    {[]tar.Header{fileHeader("out/x", "x")}, "out", atoll.ErrInvalid},
		"ThroughOldLinkInside": {[]tar.Header{fileHeader("in/x", "changed")}, "in", atoll.ErrInvalid},
		"HardLinkAbsolute":     {[]tar.Header{hardLinkHeader("h", "/secret")}, "h", atoll.ErrInvalid},
		"HardLinkDotDot":       {[]tar.Header{hardLinkHeader("h", "../secret")}, "h", atoll.ErrInvalid},
		"HardLinkThroughOld":   {[]tar.Header{hardLinkHeader("h", "out/secret")}, "h", atoll.ErrInvalid},
		"HardLinkToOld":        {[]tar.Header{hardLinkHeader("h", "old")}, "h", atoll.ErrInvalid},
		"HardLinkThroughNew":   {[]tar.Header{linkHeader("l", "/"), hardLinkHeader("h", "l/secret")}, "h", atoll.ErrInvalid},
		"HardLinkToDirectory":  {[]tar.Header{dirHeader("d"), hardLinkHeader("h", "d")}, "h", atoll.ErrInvalid},
		"HardLinkToNothing":    {[]tar.Header{hardLinkHeader("h", "nothing")}, "h", atoll.ErrInvalid},
		"HardLinkToRoot":       {[]tar.Header{hardLinkHeader("h", ".")}, "h", atoll.ErrInvalid},
		"CharDevice":           {[]tar.Header{{Typeflag: tar.TypeChar, Name: "null"}}, "null", atoll.ErrInvalid},
		"BlockDevice":          {[]tar.Header{{Typeflag: tar.TypeBlock, Name: "sda"}}, "sda", atoll.ErrInvalid},
		"UnknownKind":          {[]tar.Header{{Typeflag: 'Z', Name: "odd"}}, "odd", atoll.ErrInvalid},
		"FileOverDirectory":    {[]tar.Header{fileHeader("ok", "x"), fileHeader("keep", "x")}, "keep", atoll.ErrInvalid},
		"FileOverNewDirectory": {[]tar.Header{dirHeader("d"), fileHeader("d", "x")}, "d", atoll.ErrInvalid},
		"FileOverRoot":         {[]tar.Header{fileHeader(".", "x")}, ".", atoll.ErrInvalid},
		"BeneathFile":          {[]tar.Header{fileHeader("f", "x"), fileHeader("f/x", "x")}, "f/x", atoll.ErrInvalid},
		"BeneathOldFile":       {[]tar.Header{fileHeader("old/x", "x")}, "old", atoll.ErrInvalid},
		"BeneathOldPipe":       {[]tar.Header{fileHeader("pipe/x", "x")}, "pipe", atoll.ErrInvalid},
		"EmptyLink":            {[]tar.Header{linkHeader("l", "")}, "l", atoll.ErrInvalid},
		"TooDeep":              {[]tar.Header{fileHeader(strings.Repeat("d/", 300)+"x", "")}, "d/d/d/", atoll.ErrInvalid},
		"TooLongAName":         {[]tar.Header{fileHeader(strings.Repeat("x", 5000), "")}, "xxx", atoll.ErrInvalid},
		"TooLongAPart":         {[]tar.Header{fileHeader(strings.Repeat("x", 300), "")}, "xxx", atoll.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			before, beyond := dumpDir(t, host), dumpDir(t, outside)
			err := files.Import(t.Context(), "/", makeArchive(t, c.entries...))
			if !errors.Is(err, c.err) {
				t.Fatalf("Import = %v, want %v", err, c.err)
			}
			if !strings.Contains(err.Error(), `entry "`+c.bad) {
				t.Errorf("%v: does not name %q", err, c.bad)
			}
			if d := cmp.Diff(before, dumpDir(t, host)); d != "" {
				t.Errorf("something has changed:\n%s", d)
			}
			if d := cmp.Diff(beyond, dumpDir(t, outside)); d != "" {
				t.Errorf("something outside has changed:\n%s", d)
			}
			if left, err := os.ReadDir(filepath.Join(f.workspaces.Dir, workspace.IncomingDir)); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	good := makeArchive(t, fileHeader("a", strings.Repeat("a", 5000)), fileHeader("b", "b")).Bytes()
	for name, data := range map[string][]byte{
		"CutInHeader": good[:300], "CutInContent": good[:2000], "NotATar": bytes.Repeat([]byte("garbage "), 500), "BadChecksum": append([]byte{'x'}, good[1:]...),
	} {
		before := dumpDir(t, host)
		checkError(t, name, files.Import(t.Context(), "/new", bytes.NewReader(data)), atoll.ErrInvalid)
		if d := cmp.Diff(before, dumpDir(t, host)); d != "" {
			t.Errorf("%s: something has changed:\n%s", name, d)
		}
	}
}

func TestImportReplaces(t *testing.T) {
	f := openFleet(t, Options{})
	files, host := newTestFiles(t, f)
	victim := filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(victim, []byte("untouched"), 0o600))
	must(t, os.MkdirAll(filepath.Join(host, "dir", "old"), 0o700))
	must(t, os.Symlink(victim, filepath.Join(host, "link")))
	must(t, os.Symlink(filepath.Dir(victim), filepath.Join(host, "linked")))
	writeTestFile(t, files, "/file", "before")
	must(t, os.Link(filepath.Join(host, "file"), filepath.Join(host, "twin")))
	must(t, os.Mkdir(filepath.Join(host, "implied"), 0o700))
	rc, err := files.OpenFile(t.Context(), "/file")
	must(t, err)
	must(t, files.Import(t.Context(), "/", makeArchive(t,
		fileHeader("link", "not followed"), fileHeader("file", "first"), fileHeader("file", "after"),
		tar.Header{Typeflag: tar.TypeDir, Name: "dir/", Mode: 0o2751, ModTime: time.Unix(77, 0)}, fileHeader("dir/new", "n"),
		dirHeader("linked/"), fileHeader("linked/x", "x"), fileHeader("implied/sub/x", "x"),
		tar.Header{Typeflag: tar.TypeDir, Name: "locked/", Mode: 0o500, ModTime: time.Unix(79, 0)}, fileHeader("locked/in/x", "x"),
		tar.Header{Name: "suid", Mode: 0o6711, ModTime: time.Unix(80, 0)},
		hardLinkHeader("hard", "dir/new"), linkHeader("soft", "/anywhere"), tar.Header{Typeflag: tar.TypeFifo, Name: "pipe", Mode: 0o640},
		tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o111, ModTime: time.Unix(78, 0)},
	)))
	got := dumpDir(t, host)
	wanted := map[string]string{
		".": "drwx--x--x", "link": "-rw-r--r-- not followed", "linked": "drwxr-xr-x", "linked/x": "-rw-r--r-- x", "file": "-rw-r--r-- after",
		"twin": "-rw-r--r-- before", "dir": "drwxr-x--x", "dir/old": "drwx------", "dir/new": "-rw-r--r-- n", "implied": "drwx------",
		"implied/sub": "drwxr-xr-x", "implied/sub/x": "-rw-r--r-- x", "locked": "dr-x------", "locked/in": "drwxr-xr-x", "locked/in/x": "-rw-r--r-- x",
		"suid": "-rwx--x--x ", "hard": "-rw-r--r-- n", "soft": "Lrwxrwxrwx -> /anywhere", "pipe": "prw-r-----",
	}
	if d := cmp.Diff(wanted, got); d != "" {
		t.Error(d)
	}
	for name, sec := range map[string]int64{"dir": 77, ".": 78, "locked": 79, "suid": 80, "soft": 1234567890} {
		if info, err := os.Lstat(filepath.Join(host, name)); err != nil || info.ModTime().Unix() != sec {
			t.Errorf("%s: %v, %v, want %d", name, info.ModTime(), err, sec)
		}
	}
	if a, b := infoOf(os.Stat(filepath.Join(host, "hard"))), infoOf(os.Stat(filepath.Join(host, "dir/new"))); !os.SameFile(a, b) {
		t.Error("the hard link is lost")
	}
	if b, err := io.ReadAll(rc); err != nil || string(b) != "before" {
		t.Errorf("the open file: %q, %v", b, err)
	}
	must(t, rc.Close())
	if b, err := os.ReadFile(victim); err != nil || string(b) != "untouched" {
		t.Errorf("the victim: %q, %v", b, err)
	}
	must(t, files.Remove(t.Context(), "/locked")) // as any user
}

func infoOf(info fs.FileInfo, _ error) fs.FileInfo { return info }

func TestExportThenImportKeepsAllOfAWorkspace(t *testing.T) {
	f := openFleet(t, Options{})
	files, host := newTestFiles(t, f)
	long := strings.Repeat("long", 60)
	must(t, os.MkdirAll(filepath.Join(host, "src", "empty"), 0o750))
	must(t, os.MkdirAll(filepath.Join(host, "src", long, long), 0o755))
	must(t, os.WriteFile(filepath.Join(host, "src", long, long, "x"), []byte("deep"), 0o600))
	must(t, os.WriteFile(filepath.Join(host, "src", "big"), bytes.Repeat([]byte("big"), 400_000), 0o640))
	must(t, os.WriteFile(filepath.Join(host, "src", "odd \n\xff name"), nil, 0o400))
	must(t, os.Link(filepath.Join(host, "src", "big"), filepath.Join(host, "src", "empty", "hard")))
	must(t, os.Symlink("../big", filepath.Join(host, "src", "soft")))
	must(t, os.Symlink("nowhere", filepath.Join(host, "src", "dangling")))
	must(t, syscall.Mkfifo(filepath.Join(host, "src", "pipe"), 0o600))
	must(t, os.Chtimes(filepath.Join(host, "src", "big"), time.Time{}, time.Unix(1234567890, 123456789)))
	must(t, os.Chmod(filepath.Join(host, "src", "empty"), 0o711))
	must(t, os.Chtimes(filepath.Join(host, "src", "empty"), time.Time{}, time.Unix(99, 0)))
	rc, err := files.Export(t.Context(), "/src")
	must(t, err)
	must(t, files.Import(t.Context(), "/new/place", rc))
	must(t, rc.Close())
	describe := func(dir string) map[string]string {
		all := dumpDir(t, dir)
		for name := range all {
			info, err := os.Lstat(filepath.Join(dir, name))
			must(t, err)
			all[name] += info.ModTime().String()
		}
		return all
	}
	if d := cmp.Diff(describe(filepath.Join(host, "src")), describe(filepath.Join(host, "new/place/src"))); d != "" {
		t.Error(d)
	}
	if a, b := infoOf(os.Stat(filepath.Join(host, "new/place/src/big"))), infoOf(os.Stat(filepath.Join(host, "new/place/src/empty/hard"))); !os.SameFile(a, b) {
		t.Error("the hard link is lost")
	}
	must(t, os.RemoveAll(filepath.Join(host, "src", long)))
	must(t, os.Symlink("src/empty", filepath.Join(host, "way")))
	for name, wanted := range map[string][]string{
		"/src/big": {"big"}, "/src/empty": {"empty/", "empty/hard"}, "/way": {"way/", "way/hard"}, "/src/../src/empty/": {"empty/", "empty/hard"},
	} {
		if got := listEntries(t, files, name); !slices.Equal(got, wanted) {
			t.Errorf("export %s: %q, want %q", name, got, wanted)
		}
	}
	if got := listEntries(t, files, "/"); got[0] != "./" || !slices.Contains(got, "./src/empty/hard") {
		t.Errorf("export of all: %q", got)
	}
}

func TestExportEnds(t *testing.T) {
	f := openFleet(t, Options{})
	files, host := newTestFiles(t, f)
	must(t, os.WriteFile(filepath.Join(host, "big"), make([]byte, 8<<20), 0o644))
	rc, err := files.Export(t.Context(), "/") // closed before it is read
	must(t, err)
	must(t, rc.Close())
	must(t, rc.Close())

	ctx, cancel := context.WithCancel(t.Context())
	rc, err = files.Export(ctx, "/")
	must(t, err)
	_, err = io.ReadFull(rc, make([]byte, 1000))
	must(t, err)
	cancel()
	_, err = io.Copy(io.Discard, rc)
	checkError(t, "read of what was cancelled", err, context.Canceled)
	checkError(t, "its close", rc.Close(), context.Canceled)

	rc, err = files.Export(t.Context(), "/big")
	must(t, err)
	_, err = io.ReadFull(rc, make([]byte, 1000))
	must(t, err)
	must(t, os.Truncate(filepath.Join(host, "big"), 1<<20)) // the sandbox
	_, err = io.Copy(io.Discard, rc)
	checkError(t, "read of what was cut meanwhile", err, atoll.ErrUnavailable)
	checkError(t, "its close", rc.Close(), atoll.ErrUnavailable)
}

// newQuotaFiles returns the files of a workspace whose owner has a disk quota.
func newQuotaFiles(t *testing.T, disk int64) (*Fleet, *Account, *Files, string) {
	t.Helper()
	f := openFleet(t, Options{})
	o := atoll.Owner{App: "app", User: "u"}
	must(t, f.Account(LocalCaller()).SetQuota(t.Context(), o, atoll.Quota{Disk: disk, Workspaces: 2}))
	a := f.Account(Caller{Owner: o, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeRead}})
	must(t, errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w"})))
	return f, a, reopenFiles(t, a, "w"), f.workspaces.HostPath(workspace.Key{Owner: o, Name: "w"})
}

// zeros is an endless stream that counts the bytes that were read.
type zeros struct{ n int64 }

func (z *zeros) Read(b []byte) (int, error) {
	clear(b)
	z.n += int64(len(b))
	return len(b), nil
}

func TestDiskQuota(t *testing.T) {
	testenv.Logic(t)
	const disk = 1 << 20
	f, a, files, host := newQuotaFiles(t, disk)
	writeTestFile(t, files, "/old", strings.Repeat("o", disk/2))
	before := dumpDir(t, host)
	var z zeros
	checkError(t, "endless write", files.WriteFile(t.Context(), "/x", &z, 0o644), atoll.ErrQuota)
	if z.n > 2*disk {
		t.Errorf("%d bytes of an endless stream were read", z.n)
	}
	bomb := func(size int64) io.Reader { // an archive whose only entry has this size
		var b bytes.Buffer
		must(t, tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "bomb", Size: size, Mode: 0o644}))
		return io.MultiReader(&b, &z)
	}
	z.n = 0
	checkError(t, "2 GB in an archive", files.Import(t.Context(), "/", bomb(2<<30)), atoll.ErrQuota)
	if z.n > disk {
		t.Errorf("%d bytes were read of an entry whose size is over the limit", z.n)
	}
	small := makeArchive(t, fileHeader("b", strings.Repeat("x", disk/4))).Bytes()
	small = small[:len(small)-1024] // without its end
	checkError(t, "many entries that are too big together", files.Import(t.Context(), "/", io.MultiReader(
		bytes.NewReader(small), bytes.NewReader(small), bytes.NewReader(small), bytes.NewReader(small), bytes.NewReader(small))), atoll.ErrQuota)
	many := make([]tar.Header, workspace.MinEntries+1)
	for i := range many {
		many[i] = tar.Header{Name: fmt.Sprint("d/", i)}
	}
	checkError(t, "too many entries", files.Import(t.Context(), "/", makeArchive(t, many...)), atoll.ErrQuota)
	deep := make([]tar.Header, 200)
	for i := range deep {
		deep[i] = tar.Header{Name: fmt.Sprint(i, strings.Repeat("/d", 100), "/f")}
	}
	checkError(t, "too many directories that have no entry", files.Import(t.Context(), "/", makeArchive(t, deep...)), atoll.ErrQuota)
	sparse := makeArchive(t, tar.Header{Name: "s", PAXRecords: map[string]string{"GNU.sparse.x": "1"}})
	must(t, files.Import(t.Context(), "/s", sparse))
	must(t, files.Remove(t.Context(), "/s"))
	if d := cmp.Diff(before, dumpDir(t, host)); d != "" {
		t.Errorf("what was there before is not there as it was: %s", d)
	}
	writeTestFile(t, files, "/old", strings.Repeat("n", disk)) // replacing frees the old content
	must(t, files.Import(t.Context(), "/", makeArchive(t, fileHeader("old", strings.Repeat("i", disk)))))
	checkError(t, "import of one byte more", files.Import(t.Context(), "/", makeArchive(t, fileHeader("old", strings.Repeat("i", disk+1)))), atoll.ErrQuota)
	checkError(t, "import beside it", files.Import(t.Context(), "/", makeArchive(t, fileHeader("new", strings.Repeat("i", disk)))), atoll.ErrQuota)
	must(t, files.Remove(t.Context(), "/old"))
	writeTestFile(t, files, "/new", strings.Repeat("n", disk))
	f.workspaces.ForgetSize(files.key)
	if l, err := a.Allowance(t.Context()); err != nil || l.Used.Disk != disk || l.Used.Workspaces != 1 {
		t.Errorf("allowance: %+v, %v", l, err)
	}
	must(t, errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w2"})))
	checkError(t, "one workspace too many", errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w3"})), atoll.ErrQuota)
	checkError(t, "one too many by a mount", errorOf(a.Create(t.Context(), atoll.Config{Workspaces: []atoll.WorkspaceMount{{Workspace: "w3"}}})), atoll.ErrQuota)
	checkError(t, "write into another workspace", reopenFiles(t, a, "w2").WriteFile(t.Context(), "/x", strings.NewReader("x"), 0o644), atoll.ErrQuota)
}

// TestConcurrentWritersKeepQuota has many writers that are within the quota alone, but
// not together.
func TestConcurrentWritersKeepQuota(t *testing.T) {
	const disk = 1 << 20
	_, _, files, host := newQuotaFiles(t, disk)
	data := make([]byte, disk/3)
	_, _ = rand.Read(data)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			var err error
			if name := fmt.Sprint("f", i); i%2 == 0 {
				err = files.WriteFile(context.Background(), "/"+name, bytes.NewReader(data), 0o644)
			} else {
				err = files.Import(context.Background(), "/", makeArchive(t, fileHeader(name, string(data))))
			}
			if err != nil && !errors.Is(err, atoll.ErrQuota) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	root, err := os.OpenRoot(host)
	must(t, err)
	defer root.Close()
	if s := workspace.Measure(t.Context(), root); s.Bytes > disk || s.Bytes == 0 {
		t.Errorf("%d bytes of %d", s.Bytes, disk)
	}
}

// TestSandboxWithinQuota: a sandbox can't write more to a workspace than its owner's
// quota allows.
func TestSandboxWithinQuota(t *testing.T) {
	const disk = 4 << 20
	_, a, files, host := newQuotaFiles(t, disk)
	writeTestFile(t, files, "/old", strings.Repeat("o", 1<<20))
	sb, err := a.Create(t.Context(), atoll.Config{
		Spec: atoll.Spec{Limits: atoll.Resources{Disk: 1 << 20}}, Workspaces: []atoll.WorkspaceMount{{Workspace: "w"}},
	})
	must(t, err)
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "head -c 1500000 /dev/zero >/workspace/a && echo first; head -c 1500000 /dev/zero >/workspace/b && echo second"})
	if err != nil || string(exit.Stdout) != "first\n" {
		t.Errorf("%q, %v: want the second refused", exit.Stdout, err)
	}
	root, err := os.OpenRoot(host)
	must(t, err)
	defer root.Close()
	if s := workspace.Measure(t.Context(), root); s.Bytes > 3<<20 {
		t.Errorf("the workspace holds %d bytes of the %d that were left for it", s.Bytes, 3<<20)
	}
}

// FuzzImport imports any archive. Nothing outside of the directory may change, and
// nothing at all if the archive is refused.
func FuzzImport(f *testing.F) {
	seed := func(entries ...tar.Header) { f.Add(makeArchive(f, entries...).Bytes()) }
	seed(fileHeader("a", "x"), dirHeader("d/"), fileHeader("d/f", "y"), linkHeader("l", "d"), hardLinkHeader("h", "a"))
	seed(linkHeader("l", "../../.."), fileHeader("l/x", "x"))
	seed(fileHeader("../x", "x"))
	seed(tar.Header{Typeflag: tar.TypeFifo, Name: "p"}, fileHeader("p", "x"), dirHeader("p"), dirHeader("old"))
	seed(fileHeader("old", "new"), fileHeader("dir", "over a directory"))
	seed(dirHeader("./"), tar.Header{Typeflag: tar.TypeDir, Name: "dir", Mode: 0o7000})
	fl := openFleet(f, Options{})
	a := fl.Account(LocalCaller())
	must(f, errorOf(a.CreateWorkspace(f.Context(), atoll.Workspace{Name: "w"})))
	must(f, errorOf(a.CreateWorkspace(f.Context(), atoll.Workspace{Name: "beside"})))
	files, beside := reopenFiles(f, a, "w"), fl.workspaces.HostPath(workspace.Key{Owner: atoll.Local, Name: "beside"})
	host := fl.workspaces.HostPath(workspace.Key{Owner: atoll.Local, Name: "w"})
	must(f, os.WriteFile(filepath.Join(beside, "secret"), []byte("secret"), 0o600))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := files.ReadDir(t.Context(), "/")
		must(t, err)
		for _, info := range list {
			must(t, files.Remove(t.Context(), "/"+info.Name()))
		}
		must(t, files.Mkdir(t.Context(), "/in/dir/x", 0o755))
		writeTestFile(t, files, "/in/old", "old")
		writeTestFile(t, files, "/top", "top")
		must(t, os.Symlink(beside, filepath.Join(host, "in", "out")))
		before, outside := dumpDir(t, host), dumpDir(t, beside)
		err = files.Import(t.Context(), "/in", bytes.NewReader(data))
		if d := cmp.Diff(outside, dumpDir(t, beside)); d != "" {
			t.Fatalf("outside of the workspace: %s", d)
		}
		must(t, os.Chmod(filepath.Join(host, "in"), 0o755)) // an archive may say what it likes
		after := dumpDir(t, host)
		if err != nil {
			if d := cmp.Diff(before, after); d != "" {
				t.Fatalf("refused with %v, and yet: %s", err, d)
			}
		}
		if after["top"] != before["top"] || after["."] != before["."] {
			t.Fatal("outside of the directory")
		}
		for name, what := range after {
			if strings.ContainsAny(strings.Fields(what)[0], "stDS") {
				t.Fatalf("%s is %s", name, what)
			}
		}
		rc, err := files.Export(t.Context(), "/in")
		must(t, err)
		_, err = io.Copy(io.Discard, rc)
		must(t, errors.Join(err, rc.Close()))
	})
}

func BenchmarkWriteFile4KiB(b *testing.B) {
	files, _ := newTestFiles(b, openFleet(b, Options{}))
	data := bytes.Repeat([]byte("x"), 4<<10)
	for b.Loop() {
		must(b, files.WriteFile(b.Context(), "/f", bytes.NewReader(data), 0o644))
	}
}

func BenchmarkOpenFile4KiB(b *testing.B) {
	f := openFleet(b, Options{})
	files, _ := newTestFiles(b, f)
	writeTestFile(b, files, "/f", strings.Repeat("x", 4<<10))
	a := f.Account(LocalCaller())
	for b.Loop() { // as a request does
		files, err := a.Files(b.Context(), "w")
		must(b, err)
		rc, err := files.OpenFile(b.Context(), "/f")
		must(b, err)
		_, err = io.Copy(io.Discard, rc)
		must(b, errors.Join(err, rc.Close(), files.Close()))
	}
}

func BenchmarkImportExport1000Files(b *testing.B) {
	f := openFleet(b, Options{})
	files, _ := newTestFiles(b, f)
	entries := make([]tar.Header, 1000)
	for i := range entries {
		entries[i] = fileHeader(fmt.Sprintf("d%d/e/f%d", i%30, i), strings.Repeat("x", 2000))
	}
	data := makeArchive(b, entries...).Bytes()
	b.Run("Import", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			must(b, files.Import(b.Context(), fmt.Sprint("/", n), bytes.NewReader(data)))
		}
	})
	for n := range 1000 {
		must(b, ignoreError(files.Remove(b.Context(), fmt.Sprint("/", n)), atoll.ErrNotFound))
	}
	b.Run("Replace", func(b *testing.B) {
		for b.Loop() {
			must(b, files.Import(b.Context(), "/", bytes.NewReader(data)))
		}
	})
	b.Run("Export", func(b *testing.B) {
		for b.Loop() {
			rc, err := files.Export(b.Context(), "/")
			must(b, err)
			_, err = io.Copy(io.Discard, rc)
			must(b, errors.Join(err, rc.Close()))
		}
	})
	b.Run("Size", func(b *testing.B) {
		for b.Loop() {
			f.workspaces.ForgetSize(files.key)
			must(b, errorOf(f.workspaces.Measure(b.Context(), files.key)))
		}
	})
}
