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

// archive packs headers and their contents.
func (e *env) archive(entries ...entry) *bytes.Buffer {
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

func file(name, content string) entry {
	return entry{Header: tar.Header{Name: name}, content: content}
}

// unpack reads an export whole, by name.
func (e *env) unpack(rc io.ReadCloser) map[string]entry {
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

func (e *env) export(sb atoll.Sandbox, name string) map[string]entry {
	e.Helper()
	rc, err := sb.Export(e.ctx(), name)
	if err != nil {
		e.Fatalf("Export %s: %v", name, err)
	}
	return e.unpack(rc)
}

func tarRoundTrip(e *env) {
	sb := e.sandbox()
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
	if err := sb.Import(e.ctx(), "/tmp/in", e.archive(in...)); err != nil {
		e.Fatalf("Import: %v", err)
	}
	eq(e, "through the soft link", e.sh(sb, "cat /tmp/in/tree/soft"), "content\n")
	eq(e, "an executable", e.sh(sb, "/tmp/in/tree/run"), "ran\n")
	eq(e, "through the hard link", e.sh(sb, "echo more >> /tmp/in/tree/plain; cat /tmp/in/tree/hard"), "content\nmore\n")
	e.sh(sb, "printf 'content\\n' > /tmp/in/tree/plain; touch -t 200102030405.06 /tmp/in/tree/plain")
	out := e.export(sb, "/tmp/in/tree")
	for _, want := range in {
		name := strings.TrimSuffix(want.Name, "/")
		got, ok := out[name]
		if !ok {
			e.Errorf("%s is missing", name)
			continue
		}
		if want.Typeflag == tar.TypeSymlink {
			eq(e, name+" leads to", got.Linkname, want.Linkname)
			continue
		}
		eq(e, "mode of "+name, got.Mode&0o777, want.Mode)
		if name != "tree/plain" && name != "tree/hard" {
			eq(e, "time of "+name, got.ModTime.Unix(), want.ModTime.Unix())
		}
		if want.Typeflag == tar.TypeReg && got.Typeflag == tar.TypeReg {
			eq(e, "content of "+name, got.content, want.content)
		}
	}
	links := 0
	for _, name := range []string{"tree/plain", "tree/hard"} {
		if out[name].Typeflag == tar.TypeLink {
			links++
		}
	}
	eq(e, "hard links among plain and hard", links, 1)
	eq(e, "entries", len(out), len(in))
}

func importMakesTheDirectory(e *env) {
	sb := e.sandbox()
	if err := sb.Import(e.ctx(), "/tmp/a/b/c", e.archive(file("x", "1"))); err != nil {
		e.Fatalf("Import: %v", err)
	}
	eq(e, "the file", e.sh(sb, "cat /tmp/a/b/c/x"), "1")
	if err := sb.Import(e.ctx(), "/tmp/a/b/c/x/y", e.archive(file("z", "1"))); err == nil {
		e.Error("Import into a directory below a file succeeded")
	}
	eq(e, "the file, afterwards", e.sh(sb, "cat /tmp/a/b/c/x"), "1")
}

func importKeepsWhatIsThere(e *env) {
	sb := e.sandbox()
	e.sh(sb, "mkdir -p /tmp/k/d; echo old > /tmp/k/old; echo old > /tmp/k/d/both")
	if err := sb.Import(e.ctx(), "/tmp/k", e.archive(file("d/both", "new"), file("d/new", "new"))); err != nil {
		e.Fatalf("Import: %v", err)
	}
	eq(e, "files", e.sh(sb, "cat /tmp/k/old /tmp/k/d/both /tmp/k/d/new"), "old\nnewnew")
}

func importStaysInside(e *env) {
	sb := e.sandbox()
	e.sh(sb, "mkdir -p /tmp/in /tmp/out")
	link := func(name, to string) entry {
		return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}}
	}
	hard := func(name, to string) entry {
		return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to}}
	}
	e.sh(sb, "echo kept > /tmp/out/victim")
	for what, a := range map[string]*bytes.Buffer{
		"dot-dot":               e.archive(file("../out/dotdot", "evil")),
		"dot-dot in the middle": e.archive(file("a/../../out/middle", "evil")),
		"a link and through it": e.archive(link("l", "../out"), file("l/through", "evil")),
		"an absolute link":      e.archive(link("m", "/tmp/out"), file("m/absolute", "evil")),
		"a link over a link":    e.archive(link("n", "o"), link("o", "/tmp/out"), file("n/twice", "evil")),
		"a file over a link":    e.archive(link("v", "/tmp/out/victim"), file("v", "evil")),
		"a hard link":           e.archive(hard("h", "../out/victim"), file("h", "evil")),
		"an absolute hard link": e.archive(hard("i", "/tmp/out/victim"), file("i", "evil")),
	} {
		_ = sb.Import(e.ctx(), "/tmp/in", a) // refused or kept inside: both are right
		if got := e.sh(sb, "ls /tmp/out; cat /tmp/out/victim"); got != "victim\nkept\n" {
			e.Errorf("%s: outside there is now %q", what, got)
		}
	}
}

