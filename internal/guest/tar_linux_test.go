package guest

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/sparse"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// entry is a file of an archive, its content in Linkname.
func entry(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: content}
}

func linkTo(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

func hardTo(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}
}

// archive packs entries.
func archive(t testing.TB, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
		}
		if h.Size = int64(len(content)); h.Mode == 0 {
			h.Mode = 0o644
		}
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, content)
		must(t, err)
	}
	must(t, w.Close())
	return &b
}

// outside is a directory with a canary, and a check that nothing touched it.
func outside(t testing.TB, dir string) func() {
	t.Helper()
	out := dir + "/out"
	must(t, os.Mkdir(out, 0o755))
	must(t, os.WriteFile(out+"/victim", []byte("kept"), 0o640))
	return func() {
		t.Helper()
		b, err := os.ReadFile(out + "/victim")
		must(t, err)
		info, err := os.Stat(out + "/victim")
		must(t, err)
		list, err := os.ReadDir(out)
		must(t, err)
		if string(b) != "kept" || info.Mode() != 0o640 || len(list) != 1 {
			t.Fatalf("outside: %q %v %v", b, info.Mode(), list)
		}
		var st unix.Stat_t
		must(t, unix.Stat(out+"/victim", &st))
		if st.Nlink != 1 {
			t.Fatalf("the victim has %d names", st.Nlink)
		}
	}
}

func TestImportStaysInside(t *testing.T) {
	hostile := func(dir string) map[string][]tar.Header {
		out := dir + "/out"
		return map[string][]tar.Header{
			"AbsoluteName":       {entry(out+"/abs", "evil")},
			"DotDot":             {entry("../out/dotdot", "evil")},
			"DotDotInside":       {entry("a/../../out/x", "evil")},
			"ThroughLink":        {linkTo("l", "../out"), entry("l/x", "evil")},
			"ThroughAbsolute":    {linkTo("m", out), entry("m/x", "evil")},
			"ThroughLinkOfLink":  {linkTo("n", "o"), linkTo("o", ".."), entry("n/out/x", "evil")},
			"DirThroughLink":     {linkTo("p", "../out"), {Typeflag: tar.TypeDir, Name: "p/x"}},
			"DirModeThroughLink": {linkTo("q", "../out"), {Typeflag: tar.TypeDir, Name: "q", Mode: 0o777}},
			"ThroughOld":         {entry("old/x", "evil")},
			"ThroughOldUp":       {entry("up/out/x", "evil")},
			"HardLink":           {hardTo("h", "../out/victim"), entry("h", "evil")},
			"HardLinkAbsolute":   {hardTo("i", out+"/victim")},
			"HardLinkThrough":    {linkTo("j", "../out"), hardTo("k", "j/victim")},
			"HardLinkThroughOld": {hardTo("k", "old/victim")},
			"LinkThroughLink":    {linkTo("r", "../out"), linkTo("r/x", "evil")},
			"PipeThroughLink":    {linkTo("s", "../out"), {Typeflag: tar.TypeFifo, Name: "s/x"}},
		}
	}
	for name := range hostile("") {
		t.Run(name, func(t *testing.T) {
			l, dir := linked(t, &Server{}), t.TempDir()
			check := outside(t, dir)
			must(t, os.Mkdir(dir+"/in", 0o755))
			must(t, os.Symlink("../out", dir+"/in/old"))
			must(t, os.Symlink("..", dir+"/in/up"))
			want(t, l.Import(t.Context(), dir+"/in", archive(t, hostile(dir)[name]...)), atoll.ErrInvalid, "Import")
			check()
		})
	}
}

func TestImportRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		entries []tar.Header
		reason  error
	}{
		"Device":              {[]tar.Header{{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}}, atoll.ErrInvalid},
		"BlockDevice":         {[]tar.Header{{Typeflag: tar.TypeBlock, Name: "sda"}}, atoll.ErrInvalid},
		"UnknownKind":         {[]tar.Header{{Typeflag: 'Z', Name: "odd"}}, atoll.ErrInvalid},
		"FileOverDirectory":   {[]tar.Header{entry("d", "x")}, atoll.ErrInvalid},
		"LinkOverDirectory":   {[]tar.Header{linkTo("d", "x")}, atoll.ErrInvalid},
		"DirectoryOverFile":   {[]tar.Header{{Typeflag: tar.TypeDir, Name: "f"}}, atoll.ErrInvalid},
		"BeneathFile":         {[]tar.Header{entry("f/x", "x")}, atoll.ErrInvalid},
		"HardLinkToNothing":   {[]tar.Header{hardTo("h", "nothing")}, atoll.ErrNotFound},
		"HardLinkToDirectory": {[]tar.Header{hardTo("h", "d")}, atoll.ErrInvalid},
		"NameTooLong":         {[]tar.Header{entry(strings.Repeat("n", 256), "x")}, atoll.ErrQuota},
		"TooDeep":             {[]tar.Header{entry(strings.Repeat("n/", 2500)+"x", "x")}, atoll.ErrQuota},
		"LinkToNowhere":       {[]tar.Header{linkTo("l", "")}, atoll.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			l, dir := linked(t, &Server{}), t.TempDir()
			must(t, os.Mkdir(dir+"/d", 0o755))
			must(t, os.WriteFile(dir+"/f", []byte("old"), 0o600))
			err := l.Import(t.Context(), dir, archive(t, c.entries...))
			want(t, err, c.reason, "Import")
			if b, err := os.ReadFile(dir + "/f"); err != nil || string(b) != "old" {
				t.Errorf("the old file: %q, %v", b, err)
			}
		})
	}
}

func TestImportOfGarbage(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	good := archive(t, entry("x", strings.Repeat("content ", 1000))).Bytes()
	for what, b := range map[string][]byte{
		"random bytes":     bytes.Repeat([]byte("not a tar "), 1000),
		"cut in a header":  good[:100],
		"cut in a content": good[:3000],
	} {
		want(t, l.Import(t.Context(), dir, bytes.NewReader(b)), atoll.ErrInvalid, what)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("there are now %v, %v", list, err)
	}
	own := errors.New("of the reader")
	want(t, l.Import(t.Context(), dir, io.MultiReader(bytes.NewReader(good[:3000]), &failing{own})), own, "a reader that fails")
}

// TestArchivesOfGNUTar takes what tar writes, and lets it read what we do.
func TestArchivesOfGNUTar(t *testing.T) {
	if _, err := exec.LookPath("tar"); err != nil {
		skip(t, "gnu", "the command tar is missing")
	}
	src, long := t.TempDir(), strings.Repeat("x", 200)
	must(t, os.MkdirAll(filepath.Join(src, "d", long, "empty"), 0o755))
	must(t, os.WriteFile(filepath.Join(src, "d", long, strings.Repeat("y", 200)), []byte("long"), 0o640))
	must(t, os.WriteFile(src+"/d/data", bytes.Repeat([]byte{1}, 70_000), 0o640))
	must(t, os.Truncate(src+"/d/data", 300_000))
	must(t, os.Link(src+"/d/data", src+"/d/hard"))
	must(t, os.Symlink("data", src+"/d/soft"))
	must(t, unix.Mkfifo(src+"/d/pipe", 0o600))
	when := time.Unix(1234567890, 0)
	must(t, os.Chtimes(src+"/d/data", when, when))
	must(t, os.Chtimes(src+"/d/"+long, when, when))
	must(t, os.Chmod(src+"/d/"+long, 0o500))
	for _, format := range []string{"--format=gnu", "--format=pax", "--format=gnu --sparse", "--format=pax --sparse"} {
		out, err := exec.Command("tar", append(strings.Fields(format), "-cf", "-", "-C", src, "d")...).Output()
		must(t, err)
		l, in := linked(t, &Server{}), t.TempDir()
		must(t, l.Import(t.Context(), in, bytes.NewReader(out)))
		rc, err := l.Export(t.Context(), in+"/d")
		must(t, err)
		dst := t.TempDir()
		cmd := exec.Command("tar", "-xpf", "-", "-C", dst)
		cmd.Stdin = rc
		if msg, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: tar -x: %v: %s", format, err, msg)
		}
		must(t, rc.Close())
		if a, b := describeTree(t, src), describeTree(t, dst); a != b {
			t.Errorf("%s:\n%s\nbecame\n%s", format, a, b)
		}
		must(t, os.Chmod(in+"/d/"+long, 0o700)) // so that the test can remove it
		must(t, os.Chmod(dst+"/d/"+long, 0o700))
	}
	must(t, os.Chmod(src+"/d/"+long, 0o700))
}

