package guest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// someone is who commands run as in these tests.
const someone = 4711

// switching returns a link to a guest that may become other users, and a
// directory that others can enter.
func switching(t testing.TB) (*rig, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "namespace", "only root can become other users")
	}
	l, dir := linked(t, &Server{Config: Config{UID: someone, GID: someone, CanSwitchUser: true}}), t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chmod(dir, 0o755))
	return l, dir
}

func TestWhatIsMadeIsTheUsers(t *testing.T) {
	l, dir := switching(t)
	ctx := t.Context()
	must(t, l.Mkdir(ctx, dir+"/a/b", 0o750))
	must(t, l.WriteFile(ctx, dir+"/a/f", strings.NewReader("x"), 0o640))
	entries := []tar.Header{
		entry("t/f", "x"), linkTo("t/l", "f"), hardTo("t/h", "t/f"),
		{Typeflag: tar.TypeDir, Name: "t/d", Mode: 0o1777},
		{Typeflag: tar.TypeFifo, Name: "t/p"},
		{Typeflag: tar.TypeReg, Name: "t/suid", Mode: 0o6755, Uid: 0},
	}
	must(t, l.Import(ctx, dir+"/a/in", archive(t, entries...)))
	n := 0
	must(t, filepath.WalkDir(dir+"/a", func(name string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(name, &st)
		}
		if n++; st.Uid != someone || st.Gid != someone || st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
			t.Errorf("%s is of %d:%d, mode %o", name, st.Uid, st.Gid, st.Mode)
		}
		return err
	}))
	if n != 11 {
		t.Errorf("%d files", n)
	}
}

func TestTopOfAnArchiveKeepsItsOwnersMode(t *testing.T) {
	l, dir := switching(t)
	must(t, os.Chmod(dir, 0o777|os.ModeSticky))
	top := tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700}
	must(t, l.Import(t.Context(), dir, archive(t, top, entry("f", "x"))))
	if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("root's directory is now %v, %v", info.Mode(), err)
	}
	must(t, l.Import(t.Context(), dir+"/new", archive(t, top)))
	if info, err := os.Stat(dir + "/new"); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("a new directory is %v, %v", info.Mode(), err)
	}
}

// TestPlantedLinksLendNoRights goes through links that a program has planted to
// what only root can reach: the guest, which is root, must not do for it what
// it can't do itself.
func TestPlantedLinksLendNoRights(t *testing.T) {
	l, dir := switching(t)
	ctx := t.Context()
	for _, d := range []string{"/mine", "/roots", "/roots/secret"} {
		must(t, os.Mkdir(dir+d, 0o755))
	}
	must(t, os.Chmod(dir+"/roots/secret", 0o700))
	must(t, os.WriteFile(dir+"/roots/shadow", []byte("secret"), 0o600))
	must(t, os.Chown(dir+"/mine", someone, someone))
	link := func(name, target string, uid int) {
		must(t, os.Symlink(target, dir+"/mine/"+name))
		must(t, os.Lchown(dir+"/mine/"+name, uid, uid))
	}
	link("planted", "../roots", someone)
	link("shadow", "../roots/shadow", someone)
	link("chain", "planted/secret", 0)
	link("honest", "../roots", 0)
	try := func(at string) map[string]error {
		rc, rerr := l.OpenFile(ctx, dir+at+"/shadow")
		if rerr == nil {
			rerr = rc.Close()
		}
		xc, xerr := l.Export(ctx, dir+at+"/secret")
		if xerr == nil {
			xerr = xc.Close()
		}
		return map[string]error{
			"OpenFile": rerr, "Export": xerr,
			"WriteFile": l.WriteFile(ctx, dir+at+"/new", strings.NewReader("x"), 0o600),
			"Mkdir":     l.Mkdir(ctx, dir+at+"/newdir", 0o755),
			"Import":    l.Import(ctx, dir+at, archive(t, entry("x", "x"), hardTo("y", "x"), entry("z", "x"))),
			"ImportDir": l.Import(ctx, dir+at+"/under", archive(t, entry("x", "x"))),
			"Watch":     watchOnce(l, t, dir+at+"/secret"),
			"Remove":    l.Remove(ctx, dir+at+"/shadow"),
		}
	}
	for what, err := range try("/mine/planted") {
		want(t, err, atoll.ErrDenied, what+" through a planted link")
	}
	rc, err := l.OpenFile(ctx, dir+"/mine/shadow")
	if err == nil {
		_ = rc.Close() // it should not be there
	}
	want(t, err, atoll.ErrDenied, "a planted link to a file")
	_, err = l.ReadDir(ctx, dir+"/mine/chain")
	want(t, err, atoll.ErrDenied, "root's link over a planted one")
	list, err := os.ReadDir(dir + "/roots")
	must(t, err)
	if len(list) != 2 {
		t.Errorf("there is now %v", list)
	}
	for what, err := range try("/mine/honest") { // and where root has made the link, all of it works
		if err != nil {
			t.Errorf("%s through root's link: %v", what, err)
		}
	}
}

