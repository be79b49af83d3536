package project

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// gitImage is the name of an image with a shell and git.
const gitImage = "atoll-project:test"

// importImage imports an image of this host's static busybox and git into the fixture's
// driver; every up uses it.
func (w *fixture) importImage(what string) {
	w.t.Helper()
	file := w.joinPath("image.tar")
	if err := os.WriteFile(file, buildRootFS(w.t, what), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.runAtoll(0, "/", "image", "import", gitImage, file)
	w.up = append(w.up, "--image", gitImage)
}

// buildRootFS returns the archive of the image.
func buildRootFS(t testing.TB, what string) []byte {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		testenv.Skip(t, what, "no busybox (apt-get install busybox-static): %v", err)
	}
	list, err := exec.CommandContext(t.Context(), busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	b := &archiveBuilder{t: t, made: map[string]bool{}}
	b.tar = tar.NewWriter(&b.bytes)
	b.writeEntry(tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, nil)
	for _, dir := range []string{"root", "var", "home"} {
		b.addDir(dir)
	}
	data, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	b.writeEntry(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, data)
	for _, name := range strings.Fields(string(list)) {
		if name != "busybox" {
			b.addLink("/bin/busybox", "bin/"+name)
		}
	}
	b.addLink("/bin/busybox", "usr/bin/env")
	for _, p := range listGitFiles(t) {
		data, err := os.ReadFile(p.file)
		if err != nil {
			t.Fatal(err)
		}
		b.writeEntry(tar.Header{Name: p.name, Typeflag: tar.TypeReg, Mode: 0o755}, data)
	}
	b.addText("etc/passwd", "root:x:0:0:root:/root:/bin/sh\natoll:x:1000:1000::/home:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")
	b.addText("etc/group", "root:x:0:\natoll:x:1000:\nnogroup:x:65534:\n")
	if err := b.tar.Close(); err != nil {
		t.Fatal(err)
	}
	return b.bytes.Bytes()
}

// archiveBuilder builds the archive of a root file system.
type archiveBuilder struct {
	t     testing.TB
	tar   *tar.Writer
	bytes bytes.Buffer
	made  map[string]bool
}

func (b *archiveBuilder) writeEntry(h tar.Header, data []byte) {
	b.t.Helper()
	if b.made[h.Name] {
		return
	}
	b.made[h.Name] = true
	if dir := path.Dir(strings.TrimSuffix(h.Name, "/")); dir != "." {
		b.addDir(dir)
	}
	h.Size = int64(len(data))
	if err := b.tar.WriteHeader(&h); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.tar.Write(data); err != nil {
		b.t.Fatal(err)
	}
}

func (b *archiveBuilder) addDir(name string) {
	b.writeEntry(tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
}

func (b *archiveBuilder) addLink(to, name string) {
	b.writeEntry(tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}, nil)
}

func (b *archiveBuilder) addText(name, text string) {
	b.writeEntry(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, []byte(text))
}

// imageFile is a file of the host that is copied into an image.
type imageFile struct{ name, file string }

// listGitFiles returns this host's git programs, at the paths where git looks for them,
// and their libraries.
func listGitFiles(t testing.TB) []imageFile {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		testenv.Skip(t, "git", "no git: %v", err)
	}
	core, err := exec.CommandContext(t.Context(), git, "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	list := []imageFile{{"usr/bin/git", git}, {strings.TrimPrefix(strings.TrimSpace(string(core)), "/") + "/git", git}}
	out, err := exec.CommandContext(t.Context(), "ldd", git).Output()
	if err != nil {
		return list // a static program
	}
	for _, word := range strings.Fields(string(out)) {
		if filepath.IsAbs(word) {
			list = append(list, imageFile{strings.TrimPrefix(word, "/"), word})
		}
	}
	return list
}
