package backup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/backup"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// makeHome creates a home with files of all kinds.
func makeHome(t *testing.T) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	join := func(name string) string { return filepath.Join(home, name) }
	for _, dir := range []string{"sandboxes/s1/empty", "workspaces/a/b", "instances"} {
		must(t, os.MkdirAll(join(dir), 0o700))
	}
	long := strings.Repeat("long-name/", 15)
	must(t, os.MkdirAll(join("sandboxes/s1/"+long), 0o700))
	for name, text := range map[string]string{"atoll.db": "data", "sandboxes/s1/ä b": "umlaut", "sandboxes/s1/" + long + "f": "deep", "reserve": "space", "instances/i": "", "atoll.db-shm": "x"} {
		must(t, os.WriteFile(join(name), []byte(text), 0o600))
	}
	must(t, os.Link(join("atoll.db"), join("workspaces/a/b/hard")))
	must(t, os.Symlink("../../nowhere", join("sandboxes/s1/link")))
	must(t, os.WriteFile(join("sandboxes/s1/tool"), []byte("#!"), 0o755))
	must(t, os.Chmod(join("sandboxes/s1/tool"), 0o755|fs.ModeSetuid))
	f, err := os.Create(join("sandboxes/s1/disk"))
	must(t, err)
	_, err = f.WriteAt([]byte("end"), 64<<20)
	must(t, errors.Join(err, f.Truncate(65<<20), f.Close()))
	must(t, os.Chtimes(join("sandboxes/s1/empty"), time.Time{}, time.Unix(1e9, 0)))
	must(t, os.Chmod(join("sandboxes/s1/empty"), 0o500))
	t.Cleanup(func() { _ = os.Chmod(join("sandboxes/s1/empty"), 0o700) })
	return home
}

// listTree describes the files of a directory.
func listTree(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		must(t, err)
		info, err := d.Info()
		must(t, err)
		rel, err := filepath.Rel(dir, name)
		must(t, err)
		text := rel + " " + info.Mode().String()
		switch {
		case rel == ".":
			return nil
		case info.Mode().IsRegular():
			b, err := os.ReadFile(name)
			must(t, err)
			text += " " + info.ModTime().UTC().String() + " " + string(bytes.ReplaceAll(b, make([]byte, 1<<20), []byte("0")))
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			must(t, err)
			text += " " + target
		case rel == "sandboxes/s1/empty":
			text += " " + info.ModTime().UTC().String()
		}
		list = append(list, text)
		return nil
	}))
	return list
}

// TestBackupRestoresHome: a restored home has the same files, without those of processes.
func TestBackupRestoresHome(t *testing.T) {
	home := makeHome(t)
	var archive bytes.Buffer
	m, err := backup.Write(t.Context(), home, backup.Options{Version: "v1"}, &archive)
	must(t, err)
	if archive.Len() > 1<<20 {
		t.Errorf("the archive has %d bytes: holes take space", archive.Len())
	}
	to := filepath.Join(t.TempDir(), "new", "home")
	got, err := backup.Restore(t.Context(), bytes.NewReader(archive.Bytes()), to)
	must(t, err)
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "sandboxes/s1/empty"), 0o700) })
	if got.Entries != m.Entries || got.Atoll != "v1" || len(got.Skipped) > 0 {
		t.Errorf("manifest %+v, written %+v", got, m)
	}
	for _, name := range []string{"reserve", "instances", "atoll.db-shm"} {
		must(t, os.RemoveAll(filepath.Join(home, name)))
	}
	if a, b := listTree(t, home), listTree(t, to); !slices.Equal(a, b) {
		t.Errorf("restored:\n%s\nwant:\n%s", strings.Join(b, "\n"), strings.Join(a, "\n"))
	}
	one, err := os.Stat(filepath.Join(to, "atoll.db"))
	must(t, err)
	two, err := os.Stat(filepath.Join(to, "workspaces/a/b/hard"))
	must(t, err)
	if !os.SameFile(one, two) {
		t.Error("two names of one file are two files")
	}
	if _, err := backup.Restore(t.Context(), bytes.NewReader(archive.Bytes()), to); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("restore over a home: %v", err)
	}
}