func importThroughPlantedLinkStaysInside(e *env) {
	sb := e.sandbox()
	e.sh(sb, "mkdir -p /tmp/in /tmp/out; echo kept > /tmp/out/victim; ln -s /tmp/out /tmp/in/link; ln -s /tmp/out/victim /tmp/in/victim; ln -s ../out /tmp/in/rel")
	_ = sb.Import(e.ctx(), "/tmp/in", e.archive(file("link/new", "evil")))
	_ = sb.Import(e.ctx(), "/tmp/in", e.archive(file("rel/new", "evil")))
	_ = sb.Import(e.ctx(), "/tmp/in", e.archive(file("victim", "evil")))
	eq(e, "outside", e.sh(sb, "ls /tmp/out; cat /tmp/out/victim"), "victim\nkept\n")
}

func importOfGarbageIsAnError(e *env) {
	sb := e.sandbox()
	good := e.archive(file("x", strings.Repeat("content ", 1000))).Bytes()
	for what, b := range map[string][]byte{
		"random bytes": bytes.Repeat([]byte("not a tar "), 1000),
		"half a tar":   good[:len(good)/2],
	} {
		if err := sb.Import(e.ctx(), "/tmp/garbage", bytes.NewReader(b)); err == nil {
			e.Errorf("%s: Import succeeded", what)
		}
	}
	eq(e, "afterwards", e.sh(sb, "echo works"), "works\n")
}

func importEndsWithItsContext(e *env) {
	sb := e.sandbox()
	ctx, cancel := context.WithCancel(e.ctx())
	r, w := io.Pipe()
	defer w.Close()
	done := make(chan error, 1)
	go func() { done <- sb.Import(ctx, "/tmp/never", r) }()
	if _, err := w.Write(e.archive(file("x", "y")).Bytes()[:512]); err != nil {
		e.Fatalf("the first block: %v", err)
	}
	cancel()
	e.soon("an import that was cancelled", func() { e.want(<-done, context.Canceled, "Import") })
}

func exportOfAFile(e *env) {
	sb := e.sandbox()
	e.sh(sb, "echo content > /tmp/one; chmod 640 /tmp/one")
	out := e.export(sb, "/tmp/one")
	eq(e, "entries", len(out), 1)
	eq(e, "content", out["one"].content, "content\n")
	eq(e, "mode", out["one"].Mode&0o777, 0o640)
}

func exportMissingIsNotFound(e *env) {
	sb := e.sandbox()
	rc, err := sb.Export(e.ctx(), "/no/such/file")
	if err == nil {
		_, err = io.Copy(io.Discard, rc)
		if cerr := rc.Close(); err == nil {
			err = cerr
		}
	}
	e.want(err, atoll.ErrNotFound, "Export")
}

func exportCanBeAbandoned(e *env) {
	sb := e.sandbox()
	e.sh(sb, "yes | head -c 3000000 > /tmp/big")
	for range 3 {
		rc, err := sb.Export(e.ctx(), "/tmp/big")
		if err != nil {
			e.Fatalf("Export: %v", err)
		}
		if _, err := io.ReadFull(rc, make([]byte, 1000)); err != nil {
			e.Fatalf("the first bytes: %v", err)
		}
		e.soon("closing an export that was not read", func() { _ = rc.Close() })
	}
	eq(e, "afterwards", e.sh(sb, "echo works"), "works\n")
}

func bigFileRoundTrip(e *env) {
	sb := e.sandbox()
	data := bytes.Repeat([]byte("0123456789abcdef"), 9<<20/16)
	if err := atoll.WriteFile(e.ctx(), sb, "/tmp/nine", data, 0o600); err != nil {
		e.Fatalf("WriteFile: %v", err)
	}
	got, err := atoll.ReadFile(e.ctx(), sb, "/tmp/nine")
	if err != nil {
		e.Fatalf("ReadFile: %v", err)
	}
	eq(e, "same bytes", bytes.Equal(got, data), true)
	eq(e, "size inside", strings.TrimSpace(e.sh(sb, "wc -c < /tmp/nine")), strconv.Itoa(len(data)))
}