// describeTree says all that an archive keeps of a directory.
func describeTree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	links := make(map[uint64]string)
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		rel := strings.TrimPrefix(name, dir)
		b.WriteString(rel + " " + fileModeOf(st.Mode).String() + " " + time.Unix(st.Mtim.Unix()).UTC().Format(time.RFC3339))
		switch {
		case links[st.Ino] != "":
			b.WriteString(" is " + links[st.Ino])
		case d.Type().IsRegular():
			links[st.Ino] = rel
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			b.WriteString(" " + string(data[:min(len(data), 20)]) + "…" + string(rune('0'+len(data)%10)))
		case d.Type() == fs.ModeSymlink:
			target, _ := os.Readlink(name)
			b.WriteString(" to " + target)
		}
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}

// skip skips a test for what is missing, unless ATOLL_MUST asks for it.
func skip(t testing.TB, what, why string) {
	t.Helper()
	testenv.Skip(t, what, "%s", why)
}

func TestSparseFilesStaySmall(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "big", Size: 64 << 20, Mode: 0o600})
		_, cerr := io.CopyN(tw, zeros{}, 64<<20)
		w.CloseWithError(errors.Join(err, cerr, tw.Close()))
	}()
	must(t, l.Import(t.Context(), dir, r))
	var st unix.Stat_t
	must(t, unix.Stat(dir+"/big", &st))
	if st.Size != 64<<20 || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes take %d", st.Size, st.Blocks*512)
	}
}

// TestSparseBombEnds imports a file of a petabyte, which is an
// archive of a few blocks, for a host that gives up.
func TestSparseBombEnds(t *testing.T) {
	s, dir := &Server{}, t.TempDir()
	head := make([]byte, 512)
	copy(head, "bomb")
	copy(head[100:], "0000644\x00")
	copy(head[108:], "0000000\x000000000\x0000000000000\x0000000000000\x00        S")
	copy(head[257:], "ustar  \x00")
	copy(head[386:], "00000000000\x0000000000000\x00") // one piece, of nothing
	head[483] = 0x80                                   // its size is in base 256
	binary.BigEndian.PutUint64(head[487:], 1<<50)
	sum := 0
	for _, b := range head {
		sum += int(b)
	}
	copy(head[148:], fmt.Sprintf("%06o\x00 ", sum))
	var stream bytes.Buffer
	d := newDataWriter(&stream)
	_, err := d.Write(append(head, make([]byte, 1024)...))
	must(t, errors.Join(err, d.finishStream(nil)))
	w, err := s.newWalker()
	must(t, err)
	defer w.close()
	want(t, s.importTar(w, dir, 0, &dataReader{r: &impatient{&stream}}), io.ErrClosedPipe, "import")
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("there is now %v, %v", list, err)
	}
}

// TestImportOpensEachDirectoryOnce unpacks files of a deep tree and counts the directories that
// are opened on the way.
func TestImportOpensEachDirectoryOnce(t *testing.T) {
	const depth, files = 40, 20
	var entries []tar.Header
	dir := ""
	for i := range depth {
		dir += fmt.Sprintf("d%d/", i)
		entries = append(entries, tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755})
	}
	for i := range files { // as in a tree of packages: each file in a directory of its own
		sub := fmt.Sprintf("%sp%d/", dir, i)
		entries = append(entries, tar.Header{Typeflag: tar.TypeDir, Name: sub, Mode: 0o750}, entry(sub+"f", "x"), entry(sub+"q/r/f", "x"))
	}
	var stream bytes.Buffer
	d := newDataWriter(&stream)
	_, err := d.Write(archive(t, entries...).Bytes())
	must(t, errors.Join(err, d.finishStream(nil)))
	s, top := &Server{}, t.TempDir()
	w, err := s.newWalker()
	must(t, err)
	defer w.close()
	must(t, w.makeDirs(top, 0o755))
	before := w.steps
	must(t, s.importTar(w, top, 0, &dataReader{r: &impatient{&stream}}))
	// A directory is opened when it is found missing, when it is made, and for its mode and times.
	if made := depth + 3*files; w.steps-before > 4*made {
		t.Errorf("%d steps to make %d directories", w.steps-before, made)
	}
	info, err := os.Stat(top + "/" + dir + "p7")
	must(t, err)
	if info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v", info.Mode())
	}
}

