package atolltest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

var fileLaws = []law{
	{"TarRoundTrip", tarRoundTrip},
	{"ImportMakesTheDirectory", importMakesTheDirectory},
	{"ImportKeepsWhatIsThere", importKeepsWhatIsThere},
	{"ImportStaysInside", importStaysInside},
	{"ImportThroughPlantedLinkStaysInside", importThroughPlantedLinkStaysInside},
	{"ImportOfGarbageIsAnError", importOfGarbageIsAnError},
	{"ImportEndsWithItsContext", importEndsWithItsContext},
	{"ExportOfAFile", exportOfAFile},
	{"ExportMissingIsNotFound", exportMissingIsNotFound},
	{"ExportCanBeAbandoned", exportCanBeAbandoned},
	{"BigFileRoundTrip", bigFileRoundTrip},
	{"FileFunctions", fileFunctions},
	{"MissingFileIsNotFound", missingFileIsNotFound},
	{"PathsMustBeAbsolute", pathsMustBeAbsolute},
	{"WriteIsAtomic", writeIsAtomic},
	{"OddNamesSurvive", oddNamesSurvive},
}

// packArchive returns a tar archive of the entries.
func (e *env) packArchive(entries ...entry) *bytes.Buffer {
	e.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, en := range entries {
		h := en.Header
		h.Size = int64(len(en.content))
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := tw.WriteHeader(&h); err != nil {
			e.Fatalf("tar header of %s: %v", h.Name, err)
		}
		if _, err := io.WriteString(tw, en.content); err != nil {
			e.Fatalf("tar content of %s: %v", h.Name, err)
		}
	}
	if err := tw.Close(); err != nil {
		e.Fatal(err)
	}
	return &b
}

type entry struct {
	tar.Header
	content string
}

func fileEntry(name, content string) entry {
	return entry{Header: tar.Header{Name: name}, content: content}
}

// readExport reads an export to its end and returns its entries by name.
func (e *env) readExport(rc io.ReadCloser) map[string]entry {
	e.Helper()
	all := make(map[string]entry)
	tr := tar.NewReader(rc)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			e.Fatalf("export: %v", err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			e.Fatalf("export of %s: %v", h.Name, err)
		}
		all[strings.TrimSuffix(h.Name, "/")] = entry{Header: *h, content: string(b)}
	}
	if err := rc.Close(); err != nil {
		e.Fatalf("end of the export: %v", err)
	}
	return all
}

func (e *env) exportPath(sb atoll.Sandbox, name string) map[string]entry {
	e.Helper()
	rc, err := sb.Export(e.newContext(), name)
	if err != nil {
		e.Fatalf("Export %s: %v", name, err)
	}
	return e.readExport(rc)
}

func tarRoundTrip(e *env) {
	sb := e.useSandbox()
	when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	in := []entry{
		{Header: tar.Header{Name: "tree/", Typeflag: tar.TypeDir, Mode: 0o750, ModTime: when}},
		{Header: tar.Header{Name: "tree/plain", Mode: 0o640, ModTime: when}, content: "content\n"},
		{Header: tar.Header{Name: "tree/run", Mode: 0o755, ModTime: when}, content: "#!/bin/sh\necho ran\n"},
		{Header: tar.Header{Name: "tree/empty", Mode: 0o600, ModTime: when}},
		{Header: tar.Header{Name: "tree/dir/", Typeflag: tar.TypeDir, Mode: 0o700, ModTime: when}},
		{Header: tar.Header{Name: "tree/soft", Typeflag: tar.TypeSymlink, Linkname: "dir/../plain", Mode: 0o777, ModTime: when}},
		{Header: tar.Header{Name: "tree/dangling", Typeflag: tar.TypeSymlink, Linkname: "/no/where", Mode: 0o777, ModTime: when}},
		{Header: tar.Header{Name: "tree/hard", Typeflag: tar.TypeLink, Linkname: "tree/plain", Mode: 0o640, ModTime: when}},
	}
	if err := sb.Import(e.newContext(), "/tmp/in", e.packArchive(in...)); err != nil {
		e.Fatalf("Import: %v", err)
	}
	wantEqual(e, "through the soft link", e.runShell(sb, "cat /tmp/in/tree/soft"), "content\n")
	wantEqual(e, "an executable", e.runShell(sb, "/tmp/in/tree/run"), "ran\n")
	wantEqual(e, "through the hard link", e.runShell(sb, "echo more >> /tmp/in/tree/plain; cat /tmp/in/tree/hard"), "content\nmore\n")
	e.runShell(sb, "printf 'content\\n' > /tmp/in/tree/plain; touch -t 200102030405.06 /tmp/in/tree/plain")
	out := e.exportPath(sb, "/tmp/in/tree")
	for _, want := range in {
		name := strings.TrimSuffix(want.Name, "/")
		got, ok := out[name]
		if !ok {
			e.Errorf("%s is missing", name)
			continue
		}
		if want.Typeflag == tar.TypeSymlink {
			wantEqual(e, name+" leads to", got.Linkname, want.Linkname)
			continue
		}
		wantEqual(e, "mode of "+name, got.Mode&0o777, want.Mode)
		if name != "tree/plain" && name != "tree/hard" {
			wantEqual(e, "time of "+name, got.ModTime.Unix(), want.ModTime.Unix())
		}
		if want.Typeflag == tar.TypeReg && got.Typeflag == tar.TypeReg {
			wantEqual(e, "content of "+name, got.content, want.content)
		}
	}
	links := 0
	for _, name := range []string{"tree/plain", "tree/hard"} {
		if out[name].Typeflag == tar.TypeLink {
			links++
		}
	}
	wantEqual(e, "hard links among plain and hard", links, 1)
	wantEqual(e, "entries", len(out), len(in))
}

