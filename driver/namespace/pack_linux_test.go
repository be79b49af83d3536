package namespace_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/imagetest"
)

// TestPackedLayer: the changes to an image, removed and replaced files included, come back on
// another host, holes stay holes, and no copy is left where they were packed.
func TestPackedLayer(t *testing.T) {
	here, there := newDriver(t), newDriver(t)
	spec := atoll.Spec{Image: "packed:1"}
	for _, d := range []interface {
		atoll.ImageImporter
	}{here, there} {
		if _, err := d.ImportImage(t.Context(), spec.Image, imagetest.MakeBusybox(t, "namespace"), nil); err != nil {
			t.Fatal(err)
		}
	}
	sb, err := here.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	run := func(sb atoll.Sandbox, command string) string {
		t.Helper()
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: command})
		if err != nil || exit.Code != 0 {
			t.Fatalf("%s: %v %d %s", command, err, exit.Code, exit.Stderr)
		}
		return string(exit.Stdout)
	}
	run(sb, "cd /workspace; mkdir sub; echo x >sub/a; dd if=/dev/zero of=holes bs=1 count=1 seek=64M 2>/dev/null; echo tail >>holes")
	const show = "cd /workspace; cat sub/a; ls -l holes | tr -s ' ' | cut -d' ' -f5; test $(du -k holes | cut -f1) -lt 100 && echo sparse"
	want := run(sb, show)
	if !strings.HasSuffix(want, "sparse\n") {
		t.Fatalf("the original has %q", want)
	}
	dead := filepath.Join(here.Dir, sb.ID(), "snapshots", "sdead")
	if err := errors.Join(os.MkdirAll(filepath.Join(dead, "root"), 0o700), os.WriteFile(filepath.Join(dead, "packing"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	packed, err := sb.(atoll.FilePacker).PackFiles(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy that a dead process was packing: %v", err)
	}
	another, err := sb.(atoll.FilePacker).PackFiles(t.Context(), "") // the first is in use
	if err != nil {
		t.Fatal(err)
	}
	if err := another.Close(); err != nil {
		t.Error(err)
	}
	all, err := io.ReadAll(packed)
	if err = errors.Join(err, packed.Close()); err != nil {
		t.Fatal(err)
	}
	if len(all) > 1<<20 {
		t.Errorf("the archive of a file with holes has %d bytes", len(all))
	}
	if left, _ := filepath.Glob(filepath.Join(here.Dir, sb.ID(), "snapshots", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	unpack := func(digest string) (atoll.Sandbox, error) {
		f := *packed
		f.ReadCloser, f.Image = io.NopCloser(bytes.NewReader(all)), digest
		return there.CreatePacked(t.Context(), spec, &f)
	}
	second, err := unpack(packed.Image)
	if err != nil {
		t.Fatal(err)
	}
	if got := run(second, show); got != want {
		t.Errorf("imported: %q, want %q", got, want)
	}
	if _, err := unpack("sha256:" + strings.Repeat("0", 64)); !errors.Is(err, atoll.ErrUnsupported) || !strings.Contains(err.Error(), "digest") {
		t.Errorf("on another image: %v", err)
	}
	f := atoll.PackedFiles{Kind: atoll.PackedLayer, Dir: "/", ReadCloser: io.NopCloser(strings.NewReader(""))}
	if _, err := there.CreatePacked(t.Context(), atoll.Spec{Runtime: "runsc"}, &f); !errors.Is(err, atoll.ErrUnsupported) || !strings.Contains(err.Error(), "files of another") {
		t.Errorf("with the runtime runsc, whose mounts follow links: %v", err) // tmp as a link to a directory of the host
	}
	for _, sb := range []atoll.Sandbox{sb, second} {
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if list, err := os.ReadDir(there.Dir); err != nil || containsSandbox(list) {
		t.Errorf("left behind: %v %v", list, err)
	}
}

// containsSandbox reports whether a state directory has a sandbox.
func containsSandbox(list []os.DirEntry) bool {
	for _, e := range list {
		if atoll.CheckID(e.Name()) == nil {
			return true
		}
	}
	return false
}

// TestHostilePackedFiles: directories that the driver sets up, as links to a directory of the host,
// show and change nothing of it.
func TestHostilePackedFiles(t *testing.T) {
	d := newDriver(t)
	if _, err := d.ImportImage(t.Context(), "hostile:1", imagetest.MakeBusybox(t, "namespace"), nil); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(outside), 0o755), os.Chmod(outside, 0o777), os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644)); err != nil { //nolint:gosec // nothing but the driver is to protect it
		t.Fatal(err)
	}
	for _, image := range []string{"", "hostile:1"} {
		digest := ""
		if image != "" {
			list, err := d.Images(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			digest = list[0].Digest
		}
		for _, name := range []string{"tmp", "var", "etc", "usr", "dev", "proc", "run", "home", "workspace", "etc/passwd"} {
			var b bytes.Buffer
			tw := tar.NewWriter(&b)
			err := errors.Join(tw.WriteHeader(&tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}),
				tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: outside}), tw.Close())
			if err != nil {
				t.Fatal(err)
			}
			sb, err := d.CreatePacked(t.Context(), atoll.Spec{Image: image}, &atoll.PackedFiles{Kind: atoll.PackedLayer, Image: digest, Dir: "/", ReadCloser: io.NopCloser(&b)})
			if err != nil {
				t.Logf("%s, image %q: %v", name, image, err)
				continue
			}
			exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "cat /" + name + "/secret " + outside + "/secret; echo planted >/" + name + "/planted", Dir: "/"})
			if err == nil && strings.Contains(string(exit.Stdout), "secret") {
				t.Errorf("%s, image %q: it reads a file of the host", name, image)
			}
			if err := sb.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
		t.Errorf("outside: %v %v", list, err)
	}
}