// TestAlive asks after the other end of a real stream, before and after it has
// given up.
func TestAlive(t *testing.T) {
	a, b, err := pair()
	must(t, err)
	client, err := yamux.Client(a, muxConfig(1), nil)
	must(t, err)
	defer client.Close()
	server, err := yamux.Server(b, muxConfig(1), nil)
	must(t, err)
	defer server.Close()
	out, err := client.OpenStream(t.Context())
	must(t, err)
	must(t, writeFrame(out, FrameData, []byte("some")))
	in, err := server.AcceptStream()
	must(t, err)
	d := &dataReader{r: in}
	want(t, d.checkAlive(), nil, "with data on its way")
	buf := make([]byte, 4)
	_, err = io.ReadFull(d, buf)
	must(t, err)
	want(t, d.checkAlive(), nil, "with nothing on its way")
	must(t, writeFrame(out, FrameData, []byte("more")))
	_, err = io.ReadFull(d, buf)
	must(t, err)
	if string(buf) != "more" {
		t.Errorf("asking has eaten %q", buf)
	}
	must(t, out.Reset())
	_, err = d.Read(buf)
	want(t, err, atoll.ErrUnavailable, "Read")
	want(t, d.checkAlive(), atoll.ErrUnavailable, "after it has given up")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestExportOfFilesThatChange(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/f", []byte("0123456789"), 0o600))
	f, err := os.Open(dir + "/f")
	must(t, err)
	defer f.Close()
	e := io.NewSectionReader(&fileContent{fd: int(f.Fd())}, 0, 10)
	b := make([]byte, 4)
	_, err = io.ReadFull(e, b)
	must(t, err)
	must(t, os.Truncate(dir+"/f", 6))
	rest, err := io.ReadAll(e)
	must(t, err)
	if string(rest) != "45\x00\x00\x00\x00" {
		t.Errorf("after it shrank: %q", rest)
	}
	must(t, os.WriteFile(dir+"/f", []byte("more than there was"), 0o600))
	rest, err = io.ReadAll(io.NewSectionReader(&fileContent{fd: int(f.Fd())}, 0, 10))
	must(t, err)
	if string(rest) != "more than " {
		t.Errorf("after it grew: %q", rest)
	}
}

// TestExportKeepsHoles exports big files that take a few blocks.
func TestExportKeepsHoles(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	const size = 100 << 20
	long := strings.Repeat("n", 120)
	must(t, os.Mkdir(dir+"/d", 0o755))
	f, err := os.OpenFile(dir+"/d/"+long, os.O_CREATE|os.O_WRONLY, 0o640)
	must(t, err)
	for _, at := range []int64{0, 30 << 20, size - 5} {
		_, err = f.WriteAt([]byte("data!"), at)
		must(t, err)
	}
	must(t, f.Close())
	must(t, os.WriteFile(dir+"/d/hole", nil, 0o600))
	must(t, os.Truncate(dir+"/d/hole", size))
	must(t, os.WriteFile(dir+"/d/z", []byte("after them"), 0o600))
	rc, err := l.Export(t.Context(), dir+"/d")
	must(t, err)
	var stream bytes.Buffer
	n, err := io.Copy(&stream, io.LimitReader(rc, 1<<20))
	must(t, err)
	if n == 1<<20 {
		t.Fatal("the holes are sent")
	}
	must(t, rc.Close())
	found := 0
	for tr := tar.NewReader(bytes.NewReader(stream.Bytes())); ; found++ {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		if h.Name != "d/"+long {
			continue
		}
		if h.Size != size || h.Mode != 0o640 || h.Typeflag != tar.TypeReg {
			t.Fatalf("header %+v", h)
		}
		b := make([]byte, 30<<20+5)
		_, err = io.ReadFull(tr, b)
		must(t, err)
		if string(b[:6]) != "data!\x00" || string(b[30<<20-1:]) != "\x00data!" {
			t.Error("the content has changed")
		}
	}
	if found != 4 {
		t.Errorf("%d entries, want 4", found)
	}
	if _, err := exec.LookPath("tar"); err != nil {
		skip(t, "gnu", "the command tar is missing")
	}
	dst := t.TempDir()
	cmd := exec.Command("tar", "-xpf", "-", "-C", dst)
	cmd.Stdin = &stream
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tar -x: %v: %s", err, msg)
	}
	if a, b := describeTree(t, dir), describeTree(t, dst); a != b {
		t.Errorf("%s\nbecame\n%s", a, b)
	}
}