func importMakesTheDirectory(e *env) {
	sb := e.useSandbox()
	if err := sb.Import(e.newContext(), "/tmp/a/b/c", e.packArchive(fileEntry("x", "1"))); err != nil {
		e.Fatalf("Import: %v", err)
	}
	wantEqual(e, "the file", e.runShell(sb, "cat /tmp/a/b/c/x"), "1")
	if err := sb.Import(e.newContext(), "/tmp/a/b/c/x/y", e.packArchive(fileEntry("z", "1"))); err == nil {
		e.Error("Import into a directory below a file succeeded")
	}
	wantEqual(e, "the file, afterwards", e.runShell(sb, "cat /tmp/a/b/c/x"), "1")
}

func importKeepsWhatIsThere(e *env) {
	sb := e.useSandbox()
	e.runShell(sb, "mkdir -p /tmp/k/d; echo old > /tmp/k/old; echo old > /tmp/k/d/both")
	if err := sb.Import(e.newContext(), "/tmp/k", e.packArchive(fileEntry("d/both", "new"), fileEntry("d/new", "new"))); err != nil {
		e.Fatalf("Import: %v", err)
	}
	wantEqual(e, "files", e.runShell(sb, "cat /tmp/k/old /tmp/k/d/both /tmp/k/d/new"), "old\nnewnew")
}

func importStaysInside(e *env) {
	sb := e.useSandbox()
	e.runShell(sb, "mkdir -p /tmp/in /tmp/out")
	link := func(name, to string) entry {
		return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}}
	}
	hard := func(name, to string) entry {
		return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to}}
	}
	e.runShell(sb, "echo kept > /tmp/out/victim")
	for what, a := range map[string]*bytes.Buffer{
		"dot-dot":               e.packArchive(fileEntry("../out/dotdot", "evil")),
		"dot-dot in the middle": e.packArchive(fileEntry("a/../../out/middle", "evil")),
		"a link and through it": e.packArchive(link("l", "../out"), fileEntry("l/through", "evil")),
		"an absolute link":      e.packArchive(link("m", "/tmp/out"), fileEntry("m/absolute", "evil")),
		"a link over a link":    e.packArchive(link("n", "o"), link("o", "/tmp/out"), fileEntry("n/twice", "evil")),
		"a file over a link":    e.packArchive(link("v", "/tmp/out/victim"), fileEntry("v", "evil")),
		"a hard link":           e.packArchive(hard("h", "../out/victim"), fileEntry("h", "evil")),
		"an absolute hard link": e.packArchive(hard("i", "/tmp/out/victim"), fileEntry("i", "evil")),
	} {
		_ = sb.Import(e.newContext(), "/tmp/in", a) // refused or kept inside: both are correct
		if got := e.runShell(sb, "ls /tmp/out; cat /tmp/out/victim"); got != "victim\nkept\n" {
			e.Errorf("%s: outside there is now %q", what, got)
		}
	}
}

func importThroughPlantedLinkStaysInside(e *env) {
	sb := e.useSandbox()
	e.runShell(sb, "mkdir -p /tmp/in /tmp/out; echo kept > /tmp/out/victim; ln -s /tmp/out /tmp/in/link; ln -s /tmp/out/victim /tmp/in/victim; ln -s ../out /tmp/in/rel")
	_ = sb.Import(e.newContext(), "/tmp/in", e.packArchive(fileEntry("link/new", "evil")))
	_ = sb.Import(e.newContext(), "/tmp/in", e.packArchive(fileEntry("rel/new", "evil")))
	_ = sb.Import(e.newContext(), "/tmp/in", e.packArchive(fileEntry("victim", "evil")))
	wantEqual(e, "outside", e.runShell(sb, "ls /tmp/out; cat /tmp/out/victim"), "victim\nkept\n")
}

