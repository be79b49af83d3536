package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/atoll-sandbox/atoll"
)

// tarOf returns a tar stream of entries; a regular file has as content its Linkname.
func tarOf(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range entries {
		content := ""
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			content, h.Linkname, h.Typeflag = h.Linkname, "", tar.TypeReg
			h.Size = int64(len(content))
		}
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tw, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func writeArchive(t *testing.T, files []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	m := &atoll.SandboxArchive{Version: atoll.SandboxArchiveVersion, Sandbox: "s1", Files: atoll.PackedFiles{Kind: atoll.PackedRoot, Dir: "/", ReadCloser: io.NopCloser(bytes.NewReader(files))}}
	if err := Write(t.Context(), &b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readArchive(b []byte) ([]byte, error) {
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func TestArchive(t *testing.T) {
	for _, size := range []int{0, 1, partSize - 1, partSize, partSize + 1, 3*partSize + 7} {
		files := bytes.Repeat([]byte("atoll"), size/5+1)[:size]
		if got, err := readArchive(writeArchive(t, files)); err != nil || !bytes.Equal(got, files) {
			t.Errorf("%d bytes: %d came back: %v", size, len(got), err)
		}
	}
}

// TestBrokenArchive: an archive that was cut or changed anywhere is an error, and never a shorter
// stream.
func TestBrokenArchive(t *testing.T) {
	files := tarOf(t, tar.Header{Name: "a", Linkname: strings.Repeat("content", 100)})
	whole := writeArchive(t, files)
	for n := range whole {
		if _, err := readArchive(whole[:n]); err == nil {
			t.Fatalf("cut to %d of %d bytes: no error", n, len(whole))
		}
	}
	for n := range whole {
		b := bytes.Clone(whole)
		b[n] ^= 0x40
		got, err := readArchive(b)
		if err == nil && !bytes.Equal(got, files) {
			t.Fatalf("byte %d changed: %d other bytes, no error", n, len(got))
		}
	}
}

// TestForeignArchive: other files, later versions and entries that do not belong are refused with
// the reason.
func TestForeignArchive(t *testing.T) {
	pack := func(entries ...tar.Header) []byte {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(tarOf(t, entries...)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	manifest := tar.Header{Name: manifestName, Linkname: `{"version":1,"files":{}}`}
	for name, c := range map[string]struct {
		archive []byte
		want    error
		text    string
	}{
		"empty":          {nil, atoll.ErrInvalid, "does not begin"},
		"text":           {[]byte("hello, world"), atoll.ErrInvalid, "does not begin"},
		"plain tar":      {tarOf(t, manifest), atoll.ErrInvalid, "does not begin"},
		"other tar":      {pack(tar.Header{Name: "etc/passwd"}), atoll.ErrInvalid, "export-sandbox"},
		"later version":  {pack(tar.Header{Name: manifestName, Linkname: `{"version":2,"new":1}`}), atoll.ErrUnsupported, "version 2"},
		"unknown field":  {pack(tar.Header{Name: manifestName, Linkname: `{"version":1,"new":1}`}), atoll.ErrInvalid, "new"},
		"no JSON":        {pack(tar.Header{Name: manifestName, Linkname: `{`}), atoll.ErrInvalid, manifestName},
		"huge manifest":  {pack(tar.Header{Name: manifestName, Linkname: strings.Repeat(" ", maxManifest+1)}), atoll.ErrInvalid, "more than"},
		"no digest":      {pack(manifest), atoll.ErrInvalid, "digest"},
		"other entry":    {pack(manifest, tar.Header{Name: "other"}), atoll.ErrInvalid, "other"},
		"missing part":   {pack(manifest, tar.Header{Name: "files/00000001"}), atoll.ErrInvalid, "files/00000000"},
		"wrong digest":   {pack(manifest, tar.Header{Name: "files/00000000", Linkname: "x"}, tar.Header{Name: summaryName, Linkname: `{"bytes":1,"sha256":"00"}`}), atoll.ErrInvalid, "digest"},
		"link as a part": {pack(manifest, tar.Header{Name: "files/00000000", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}), atoll.ErrInvalid, "files/00000000"},
	} {
		if _, err := readArchive(c.archive); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v and %q", name, err, c.want, c.text)
		}
	}
}

// TestFilter: what a driver may get, and what it never gets.
func TestFilter(t *testing.T) {
	deep := strings.Repeat("d/", maxDepth+1) + "f"
	for name, c := range map[string]struct {
		entry tar.Header
		want  error
		left  string // name of the entry in the result; "": it is left out
	}{
		"file":              {tar.Header{Name: "./a//b"}, nil, "a/b"},
		"directory":         {tar.Header{Name: "d", Typeflag: tar.TypeDir}, nil, "d/"},
		"top":               {tar.Header{Name: ".", Typeflag: tar.TypeDir}, nil, "./"},
		"pipe":              {tar.Header{Name: "p", Typeflag: tar.TypeFifo}, nil, "p"},
		"link out":          {tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}, nil, "l"}, // drivers never follow it
		"device":            {tar.Header{Name: "sda", Typeflag: tar.TypeBlock, Devmajor: 8}, nil, ""},
		"null":              {tar.Header{Name: "null", Typeflag: tar.TypeChar}, nil, ""},
		"absolute":          {tar.Header{Name: "/etc/passwd"}, atoll.ErrInvalid, ""},
		"out":               {tar.Header{Name: "a/../../b"}, atoll.ErrInvalid, ""},
		"dots":              {tar.Header{Name: ".."}, atoll.ErrInvalid, ""},
		"hard link out":     {tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "../x"}, atoll.ErrInvalid, ""},
		"hard link to root": {tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}, atoll.ErrInvalid, ""},
		"file as top":       {tar.Header{Name: "."}, atoll.ErrInvalid, ""},
		"long name":         {tar.Header{Name: strings.Repeat("n", maxName+1)}, atoll.ErrInvalid, ""},
		"long path":         {tar.Header{Name: strings.Repeat("n/", maxPath/2) + "n"}, atoll.ErrInvalid, ""},
		"deep":              {tar.Header{Name: deep}, atoll.ErrInvalid, ""},
		"unknown kind":      {tar.Header{Name: "k", Typeflag: 'Z'}, atoll.ErrInvalid, ""},
		"no target":         {tar.Header{Name: "l", Typeflag: tar.TypeSymlink}, atoll.ErrInvalid, ""},
		"large owner":       {tar.Header{Name: "o", Uid: 1 << 40}, atoll.ErrInvalid, ""},
		"size":              {tar.Header{Name: "s", Linkname: strings.Repeat("x", 101)}, atoll.ErrQuota, ""},
	} {
		rc := Filter(bytes.NewReader(tarOf(t, c.entry)), Limits{Bytes: 100}, nil)
		tr := tar.NewReader(rc)
		h, err := tr.Next()
		if c.want != nil || c.left == "" && c.want == nil {
			if c.want == nil {
				c.want = io.EOF
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		} else if err != nil || h.Name != c.left {
			t.Errorf("%s: %v %v, want %q", name, h, err, c.left)
		}
		if err := rc.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFilterAttributes: modes have no more than permissions, and of the extended attributes those of
// users remain.
func TestFilterAttributes(t *testing.T) {
	rc := Filter(bytes.NewReader(tarOf(t, tar.Header{Name: "f", Mode: 0o104755, Uname: "root", PAXRecords: map[string]string{
		"SCHILY.xattr.user.mine": "1", "SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.user.overlay.redirect": "/etc", "SCHILY.xattr.trusted.overlay.opaque": "y",
		"SCHILY.xattr.security.capability": "x", "SCHILY.xattr.system.posix_acl_access": "x",
	}})), Limits{}, nil)
	defer rc.Close()
	h, err := tar.NewReader(rc).Next()
	if err != nil {
		t.Fatal(err)
	}
	if h.Mode != 0o4755 || h.Uname != "" || len(h.PAXRecords) != 1 || h.PAXRecords["SCHILY.xattr.user.mine"] != "1" {
		t.Errorf("header %+v", h)
	}
}

// TestFilterEntries: the number of entries is limited.
func TestFilterEntries(t *testing.T) {
	rc := Filter(bytes.NewReader(tarOf(t, tar.Header{Name: "a"}, tar.Header{Name: "b"}, tar.Header{Name: "c"})), Limits{Entries: 2}, nil)
	if _, err := io.Copy(io.Discard, rc); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("three entries: %v", err)
	}
	if err := rc.Close(); err != nil {
		t.Error(err)
	}
}

// TestFilterEndsAfterSource: a stream whose digest turns out to be wrong does not end like an
// archive.
func TestFilterEndsAfterSource(t *testing.T) {
	wrong := errors.New("wrong digest")
	rc := Filter(io.MultiReader(bytes.NewReader(tarOf(t, tar.Header{Name: "a"})), errorReader{wrong}), Limits{}, nil)
	defer rc.Close()
	tr := tar.NewReader(rc)
	if _, err := tr.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Next(); !errors.Is(err, wrong) {
		t.Errorf("the end: %v", err)
	}
}

type errorReader struct{ error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.error }

// TestBelow: names are relative to the directory, and others are left out.
func TestBelow(t *testing.T) {
	in := tarOf(t,
		tar.Header{Name: "work", Typeflag: tar.TypeDir}, tar.Header{Name: "work/a"}, tar.Header{Name: "workshop/b"}, tar.Header{Name: "etc/c"},
		tar.Header{Name: "work/h", Typeflag: tar.TypeLink, Linkname: "work/a"}, tar.Header{Name: "work/out", Typeflag: tar.TypeLink, Linkname: "etc/c"})
	rc := Filter(bytes.NewReader(in), Limits{}, Below("work"))
	defer rc.Close()
	tr := tar.NewReader(rc)
	var names []string
	for {
		h, err := tr.Next()
		if err != nil {
			if !errors.Is(err, atoll.ErrUnsupported) || !strings.Contains(err.Error(), "work/out") {
				t.Errorf("a hard link out: %v", err)
			}
			break
		}
		names = append(names, h.Name+h.Linkname)
	}
	if got := strings.Join(names, " "); got != "./ a ha" {
		t.Errorf("names %q", got)
	}
}

// endless repeats bytes without end.
type endless struct {
	b  []byte
	at int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		c := copy(p[n:], e.b[e.at:])
		n, e.at = n+c, (e.at+c)%len(e.b)
	}
	return n, nil
}

// TestEndlessStreams: what costs its sender nothing, compressed, does not keep the reader at work.
func TestEndlessStreams(t *testing.T) {
	entry := func(h tar.Header) []byte { b := tarOf(t, h); return b[:len(b)-1024] } // without the end
	large := entry(tar.Header{Name: "a", Typeflag: tar.TypeDir, PAXRecords: map[string]string{"SCHILY.xattr.trusted.a": strings.Repeat("x", 900<<10)}})
	for name, c := range map[string]struct {
		in     io.Reader
		limits Limits
		want   error
	}{
		"Devices":          {&endless{b: entry(tar.Header{Name: "d", Typeflag: tar.TypeChar})}, Limits{Entries: 1000}, atoll.ErrQuota},
		"GlobalHeaders":    {&endless{b: entry(tar.Header{Name: "g", Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}})}, Limits{Entries: 1000}, atoll.ErrQuota},
		"Attributes":       {&endless{b: large}, Limits{Bytes: 1 << 20, Entries: 1000}, atoll.ErrQuota},
		"ZerosAfterTheEnd": {io.MultiReader(bytes.NewReader(tarOf(t, tar.Header{Name: "a"})), &endless{b: make([]byte, 1<<10)}), Limits{}, atoll.ErrInvalid},
	} {
		rc := Filter(c.in, c.limits, nil)
		if _, err := io.Copy(io.Discard, rc); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		_ = rc.Close() // of a stream that failed
	}
}

// TestEmptyParts: parts without content could follow each other without end.
func TestEmptyParts(t *testing.T) {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	tw := tar.NewWriter(z)
	if err := writeJSON(tw, manifestName, &atoll.SandboxArchive{Version: atoll.SandboxArchiveVersion}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writeEntry(tw, partPrefix+"00000000", nil), writeEntry(tw, partPrefix+"00000001", nil), tw.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := readArchive(b.Bytes()); !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "of 0 bytes") {
		t.Errorf("error %v", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		defer r.Close()
		rc := Filter(r, Limits{Bytes: 1 << 20, Entries: 1000}, nil)
		defer rc.Close()
		_, _ = io.Copy(io.Discard, rc) // an error is fine
	})
}