// TestExportIsBounded creates files during an export, as a program does that moves one file ahead
// of it again and again.
func TestExportIsBounded(t *testing.T) {
	const limit = 1 << 20
	for name, appear := range map[string]func(dir string) error{
		"NewFiles": func(dir string) error {
			return errors.Join(os.WriteFile(dir+"/d/a", make([]byte, limit*2/3), 0o600), os.WriteFile(dir+"/d/b", make([]byte, limit*2/3), 0o600))
		},
		"MovedDirectory": func(dir string) error { return os.Rename(dir+"/old", dir+"/d/moved") },
		"TooManyExtents": func(dir string) error {
			f, err := os.Create(dir + "/d/combed")
			for i := range int64(3 * sparse.MaxSegments) {
				_, werr := f.WriteAt([]byte{1}, i*1<<20)
				err = errors.Join(err, werr)
			}
			return errors.Join(err, f.Close())
		},
		"Nothing": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := &Server{}, t.TempDir()
			must(t, os.MkdirAll(dir+"/old/er", 0o755))
			must(t, os.MkdirAll(dir+"/d/er", 0o755))
			for _, f := range []string{"/old/er/1", "/old/er/2", "/d/er/1", "/d/er/2"} { // there before: not charged
				must(t, os.WriteFile(dir+f, make([]byte, limit*2/3), 0o600))
			}
			w, err := s.newWalker()
			must(t, err)
			defer w.close()
			waitForTick(t)
			send, err := s.exportTar(w, dir+"/d", fileRequest{Limit: limit})
			must(t, err)
			must(t, appear(dir))
			err = send(t.Context(), newDataWriter(io.Discard))
			if name == "Nothing" {
				must(t, err)
				return
			}
			want(t, err, atoll.ErrQuota, "export")
		})
	}
}

// waitForTick waits until the coarse clock is past all file times that exist, which some kernels take
// from the fine clock.
func waitForTick(t testing.TB) {
	t.Helper()
	var from, now unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_REALTIME, &from))
	for now.Nano() <= from.Nano() {
		must(t, unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now))
	}
}

func TestExportNames(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	must(t, os.MkdirAll(dir+"/a/b", 0o755))
	must(t, os.WriteFile(dir+"/a/b/c", nil, 0o644))
	must(t, os.Symlink("a/b", dir+"/link"))
	for name, wanted := range map[string]string{"/a/b": "b/ b/c", "/a/b/c": "c", "/link": "link/ link/c", "/a/b/..": "a/ a/b/ a/b/c"} {
		rc, err := l.Export(t.Context(), dir+name)
		must(t, err)
		var names []string
		for r := tar.NewReader(rc); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			must(t, err)
			names = append(names, h.Name)
		}
		must(t, rc.Close())
		if got := strings.Join(names, " "); got != wanted {
			t.Errorf("export of %s: %s, want %s", name, got, wanted)
		}
	}
}

func TestDeepTrees(t *testing.T) {
	l, dir := linked(t, &Server{}), t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for range 3000 {
		must(t, unix.Mkdirat(fd, "d", 0o700))
		next, err := unix.Openat(fd, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		must(t, unix.Close(fd))
		fd = next
	}
	must(t, unix.Close(fd))
	rc, err := l.Export(t.Context(), dir+"/d")
	must(t, err)
	_, err = io.Copy(io.Discard, rc)
	want(t, err, atoll.ErrQuota, "Export")
	want(t, rc.Close(), atoll.ErrQuota, "Close of the export")
	must(t, l.Remove(t.Context(), dir+"/d"))
}