func importOfGarbageIsAnError(e *env) {
	sb := e.useSandbox()
	good := e.packArchive(fileEntry("x", strings.Repeat("content ", 1000))).Bytes()
	for what, b := range map[string][]byte{
		"random bytes": bytes.Repeat([]byte("not a tar "), 1000),
		"half a tar":   good[:len(good)/2],
	} {
		if err := sb.Import(e.newContext(), "/tmp/garbage", bytes.NewReader(b)); err == nil {
			e.Errorf("%s: Import succeeded", what)
		}
	}
	wantEqual(e, "afterwards", e.runShell(sb, "echo works"), "works\n")
}

func importEndsWithItsContext(e *env) {
	sb := e.useSandbox()
	ctx, cancel := context.WithCancel(e.newContext())
	r, w := io.Pipe()
	defer w.Close()
	done := make(chan error, 1)
	go func() { done <- sb.Import(ctx, "/tmp/never", r) }()
	if _, err := w.Write(e.packArchive(fileEntry("x", "y")).Bytes()[:512]); err != nil {
		e.Fatalf("the first block: %v", err)
	}
	cancel()
	e.mustFinish("an import that was cancelled", func() { e.wantError(<-done, context.Canceled, "Import") })
}

func exportOfAFile(e *env) {
	sb := e.useSandbox()
	e.runShell(sb, "echo content > /tmp/one; chmod 640 /tmp/one")
	out := e.exportPath(sb, "/tmp/one")
	wantEqual(e, "entries", len(out), 1)
	wantEqual(e, "content", out["one"].content, "content\n")
	wantEqual(e, "mode", out["one"].Mode&0o777, 0o640)
}

func exportMissingIsNotFound(e *env) {
	sb := e.useSandbox()
	rc, err := sb.Export(e.newContext(), "/no/such/file")
	if err == nil {
		_, err = io.Copy(io.Discard, rc)
		if cerr := rc.Close(); err == nil {
			err = cerr
		}
	}
	e.wantError(err, atoll.ErrNotFound, "Export")
}

func exportCanBeAbandoned(e *env) {
	sb := e.useSandbox()
	e.runShell(sb, "yes | head -c 3000000 > /tmp/big")
	for range 3 {
		rc, err := sb.Export(e.newContext(), "/tmp/big")
		if err != nil {
			e.Fatalf("Export: %v", err)
		}
		if _, err := io.ReadFull(rc, make([]byte, 1000)); err != nil {
			e.Fatalf("the first bytes: %v", err)
		}
		e.mustFinish("closing an export that was not read", func() { _ = rc.Close() })
	}
	wantEqual(e, "afterwards", e.runShell(sb, "echo works"), "works\n")
}

func bigFileRoundTrip(e *env) {
	sb := e.useSandbox()
	data := bytes.Repeat([]byte("0123456789abcdef"), 9<<20/16)
	if err := atoll.WriteFile(e.newContext(), sb, "/tmp/nine", data, 0o600); err != nil {
		e.Fatalf("WriteFile: %v", err)
	}
	got, err := atoll.ReadFile(e.newContext(), sb, "/tmp/nine")
	if err != nil {
		e.Fatalf("ReadFile: %v", err)
	}
	wantEqual(e, "same bytes", bytes.Equal(got, data), true)
	wantEqual(e, "size inside", strings.TrimSpace(e.runShell(sb, "wc -c < /tmp/nine")), strconv.Itoa(len(data)))
}

func fileFunctions(e *env) {
	sb := e.useSandbox()
	ctx := e.newContext()
	if err := atoll.WriteFile(ctx, sb, "/tmp/f/deep/er/x", []byte("one"), 0o640); err != nil {
		e.Fatalf("WriteFile: %v", err)
	}
	b, err := atoll.ReadFile(ctx, sb, "/tmp/f/deep/er/x")
	if err != nil || string(b) != "one" {
		e.Errorf("ReadFile: %q, %v", b, err)
	}
	info, err := atoll.Stat(ctx, sb, "/tmp/f/deep/er/x")
	if err != nil {
		e.Fatalf("Stat: %v", err)
	}
	wantEqual(e, "name", info.Name(), "x")
	wantEqual(e, "size", info.Size(), 3)
	wantEqual(e, "mode", info.Mode(), 0o640)
	if err := atoll.Mkdir(ctx, sb, "/tmp/f/dir/sub", 0o755); err != nil {
		e.Errorf("Mkdir: %v", err)
	}
	if err := atoll.Mkdir(ctx, sb, "/tmp/f/dir/sub", 0o755); err != nil {
		e.Errorf("Mkdir of what is there: %v", err)
	}
	e.runShell(sb, "ln -s x /tmp/f/link; echo 12345 > /tmp/f/a")
	list, err := atoll.ReadDir(ctx, sb, "/tmp/f")
	if err != nil {
		e.Fatalf("ReadDir: %v", err)
	}
	var names []string
	for _, i := range list {
		names = append(names, fmt.Sprintf("%s:%s", i.Name(), i.Mode().Type()))
	}
	wantEqual(e, "names and types", strings.Join(names, " "), "a:---------- deep:d--------- dir:d--------- link:L---------")
	if err := atoll.Remove(ctx, sb, "/tmp/f/deep"); err != nil {
		e.Errorf("Remove: %v", err)
	}
	_, err = atoll.Stat(ctx, sb, "/tmp/f/deep")
	e.wantError(err, atoll.ErrNotFound, "Stat of what was removed")
}

