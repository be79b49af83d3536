package image

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// HostBusybox is the name of the image that is made of the host's static busybox.
const HostBusybox = "atoll/busybox:host"

// FindBusybox returns the path of the host's busybox, which must be static. Without one the error matches atoll.ErrNotFound.
func FindBusybox() (string, error) {
	for _, name := range []string{"busybox", "busybox.static"} { // the second is Alpine's
		if path, err := exec.LookPath(name); err == nil && isStatic(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: this host has no static busybox (Debian's package busybox-static)", atoll.ErrNotFound)
}

// isStatic reports whether a program needs no dynamic linker.
func isStatic(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // opened for reading
	return !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// BusyboxFiles returns the files of a root file system with a busybox of the host: the program, its
// commands as links, and who root is.
func BusyboxFiles(ctx context.Context, path string) ([]File, error) {
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := exec.CommandContext(ctx, path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w", path, err)
	}
	var files []File
	for _, dir := range []string{"bin/", "etc/", "usr/", "usr/bin/", "root/", "var/"} {
		files = append(files, File{Header: tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}})
	}
	files = append(files,
		File{Header: tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}},
		File{Header: tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, Content: program})
	for name := range bytes.FieldsSeq(list) {
		if string(name) != "busybox" {
			files = append(files, File{Header: tar.Header{Name: "bin/" + string(name), Typeflag: tar.TypeSymlink, Linkname: "busybox"}})
		}
	}
	files = append(files, File{Header: tar.Header{Name: "usr/bin/env", Typeflag: tar.TypeSymlink, Linkname: "/bin/busybox"}})
	for _, f := range []struct{ name, text string }{
		{"etc/passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"},
		{"etc/group", "root:x:0:\nnogroup:x:65534:\n"},
		{"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
	} {
		files = append(files, File{Header: tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: 0o644}, Content: []byte(f.text)})
	}
	return files, nil
}

// File is a file of an archive. The size in the header is set by WriteArchive.
type File struct {
	Header  tar.Header
	Content []byte
}

// WriteArchive returns an archive of files.
func WriteArchive(files []File) (*bytes.Buffer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var errs []error
	for _, f := range files {
		f.Header.Size = int64(len(f.Content))
		errs = append(errs, w.WriteHeader(&f.Header))
		_, err := w.Write(f.Content)
		errs = append(errs, err)
	}
	return &b, errors.Join(append(errs, w.Close())...)
}
