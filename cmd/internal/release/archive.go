package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string // with slashes
	path string // where its content is
	mode int64
}

// archiveName returns the name of a target's archive.
func (r *release) archiveName(t target) string {
	name := "atoll_" + strings.TrimPrefix(r.version, "v") + "_" + t.os + "_" + t.arch
	if t.os == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// writeArchives publishes an archive of each target: atoll in one file, completions, man pages and the license.
func (r *release) writeArchives(context.Context) error {
	for _, t := range r.targets {
		program, err := r.packedProgram(t)
		if err != nil {
			return err
		}
		list := []entry{{"atoll" + programSuffix(t), program, 0o755}, {"LICENSE", "LICENSE", 0o644}, {"README.md", "README.md", 0o644}}
		if t.os != "windows" {
			shared, err := r.listShared()
			if err != nil {
				return err
			}
			list = append(list, shared...)
		}
		slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
		write := writeTarGz
		if t.os == "windows" {
			write = writeZip
		}
		b, err := write(list, r.time)
		if err == nil {
			err = r.writeArtifact(r.archiveName(t), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listShared lists completions and man pages.
func (r *release) listShared() ([]entry, error) {
	var list []entry
	for _, dir := range []string{"completions", "man"} {
		files, err := os.ReadDir(filepath.Join(r.work, "share", dir))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			list = append(list, entry{dir + "/" + f.Name(), filepath.Join(r.work, "share", dir, f.Name()), 0o644})
		}
	}
	return list, nil
}

// writeTar returns a tar file of entries, with root as their owner and one time.
func writeTar(list []entry, modified time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range list {
		content, err := os.ReadFile(e.path)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(content)), ModTime: modified, Format: tar.FormatPAX}); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func writeTarGz(list []entry, modified time.Time) ([]byte, error) {
	content, err := writeTar(list, modified)
	if err != nil {
		return nil, err
	}
	return compressBytes(content)
}

// compressBytes compresses bytes with gzip; the header has no name and no time.
func compressBytes(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

func writeZip(list []entry, modified time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range list {
		content, err := os.ReadFile(e.path)
		if err != nil {
			return nil, err
		}
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: modified}
		h.SetMode(os.FileMode(e.mode)) //nolint:gosec // a mode of this program
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