// TestBackupOfLinkedHome: a home may be a link, and be restored to an empty directory that can't be
// replaced, such as a mount.
func TestBackupOfLinkedHome(t *testing.T) {
	home := makeHome(t)
	dir := t.TempDir()
	link, to := filepath.Join(dir, "link"), filepath.Join(dir, "to")
	must(t, os.Symlink(home, link))
	var archive bytes.Buffer
	m, err := backup.Write(t.Context(), link, backup.Options{}, &archive)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, "mount", "lost+found"), 0o700))
	must(t, os.Symlink("mount", to))
	_, err = backup.Restore(t.Context(), &archive, to)
	must(t, err)
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "sandboxes/s1/empty"), 0o700) })
	if b, err := os.ReadFile(filepath.Join(dir, "mount", "atoll.db")); err != nil || string(b) != "data" || m.Entries < 10 {
		t.Errorf("%q, %v; %d entries", b, err, m.Entries)
	}
	list, err := os.ReadDir(to)
	must(t, err)
	if len(list) != 4 { // atoll.db, lost+found, sandboxes, workspaces
		t.Errorf("left: %v", list)
	}
}

// TestIncompleteBackupRestoresNothing: an archive that ends too early or is damaged leaves nothing.
func TestIncompleteBackupRestoresNothing(t *testing.T) {
	home := makeHome(t)
	var archive bytes.Buffer
	_, err := backup.Write(t.Context(), home, backup.Options{Version: "v1"}, &archive)
	must(t, err)
	whole := archive.Bytes()
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-8] ^= 1 // in the checksum: a bit of the data may be one that nothing reads, such as padding
	for name, b := range map[string][]byte{
		"Empty": {}, "Text": []byte("no archive"), "Half": whole[:len(whole)/2], "WithoutChecksum": whole[:len(whole)-8], "Damaged": damaged,
		"WithoutManifest":  pack(t, &tar.Header{Typeflag: tar.TypeReg, Name: "home/f", Mode: 0o600}),
		"NameLeadsOut":     pack(t, &tar.Header{Typeflag: tar.TypeReg, Name: "home/../../f", Mode: 0o600}),
		"LinkLeadsOut":     pack(t, &tar.Header{Typeflag: tar.TypeSymlink, Name: "home/l", Linkname: "/tmp"}, &tar.Header{Typeflag: tar.TypeReg, Name: "home/l/f", Mode: 0o600}),
		"PipeBelowLink":    pack(t, &tar.Header{Typeflag: tar.TypeSymlink, Name: "home/l", Linkname: "/tmp"}, &tar.Header{Typeflag: tar.TypeFifo, Name: "home/l/f", Mode: 0o600}),
		"HardLinkLeadsOut": pack(t, &tar.Header{Typeflag: tar.TypeLink, Name: "home/l", Linkname: "home/../../etc/passwd"}),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := backup.Restore(t.Context(), bytes.NewReader(b), filepath.Join(dir, "home")); err == nil {
				t.Error("it was restored")
			}
			if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
				t.Errorf("left: %v, %v", list, err)
			}
		})
	}
}

// pack returns an archive of some entries, without a manifest.
func pack(t *testing.T, entries ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range entries {
		must(t, w.WriteHeader(h))
	}
	must(t, errors.Join(w.Close(), z.Close()))
	return b.Bytes()
}

// TestKeyFileIsNotInTheArchive writes a home that contains the key file, under two names.
func TestKeyFileIsNotInTheArchive(t *testing.T) {
	home := t.TempDir()
	key := filepath.Join(home, "keys", "secrets.key")
	must(t, os.Mkdir(filepath.Dir(key), 0o700))
	must(t, os.WriteFile(key, []byte("the key"), 0o600))
	must(t, os.Link(key, filepath.Join(home, "second-name")))
	must(t, os.WriteFile(filepath.Join(home, "atoll.db"), []byte("data"), 0o600))
	elsewhere := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(key, elsewhere))
	for _, name := range []string{key, elsewhere} {
		var archive bytes.Buffer
		m, err := backup.Write(t.Context(), home, backup.Options{Encrypted: true, KeyFile: name}, &archive)
		must(t, err)
		if !m.Encrypted || m.Entries != 2 {
			t.Errorf("manifest %+v, want 2 entries", m)
		}
		z, err := gzip.NewReader(&archive)
		must(t, err)
		b, err := io.ReadAll(z)
		must(t, err)
		if bytes.Contains(b, []byte("the key")) || !bytes.Contains(b, []byte("data")) {
			t.Error("the archive has the key, or lacks the registry")
		}
	}
}
