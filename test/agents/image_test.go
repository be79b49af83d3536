//go:build linux

package agents

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// programs are the programs of the host in the image: what agents need.
var programs = strings.Fields("bash cat chmod cp cut env false grep head id ls mkdir mv rm sed setsid sleep sort stat tail tee touch tr true uname wc")

// importProgramsImage imports an image with programs of this host and their libraries,
// once, and returns its name.
func importProgramsImage(t *testing.T, images atoll.ImageImporter) string {
	t.Helper()
	if sharedImage.image != "" {
		return sharedImage.image
	}
	b := &imageBuilder{made: map[string]bool{}}
	b.Writer = tar.NewWriter(&b.archive)
	for _, dir := range []string{"tmp", "workspace", "var/lib", "opt", "home"} {
		b.addDir(t, dir)
	}
	for _, name := range programs {
		file, err := exec.LookPath(name)
		if err != nil {
			testenv.Skip(t, "docker", "%v", err)
		}
		b.addProgram(t, file, "usr/bin/"+name)
	}
	for _, name := range []string{"librt.so.1", "libdl.so.2", "libpthread.so.0", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"} { // agents also need these
		if file := findLibrary(name); file != "" {
			b.addProgram(t, file, strings.TrimPrefix(file, "/"))
		}
	}
	b.addLink(t, "bash", "usr/bin/sh")
	b.addLink(t, "usr/bin", "bin")
	b.addText(t, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\natoll:x:1000:1000::/home:/bin/bash\n")
	b.addText(t, "etc/group", "root:x:0:\natoll:x:1000:\n")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := images.ImportImage(t.Context(), "atoll-agents:test", &b.archive, nil); err != nil {
		t.Fatalf("ImportImage: %v", err)
	}
	sharedImage.image = "atoll-agents:test"
	return sharedImage.image
}

// findLibrary returns the path of a library of this host.
func findLibrary(name string) string {
	for _, dir := range []string{"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib"} {
		if file := filepath.Join(dir, name); fileExists(file) {
			return file
		}
	}
	return ""
}

func fileExists(file string) bool { _, err := os.Stat(file); return err == nil }

// imageBuilder builds the archive of an image.
type imageBuilder struct {
	*tar.Writer

	archive bytes.Buffer
	made    map[string]bool
}

func (b *imageBuilder) writeEntry(t *testing.T, h tar.Header, data []byte) {
	t.Helper()
	if b.made[h.Name] {
		return
	}
	b.made[h.Name] = true
	if dir := path.Dir(strings.TrimSuffix(h.Name, "/")); dir != "." {
		b.addDir(t, dir)
	}
	h.Size = int64(len(data))
	if err := b.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(data); err != nil {
		t.Fatal(err)
	}
}

func (b *imageBuilder) addDir(t *testing.T, name string) {
	t.Helper()
	mode := int64(0o755)
	if name == "tmp" {
		mode = 0o1777
	}
	b.writeEntry(t, tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: mode}, nil)
}

func (b *imageBuilder) addLink(t *testing.T, to, name string) {
	t.Helper()
	b.writeEntry(t, tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}, nil)
}

func (b *imageBuilder) addText(t *testing.T, name, text string) {
	t.Helper()
	b.writeEntry(t, tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, []byte(text))
}

// addProgram adds a program or library of the host, and the libraries that it needs.
func (b *imageBuilder) addProgram(t *testing.T, file, name string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b.writeEntry(t, tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755}, data)
	out, err := exec.CommandContext(t.Context(), "ldd", file).Output()
	if err != nil {
		return // a static program
	}
	for _, word := range strings.Fields(string(out)) {
		if !strings.HasPrefix(word, "/") || b.made[strings.TrimPrefix(word, "/")] {
			continue
		}
		lib, err := os.ReadFile(word)
		if err != nil {
			t.Fatal(err)
		}
		b.writeEntry(t, tar.Header{Name: strings.TrimPrefix(word, "/"), Typeflag: tar.TypeReg, Mode: 0o755}, lib)
	}
}