func watchOnce(l *rig, t *testing.T, dir string) error {
	err := l.Watch(t.Context(), dir, func(atoll.FileEvent) error { return io.EOF })
	if err == io.EOF { //nolint:errorlint // it is as it was
		return nil
	}
	return err
}

// TestRightsComeBack goes through planted links from many goroutines at once:
// no thread keeps the lesser rights, and none works with another's.
func TestRightsComeBack(t *testing.T) {
	l, dir := switching(t)
	ctx := t.Context()
	must(t, os.Mkdir(dir+"/mine", 0o755))
	must(t, os.Chown(dir+"/mine", someone, someone))
	must(t, os.WriteFile(dir+"/shadow", []byte("secret"), 0o600))
	must(t, os.Symlink("../shadow", dir+"/mine/l"))
	must(t, os.Lchown(dir+"/mine/l", someone, someone))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				rc, err := l.OpenFile(ctx, dir+"/mine/l")
				if err == nil {
					_ = rc.Close() // it should not be there
				}
				want(t, err, atoll.ErrDenied, "through the planted link")
				rc, err = l.OpenFile(ctx, dir+"/shadow")
				if err == nil {
					err = rc.Close()
				}
				want(t, err, nil, "straight")
			}
		})
	}
	wg.Wait()
}

// TestRightsWithoutFileUsers lends rights as it is done on kernels that have no
// users of their own for files.
func TestRightsWithoutFileUsers(t *testing.T) {
	_, dir := switching(t)
	must(t, os.Chmod(dir, 0o777))
	must(t, os.WriteFile(dir+"/shadow", nil, 0o600))
	owner := func(name string) int {
		fd, err := unix.Open(dir+"/"+name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
		must(t, err)
		defer unix.Close(fd)
		var st unix.Stat_t
		must(t, unix.Fstat(fd, &st))
		return int(st.Uid)
	}
	read := func() error {
		fd, err := unix.Open(dir+"/shadow", unix.O_RDONLY, 0)
		if err == nil {
			_ = unix.Close(fd) // it was only tried
		}
		return err
	}
	done := make(chan struct{})
	go func() { // on a thread that is not used again if something fails
		defer close(done)
		runtime.LockOSThread()
		if err := setEffective(someone, someone); err != nil {
			t.Error(err)
			return
		}
		if uid := owner("lent"); uid != someone {
			t.Errorf("a file is of %d", uid)
		}
		want(t, read(), unix.EACCES, "reading root's file")
		if err := setEffective(0, 0); err != nil {
			t.Error(err)
			return
		}
		if uid := owner("back"); uid != 0 {
			t.Errorf("afterwards a file is of %d", uid)
		}
		want(t, read(), nil, "reading root's file afterwards")
		runtime.UnlockOSThread()
	}()
	<-done
}

// TestImportNeverEscapes imports random archives of entries that have it in for
// what is outside, into a directory with planted links.
func TestImportNeverEscapes(t *testing.T) {
	l, top := linked(t, &Server{}), t.TempDir()
	round := 0
	rapidtest.Check(t, func(rt *rapid.T) {
		round++
		dir := fmt.Sprintf("%s/%d", top, round)
		must(t, os.Mkdir(dir, 0o755))
		check := outside(t, dir)
		must(t, os.Mkdir(dir+"/in", 0o755))
		must(t, os.Symlink("../out", dir+"/in/a"))
		names := rapid.SampledFrom([]string{"a", "b", "c", "a/b", "b/a", "b/b", "c/c", "b/victim", "c/victim", "./b/../c", "b/out/victim", "../out/victim", "."})
		targets := rapid.SampledFrom([]string{"a", "b", "c", "..", "../out", "../..", ".", dir + "/out", "/", "b/..", "../out/victim", "b/victim", "c/victim", "a/victim"})
		kinds := rapid.SampledFrom([]byte{tar.TypeReg, tar.TypeSymlink, tar.TypeSymlink, tar.TypeLink, tar.TypeDir, tar.TypeFifo})
		entries := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) tar.Header {
			h := tar.Header{Typeflag: kinds.Draw(rt, "kind"), Name: names.Draw(rt, "name"), Mode: 0o777}
			switch h.Typeflag {
			case tar.TypeSymlink, tar.TypeLink:
				h.Linkname = targets.Draw(rt, "target")
			case tar.TypeReg:
				h.Linkname = "evil"
			}
			return h
		}), 1, 8).Draw(rt, "entries")
		for _, e := range entries { // each alone, so that one that is refused keeps none from coming
			_ = l.Import(t.Context(), dir+"/in", archive(t, e)) // refused or inside: both are right
		}
		check()
	})
}