func fileFunctions(e *env) {
	sb := e.sandbox()
	ctx := e.ctx()
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
	eq(e, "name", info.Name(), "x")
	eq(e, "size", info.Size(), 3)
	eq(e, "mode", info.Mode(), 0o640)
	if err := atoll.Mkdir(ctx, sb, "/tmp/f/dir/sub", 0o755); err != nil {
		e.Errorf("Mkdir: %v", err)
	}
	if err := atoll.Mkdir(ctx, sb, "/tmp/f/dir/sub", 0o755); err != nil {
		e.Errorf("Mkdir of what is there: %v", err)
	}
	e.sh(sb, "ln -s x /tmp/f/link; echo 12345 > /tmp/f/a")
	list, err := atoll.ReadDir(ctx, sb, "/tmp/f")
	if err != nil {
		e.Fatalf("ReadDir: %v", err)
	}
	var names []string
	for _, i := range list {
		names = append(names, fmt.Sprintf("%s:%s", i.Name(), i.Mode().Type()))
	}
	eq(e, "names and types", strings.Join(names, " "), "a:---------- deep:d--------- dir:d--------- link:L---------")
	if err := atoll.Remove(ctx, sb, "/tmp/f/deep"); err != nil {
		e.Errorf("Remove: %v", err)
	}
	_, err = atoll.Stat(ctx, sb, "/tmp/f/deep")
	e.want(err, atoll.ErrNotFound, "Stat of what was removed")
}

func missingFileIsNotFound(e *env) {
	sb := e.sandbox()
	ctx := e.ctx()
	_, err := atoll.ReadFile(ctx, sb, "/tmp/missing")
	e.want(err, atoll.ErrNotFound, "ReadFile")
	_, err = atoll.Stat(ctx, sb, "/tmp/missing")
	e.want(err, atoll.ErrNotFound, "Stat")
	_, err = atoll.ReadDir(ctx, sb, "/tmp/missing")
	e.want(err, atoll.ErrNotFound, "ReadDir")
	e.want(atoll.Remove(ctx, sb, "/tmp/missing"), atoll.ErrNotFound, "Remove")
	_, err = atoll.ReadFile(ctx, sb, "/tmp")
	e.want(err, atoll.ErrInvalid, "ReadFile of a directory")
	e.sh(sb, "echo > /tmp/plain")
	_, err = atoll.ReadDir(ctx, sb, "/tmp/plain")
	e.want(err, atoll.ErrInvalid, "ReadDir of a file")
}

func pathsMustBeAbsolute(e *env) {
	sb := e.sandbox()
	ctx := e.ctx()
	for _, name := range []string{"", "relative", "./x", "a\x00b"} {
		_, err := atoll.ReadFile(ctx, sb, name)
		e.want(err, atoll.ErrInvalid, "ReadFile "+name)
		e.want(sb.Import(ctx, name, e.archive()), atoll.ErrInvalid, "Import "+name)
		_, err = sb.Export(ctx, name)
		e.want(err, atoll.ErrInvalid, "Export "+name)
	}
}

// writeIsAtomic lets readers inside look while a file is replaced: each
// sees one content whole.
func writeIsAtomic(e *env) {
	sb := e.sandbox()
	contents := [2][]byte{bytes.Repeat([]byte("a"), 300_000), bytes.Repeat([]byte("b"), 200_000)}
	write := func(i int) {
		if err := atoll.WriteFile(e.ctx(), sb, "/tmp/atomic", contents[i%2], 0o644); err != nil {
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
		b, err := atoll.ReadFile(e.ctx(), sb, "/tmp/atomic")
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
	list, err := atoll.ReadDir(e.ctx(), sb, "/tmp")
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
	sb := e.sandbox()
	for _, name := range []string{"a b", "-n", "*", "a\nb", "'", `"`, `\`, "ü", "日本", "$(id)", strings.Repeat("n", 200)} {
		full := path.Join("/tmp/odd", name)
		if err := atoll.WriteFile(e.ctx(), sb, full, []byte(name), fs.FileMode(0o644)); err != nil {
			e.Errorf("WriteFile %q: %v", name, err)
			continue
		}
		exit := e.exec(sb, atoll.Cmd{Args: []string{"cat", full}})
		eq(e, "content inside", string(exit.Stdout), name)
		b, err := atoll.ReadFile(e.ctx(), sb, full)
		if err != nil || string(b) != name {
			e.Errorf("ReadFile %q: %q, %v", name, b, err)
		}
	}
}
