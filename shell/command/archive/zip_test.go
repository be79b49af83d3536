package archive_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// zipped returns an archive of names and contents, given in turn; a name with @ is a symbolic link.
func zipped(t testing.TB, members ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i+1 < len(members); i += 2 {
		h := &zip.FileHeader{Name: members[i], Modified: commandtest.TreeTime, Method: zip.Store}
		h.SetMode(0o644)
		if name, ok := bytes.CutPrefix([]byte(h.Name), []byte("@")); ok {
			h.Name = string(name)
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(members[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestZipAgreesWithTheRealOne(t *testing.T) {
	tree := []string{"d/a=" + commandtest.CountTo(100), "f=hello\n", "g=more\n", "e/", "l->f"}
	var cases []commandtest.Case
	for _, run := range []string{
		"zip x.zip f\nzip x.zip f\nzip x.zip g\nunzip -l x.zip\nzip -d x.zip f\nunzip -Z1 x.zip\nrm x.zip", "zip -q q.zip f d\nunzip -Z1 q.zip\nrm q.zip", "zip -j j.zip d/a f\nunzip -t j.zip\nrm j.zip", "zip n.zip nofile", "zip -r n.zip nofile",
		"zip x.zip f\nzip -d x.zip zz\nrm x.zip", "zip -r r.zip d\nunzip r.zip -d o\nunzip -o r.zip -d o\nunzip -n r.zip -d o\nrm r.zip", "zip -rq r.zip d\nunzip -p r.zip d/a\nunzip -c r.zip d/a\nunzip -qq -c r.zip d/a\nrm r.zip", "unzip nofile", "unzip f",
		"zip -rq r.zip d f\nunzip -j -o r.zip -d o3\nunzip -o r.zip zz\nunzip -o r.zip -x 'd/*' -d o5\nunzip -l r.zip 'd/*'\nrm r.zip", "zip bad.zip", "zip -r i.zip d f -i '*/a'\nunzip -Z1 i.zip\nrm i.zip", "zip -r i.zip d f -x '*/a'\nunzip -Z1 i.zip\nrm i.zip",
		"zip -0 z0.zip d/a\nrm z0.zip", "zip -m m.zip g\nrm m.zip", "zip x f\nrm x.zip", "zip -q x.zip f\nunzip -d oo x\nrm x.zip", "zip -q y.zip -y l\nunzip -o y.zip -d o\nrm y.zip", "zip -q s.zip -\nunzip -p s.zip\nrm s.zip", "zip -q x.zip f\nunzip -v x.zip\nrm x.zip",
		"zip -rq e.zip e\nunzip e.zip -d o\nrm e.zip", "zip -q x.zip f\nunzip -q x.zip\nrm x.zip", "zip -D -r x.zip d\nrm x.zip", "zip -T x.zip f\nrm x.zip", "zip -q@ x.zip\nrm x.zip", "zip -u x.zip f\nzip -u x.zip f\nrm x.zip",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Loose: true, Stdin: "g\n"})
	}
	commandtest.Compare(t, cases)
}

// TestUnzipStaysInItsDirectory extracts archives that try to leave it.
func TestUnzipStaysInItsDirectory(t *testing.T) {
	for name, archive := range map[string]string{
		"Dots":     zipped(t, "../escape", "x", "a/../../../escape", "x"),
		"Absolute": zipped(t, "/escape", "x"),
		"Link":     zipped(t, "@l", "/", "l/escape", "x"),
		"Up":       zipped(t, "@l", "../..", "l/escape", "x"),
		"FileLink": zipped(t, "@l", "/secret", "l", "x"),
	} {
		t.Run(name, func(t *testing.T) {
			s := commandtest.New(t, "/work")
			s.Must(s.FS.MkdirAll("/work/in/side", 0o755))
			s.Must(s.FS.WriteFile("/secret", []byte("kept"), 0o600))
			s.WriteFile("x.zip", archive)
			s.Exec("", "unzip", "-o", "x.zip", "-d", "in/side")
			for _, p := range []string{"/escape", "/work/escape", "/work/in/escape"} {
				if _, err := s.FS.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s was made: %v", p, err)
				}
			}
			if got := s.ReadFile("/secret"); got != "kept" {
				t.Errorf("the file outside holds %q", got)
			}
		})
	}
}

// FuzzUnzip extracts random archives: nothing may leave the directory.
func FuzzUnzip(f *testing.F) {
	f.Add([]byte(zipped(f, "a", "x", "d/", "", "../b", "x")))
	f.Add([]byte(zipped(f, "@l", "/", "l/x", "x")))
	f.Add([]byte("PK\x05\x06\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00"))
	s := commandtest.New(f, "/work")
	f.Fuzz(func(t *testing.T, archive []byte) {
		s.TB = t
		s.Must(s.FS.RemoveAll("/work"))
		s.Must(s.FS.MkdirAll("/work/in/side", 0o755))
		s.WriteFile("x.zip", string(archive))
		for _, args := range [][]string{{"unzip", "-v", "x.zip"}, {"unzip", "-o", "x.zip", "-d", "in/side"}} {
			if got := s.Exec("", args...); got.Code == 134 {
				t.Fatalf("crashed: %s", got.Stderr)
			}
		}
		list, err := s.FS.ReadDir("/work/in")
		if err != nil || len(list) != 1 {
			t.Fatalf("in holds %v, %v", list, err)
		}
	})
}