func missingFileIsNotFound(e *env) {
	sb := e.useSandbox()
	ctx := e.newContext()
	_, err := atoll.ReadFile(ctx, sb, "/tmp/missing")
	e.wantError(err, atoll.ErrNotFound, "ReadFile")
	_, err = atoll.Stat(ctx, sb, "/tmp/missing")
	e.wantError(err, atoll.ErrNotFound, "Stat")
	_, err = atoll.ReadDir(ctx, sb, "/tmp/missing")
	e.wantError(err, atoll.ErrNotFound, "ReadDir")
	e.wantError(atoll.Remove(ctx, sb, "/tmp/missing"), atoll.ErrNotFound, "Remove")
	_, err = atoll.ReadFile(ctx, sb, "/tmp")
	e.wantError(err, atoll.ErrInvalid, "ReadFile of a directory")
	e.runShell(sb, "echo > /tmp/plain")
	_, err = atoll.ReadDir(ctx, sb, "/tmp/plain")
	e.wantError(err, atoll.ErrInvalid, "ReadDir of a file")
}

func pathsMustBeAbsolute(e *env) {
	sb := e.useSandbox()
	ctx := e.newContext()
	for _, name := range []string{"", "relative", "./x", "a\x00b"} {
		_, err := atoll.ReadFile(ctx, sb, name)
		e.wantError(err, atoll.ErrInvalid, "ReadFile "+name)
		e.wantError(sb.Import(ctx, name, e.packArchive()), atoll.ErrInvalid, "Import "+name)
		_, err = sb.Export(ctx, name)
		e.wantError(err, atoll.ErrInvalid, "Export "+name)
	}
}

// writeIsAtomic reads a file while it is replaced: each read must return one
// complete content.
func writeIsAtomic(e *env) {
	sb := e.useSandbox()
	contents := [2][]byte{bytes.Repeat([]byte("a"), 300_000), bytes.Repeat([]byte("b"), 200_000)}
	write := func(i int) {
		if err := atoll.WriteFile(e.newContext(), sb, "/tmp/atomic", contents[i%2], 0o644); err != nil {
			e.Errorf("WriteFile: %v", err)
		}
	}
	write(0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 40 {
			write(i)
		}
	})
	for range 40 {
		b, err := atoll.ReadFile(e.newContext(), sb, "/tmp/atomic")
		if err != nil {
			e.Errorf("ReadFile: %v", err)
			break
		}
		if !bytes.Equal(b, contents[0]) && !bytes.Equal(b, contents[1]) {
			e.Errorf("a reader saw %d bytes that are neither content", len(b))
			break
		}
	}
	wg.Wait()
	list, err := atoll.ReadDir(e.newContext(), sb, "/tmp")
	if err != nil {
		e.Fatalf("ReadDir: %v", err)
	}
	for _, i := range list {
		if strings.Contains(i.Name(), "atomic") && i.Name() != "atomic" {
			e.Errorf("%s was left behind", i.Name())
		}
	}
}

func oddNamesSurvive(e *env) {
	sb := e.useSandbox()
	for _, name := range []string{"a b", "-n", "*", "a\nb", "'", `"`, `\`, "ü", "日本", "$(id)", strings.Repeat("n", 200)} {
		full := path.Join("/tmp/odd", name)
		if err := atoll.WriteFile(e.newContext(), sb, full, []byte(name), fs.FileMode(0o644)); err != nil {
			e.Errorf("WriteFile %q: %v", name, err)
			continue
		}
		exit := e.exec(sb, atoll.Cmd{Args: []string{"cat", full}})
		wantEqual(e, "content inside", string(exit.Stdout), name)
		b, err := atoll.ReadFile(e.newContext(), sb, full)
		if err != nil || string(b) != name {
			e.Errorf("ReadFile %q: %q, %v", name, b, err)
		}
	}
}