// TestImportRace swaps directories for links while archives come in.
func TestImportRace(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	check := outside(t, dir)
	must(t, os.MkdirAll(dir+"/in/d", 0o755))
	must(t, os.Symlink("../out", dir+"/in/l"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		move := func(from, to string) { _ = os.Rename(dir+"/in/"+from, dir+"/in/"+to) } // either may be gone
		for {
			select {
			case <-stop:
				return
			default:
			}
			move("d", "away")
			move("l", "d")
			move("d", "l")
			move("away", "d")
		}
	})
	for range 200 {
		_ = l.Import(t.Context(), dir+"/in", archive(t, // refused or inside: both are right
			entry("d/victim", "evil"), entry("d/new", "evil"), linkTo("d/link", "x"), hardTo("d/hard", "d/victim"),
			tar.Header{Typeflag: tar.TypeDir, Name: "d", Mode: 0o777}, tar.Header{Typeflag: tar.TypeDir, Name: "d/dir", Mode: 0o777}))
	}
	close(stop)
	wg.Wait()
	check()
}

func FuzzImport(f *testing.F) {
	f.Add(archive(f, entry("f", "content"), linkTo("l", ".."), entry("l/x", "evil")).Bytes())
	f.Add(archive(f, hardTo("h", "../out/victim"), tar.Header{Typeflag: tar.TypeDir, Name: "a/b", Mode: 0o700}).Bytes())
	f.Add(archive(f, tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("long/", 60) + "f", Linkname: "x"}).Bytes())
	f.Add([]byte("not a tar"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		check := outside(t, dir)
		must(t, os.Mkdir(dir+"/in", 0o755))
		must(t, os.Symlink("../out", dir+"/in/a"))
		s := &Server{}
		w, err := s.newWalker()
		must(t, err)
		var stream bytes.Buffer
		d := newDataWriter(&stream)
		_, err = d.Write(data)
		must(t, errors.Join(err, d.finishStream(nil)))
		_ = s.importTar(w, dir+"/in", 0, &dataReader{r: &impatient{&stream}}) // refused or inside: both are right
		w.close()
		check()
	})
}

// impatient is a stream whose other end has given up when it is first asked.
type impatient struct{ io.Reader }

func (i *impatient) Read(p []byte) (int, error) {
	if p == nil {
		return 0, io.ErrClosedPipe
	}
	return i.Reader.Read(p)
}

func (i *impatient) SetReadDeadline(time.Time) error { return nil }
