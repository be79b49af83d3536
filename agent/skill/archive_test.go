package skill_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent/skill"
)

// entry is one of an archive.
type entry struct {
	name string
	mode fs.FileMode
	text string
	link string
}

func makeZip(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(e.text + e.link))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func makeTar(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), Size: int64(len(e.text)), Typeflag: tar.TypeReg, Linkname: e.link}
		switch {
		case e.mode.IsDir():
			h.Typeflag = tar.TypeDir
		case e.mode&fs.ModeSymlink != 0:
			h.Typeflag = tar.TypeSymlink
		case e.mode&fs.ModeIrregular != 0:
			h.Typeflag = tar.TypeLink
		case e.mode&fs.ModeDevice != 0:
			h.Typeflag = tar.TypeChar
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), g.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// listTree lists what is beneath a directory, with modes and texts.
func listTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, rerr := os.ReadFile(name)
		info, ierr := e.Info()
		if err := errors.Join(rerr, ierr); err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		list[rel] = info.Mode().String() + " " + string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestExtract(t *testing.T) {
	good := []entry{{"s/", fs.ModeDir | 0o755, "", ""}, {"s/SKILL.md", 0o600, "x", ""}, {"s/scripts/run", 0o4777, "y", ""}}
	want := map[string]string{"s/SKILL.md": "-rw-r--r-- x", "s/scripts/run": "-rwxr-xr-x y"}
	for name, b := range map[string][]byte{"a.zip": makeZip(t, good...), "a.skill": makeZip(t, good...), "a.tar.gz": makeTar(t, good...), "a.TGZ": makeTar(t, good...)} {
		file, dir := filepath.Join(t.TempDir(), name), t.TempDir()
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if !skill.IsArchive(name) {
			t.Errorf("%s is no archive", name)
		}
		if err := skill.Extract(dir, file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, listTree(t, dir)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestHostileArchives(t *testing.T) {
	many := make([]entry, 2001)
	for i := range many {
		many[i] = entry{strings.Repeat("d", i%200+1) + string(rune('a'+i/200)), 0o644, "", ""}
	}
	for law, entries := range map[string][]entry{
		"Climbs":      {{"../x", 0o644, "evil", ""}},
		"ClimbsLater": {{"a/../../x", 0o644, "evil", ""}},
		"Absolute":    {{"/tmp/x", 0o644, "evil", ""}},
		"Backslash":   {{`..\x`, 0o644, "evil", ""}},
		"Link":        {{"a", fs.ModeSymlink | 0o777, "", "/etc"}, {"a/x", 0o644, "evil", ""}},
		"Twice":       {{"a", 0o644, "1", ""}, {"a", 0o644, "2", ""}},
		"FileAsDir":   {{"a", 0o644, "1", ""}, {"a/b", 0o644, "2", ""}},
		"Many":        many,
		"Big":         {{"a", 0o644, strings.Repeat("\x00", 65<<20), ""}},
		"Deep":        {{strings.Repeat("a/", 20) + "x", 0o644, "", ""}},
	} {
		for name, b := range map[string][]byte{"a.zip": makeZip(t, entries...), "a.tar.gz": makeTar(t, entries...)} {
			top := t.TempDir()
			file, dir := filepath.Join(top, name), filepath.Join(top, "in", "dir")
			if err := errors.Join(os.WriteFile(file, b, 0o600), os.MkdirAll(dir, 0o755)); err != nil {
				t.Fatal(err)
			}
			if err := skill.Extract(dir, file); !errors.Is(err, atoll.ErrInvalid) && !errors.Is(err, atoll.ErrQuota) && err == nil {
				t.Errorf("%s %s: it was unpacked", law, name)
			}
			if list := listTree(t, top); len(list) > 2002 || list["in/x"] != "" || list["x"] != "" {
				t.Errorf("%s %s: %v", law, name, list)
			}
		}
	}
	for law, e := range map[string]entry{"HardLink": {"a", fs.ModeIrregular, "", "/etc/passwd"}, "Device": {"a", fs.ModeDevice, "", ""}} {
		file := filepath.Join(t.TempDir(), "a.tar.gz")
		if err := os.WriteFile(file, makeTar(t, e), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := skill.Extract(t.TempDir(), file); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%s: %v", law, err)
		}
	}
	for name, b := range map[string]string{"a.zip": "PK\x03\x04garbage", "a.tar.gz": "\x1f\x8bgarbage", "a.tar": "garbage"} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := skill.Extract(t.TempDir(), file); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
