package main

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// image is a container image with one layer, built from files of this machine.
type image struct {
	name       string
	entrypoint []string
	cmd        []string
	env        []string
	user       string
	workdir    string
	busybox    bool
	files      []string // PATH=FILE
}

// stringList is a flag that may be repeated.
type stringList []string

func (l *stringList) String() string     { return strings.Join(*l, " ") }
func (l *stringList) Set(s string) error { *l = append(*l, s); return nil }

func imageCommand(ctx context.Context, args []string) error {
	var im image
	fs := flag.NewFlagSet("cluster image", flag.ContinueOnError)
	fs.Var((*stringList)(&im.cmd), "cmd", "a word of the default command (repeat it)")
	fs.Var((*stringList)(&im.entrypoint), "entrypoint", "a word of the entry point (repeat it)")
	fs.Var((*stringList)(&im.env), "env", "NAME=VALUE (repeat it)")
	fs.StringVar(&im.user, "user", "", "user, as UID or UID:GID")
	fs.StringVar(&im.workdir, "workdir", "", "working directory")
	fs.BoolVar(&im.busybox, "busybox", false, "add the static busybox and links for its applets")
	output := fs.String("output", "", "write the archive to this file instead of importing it into the node")
	rest, err := splitArgs(fs, args)
	if err != nil {
		return err
	}
	if len(rest) < 1 {
		return errors.New("usage: cluster image [OPTIONS] NAME:TAG PATH=FILE...")
	}
	im.name, im.files = rest[0], rest[1:]
	if *output != "" {
		return im.writeFile(*output)
	}
	s, err := currentState()
	if err != nil {
		return err
	}
	return im.loadIntoNode(ctx, s)
}

// loadIntoNode imports the image into the node's containerd.
func (im image) loadIntoNode(ctx context.Context, s stateDir) error {
	f, err := os.CreateTemp(string(s), "image-*.tar")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := im.write(f, string(s)); err != nil {
		return fmt.Errorf("image %s: %w", im.name, err)
	}
	if err := runCtr(ctx, s, "images", "import", f.Name()); err != nil {
		return fmt.Errorf("image %s: %w", im.name, err)
	}
	return nil
}

func (im image) writeFile(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(im.write(f, filepath.Dir(name)), f.Close())
}

// write writes the image in the format of docker save: layer, configuration,
// manifest. It builds the layer in a temporary file in dir.
func (im image) write(w io.Writer, dir string) error {
	layer, err := os.CreateTemp(dir, "layer-*.tar")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	digest := sha256.New()
	if err := im.writeLayer(io.MultiWriter(layer, digest)); err != nil {
		return err
	}
	size, err := layer.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	id := hex.EncodeToString(digest.Sum(nil))
	config, err := im.marshalConfig(id)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": "config.json", "RepoTags": []string{im.name}, "Layers": []string{id + ".tar"},
	}})
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for _, f := range []struct {
		name string
		body io.Reader
		size int64
	}{
		{id + ".tar", layer, size},
		{"config.json", strings.NewReader(string(config)), int64(len(config))},
		{"manifest.json", strings.NewReader(string(manifest)), int64(len(manifest))},
	} {
		if err := out.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: f.size}); err != nil {
			return err
		}
		if _, err := io.Copy(out, f.body); err != nil {
			return err
		}
	}
	return out.Close()
}

// marshalConfig returns the image's configuration; layer is its layer's SHA-256.
func (im image) marshalConfig(layer string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Entrypoint": im.entrypoint, "Cmd": im.cmd, "User": im.user, "WorkingDir": im.workdir,
			"Env": append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, im.env...),
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layer}},
	})
}

// layerWriter writes files to a tar archive, each once and after its parent
// directories.
type layerWriter struct {
	*tar.Writer
	seen map[string]bool
}

func (im image) writeLayer(w io.Writer) error {
	l := layerWriter{tar.NewWriter(w), make(map[string]bool)}
	for _, f := range im.files {
		name, file, ok := strings.Cut(f, "=")
		if !ok || !path.IsAbs(name) {
			return fmt.Errorf("%q: want /PATH=FILE", f)
		}
		if err := l.addTree(name, file); err != nil {
			return err
		}
	}
	if im.busybox {
		if err := l.addBusybox(); err != nil {
			return err
		}
	}
	return l.Close()
}

// addTree adds a file, or a directory with everything in it.
func (l layerWriter) addTree(name, file string) error {
	return filepath.WalkDir(file, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(p)
		if p == file { // an argument may be a symbolic link
			info, err = os.Stat(p)
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(file, p)
		if err != nil {
			return err
		}
		return l.addFile(path.Join(name, filepath.ToSlash(rel)), p, info)
	})
}

func (l layerWriter) addFile(name, file string, info fs.FileInfo) error {
	target := ""
	if info.Mode().Type() == fs.ModeSymlink {
		t, err := os.Readlink(file)
		if err != nil {
			return err
		}
		target = t
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Uid, h.Gid = name, "", "", 0, 0
	if err := l.writeEntry(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(l, f)
	return err
}

// writeEntry writes a header after those of its parent directories. It skips
// directories that are in the archive already.
func (l layerWriter) writeEntry(h *tar.Header) error {
	name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	for i, c := range name {
		if dir := name[:i]; c == '/' && !l.seen[dir] {
			l.seen[dir] = true
			if err := l.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0)}); err != nil {
				return err
			}
		}
	}
	if name == "" || h.Typeflag == tar.TypeDir && l.seen[name] {
		return nil
	}
	l.seen[name] = true
	h.Name = name
	return l.WriteHeader(h)
}

// addBusybox adds a minimal system: busybox, links for its applets, the usual
// directories, /etc/passwd and /etc/group.
func (l layerWriter) addBusybox() error {
	file, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("busybox: %w (Debian: apt-get install busybox-static)", err)
	}
	if err := l.addTree("/bin/busybox", file); err != nil {
		return err
	}
	applets, err := exec.Command(file, "--list").Output()
	if err != nil {
		return fmt.Errorf("busybox --list: %w", err)
	}
	for _, a := range strings.Fields(string(applets)) {
		if l.seen["bin/"+a] {
			continue
		}
		h := &tar.Header{Typeflag: tar.TypeSymlink, Name: "/bin/" + a, Linkname: "/bin/busybox", Mode: 0o777}
		if err := l.writeEntry(h); err != nil {
			return err
		}
	}
	for _, d := range []string{"/tmp", "/root", "/home", "/dev", "/proc", "/sys", "/var"} {
		mode := int64(0o755)
		if d == "/tmp" {
			mode = 0o1777
		}
		if err := l.writeEntry(&tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: mode}); err != nil {
			return err
		}
	}
	texts := map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
		"/etc/group":  "root:x:0:\nnogroup:x:65534:\n",
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if l.seen[name[1:]] {
			continue
		}
		if err := l.writeEntry(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(texts[name]))}); err != nil {
			return err
		}
		if _, err := io.WriteString(l, texts[name]); err != nil {
			return err
		}
	}
	return nil
}
