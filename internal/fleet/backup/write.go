// Package backup writes a home to an archive, and restores it from one. The archive is a tar stream
// compressed with gzip: the files of the home below home/, and a manifest at its end.
package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	filesPrefix  = "home/"
	manifestName = "atoll-backup.json"
	format       = 1 // of Manifest.Format
)

// Manifest describes an archive. It is the last entry: an archive without one is incomplete.
type Manifest struct {
	Format  int       `json:"format"`
	Atoll   string    `json:"atoll"` // version of the program that has written it
	Created time.Time `json:"created"`
	Entries int       `json:"entries"` // files, directories and links
	Bytes   int64     `json:"bytes"`   // of the content of files

	// Skipped are the names of what the archive lacks: directories that are mounted from other
	// file systems, and links that lead out of the home.
	Skipped []string `json:"skipped,omitempty"`

	// Encrypted reports that secrets in the registry are encrypted, with a key that is not in the archive.
	Encrypted bool `json:"encrypted,omitempty"`
}

// excluded are the files of a home that belong to running processes, or only hold space.
var excluded = []string{"reserve", "registry.lock", "serve.lock", "server.lock", "server.json", "server.log", "leader", "instances", "atoll.db-shm"}

// Options configure Write.
type Options struct {
	Version string // of this program, for the manifest

	// Changing accepts files that vanish or become shorter while they are read. Nothing but programs
	// in sandboxes may change the home.
	Changing bool

	// Encrypted reports that secrets in the registry are encrypted. KeyFile, the file of the key, is left out if
	// it is in the home; empty: the key is not in a file.
	Encrypted bool
	KeyFile   string
}

// Write writes a home to w. No process may use the home, but see Options.Changing.
func Write(ctx context.Context, home string, o Options, w io.Writer) (Manifest, error) {
	home, err := filepath.EvalSymlinks(home)
	if err != nil {
		return Manifest{}, err
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return Manifest{}, err
	}
	a := &archiver{home: home, changing: o.Changing, tw: tar.NewWriter(z), out: z, links: make(map[fileID]string)}
	a.m = Manifest{Format: format, Atoll: o.Version, Created: time.Now().UTC(), Encrypted: o.Encrypted}
	if o.KeyFile != "" {
		if a.key, err = os.Stat(o.KeyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return a.m, fmt.Errorf("key file: %w", err)
		}
	}
	if err := a.addTree(ctx); err != nil {
		return a.m, fmt.Errorf("backup of %s: %w", home, err)
	}
	b, err := json.MarshalIndent(a.m, "", "  ")
	if err != nil {
		return a.m, err
	}
	if err := a.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Mode: 0o600, Size: int64(len(b)), ModTime: a.m.Created}); err != nil {
		return a.m, err
	}
	if _, err := a.tw.Write(b); err != nil {
		return a.m, err
	}
	if err := a.tw.Close(); err != nil {
		return a.m, err
	}
	return a.m, z.Close()
}

// archiver writes the entries of one archive.
type archiver struct {
	home     string
	changing bool        // see Options
	key      fs.FileInfo // of the key file, which is left out; nil: there is none
	tw       *tar.Writer
	out      io.Writer // that tw writes to
	m        Manifest
	links    map[fileID]string // names of files with several
}

// addTree adds everything in the home.
func (a *archiver) addTree(ctx context.Context) error {
	top, err := os.Stat(a.home)
	if err != nil {
		return err
	}
	return filepath.WalkDir(a.home, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return a.ignoreVanished(err)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		rel, err := filepath.Rel(a.home, file)
		if err != nil || rel == "." {
			return err
		}
		name := filepath.ToSlash(rel)
		if slices.Contains(excluded, name) {
			return skipEntry(d)
		}
		info, err := d.Info()
		if err != nil {
			return a.ignoreVanished(err)
		}
		if a.key != nil && os.SameFile(a.key, info) {
			return nil
		}
		// The operator may have mounted a volume on a directory of the home; deeper mounts are those of sandboxes.
		if d.IsDir() && strings.Contains(name, "/") && !sameDevice(top, info) && !sameDevice(parentInfo(file), info) {
			a.m.Skipped = append(a.m.Skipped, name)
			return fs.SkipDir
		}
		return a.addFile(file, name, info)
	})
}

// ignoreVanished drops the error of a file that does not exist any more, if the home may change.
func (a *archiver) ignoreVanished(err error) error {
	if a.changing && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// parentInfo returns the directory that a file is in; nil after an error.
func parentInfo(file string) fs.FileInfo {
	info, err := os.Lstat(filepath.Dir(file))
	if err != nil {
		return nil
	}
	return info
}

// skipEntry leaves an entry of a walk out, with everything below.
func skipEntry(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// addFile adds one file, directory, link or device. Sockets are left out: they belong to processes.
func (a *archiver) addFile(file, name string, info fs.FileInfo) error {
	if info.Mode().Type() == fs.ModeSocket {
		return nil
	}
	target := ""
	if info.Mode().Type() == fs.ModeSymlink {
		var err error
		if target, err = os.Readlink(file); err != nil {
			return a.ignoreVanished(err)
		}
		if filepath.IsAbs(target) && !strings.Contains(name, "/") {
			a.m.Skipped = append(a.m.Skipped, name+" -> "+target)
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Format = filesPrefix+name, "", "", tar.FormatPAX
	if info.IsDir() {
		h.Name += "/"
	}
	if id, ok := linkedFile(info); ok && info.Mode().IsRegular() {
		if first, ok := a.links[id]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			a.m.Entries++
			return a.tw.WriteHeader(h)
		}
	}
	if h.PAXRecords, err = readAttributes(file); err != nil {
		return a.ignoreVanished(err)
	}
	if info.Mode().IsRegular() {
		return a.addContent(file, info, h)
	}
	a.m.Entries++
	return a.tw.WriteHeader(h)
}

// addContent adds a regular file.
func (a *archiver) addContent(file string, info fs.FileInfo, h *tar.Header) error {
	f, err := os.Open(file)
	if err != nil {
		return a.ignoreVanished(err)
	}
	defer f.Close()
	if id, ok := linkedFile(info); ok {
		a.links[id] = h.Name
	}
	a.m.Entries++
	a.m.Bytes += h.Size
	if written, err := a.addSparse(f, h); written || err != nil {
		return err
	}
	if err := a.tw.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(a.tw, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size && a.changing {
		_, err = io.CopyN(a.tw, zeros{}, h.Size-n)
		n = h.Size
	}
	if err == nil && n < h.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%s: %d of %d bytes were read: %w", path.Clean(h.Name), n, h.Size, err)
	}
	return nil
}

// zeros is an endless stream of zeros.
type zeros struct{}

// Read reads zeros.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
