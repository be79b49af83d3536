package helper

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// FullProgram is the name of the helper that has all commands of atoll. The program atoll is small,
// and replaces its process with the full program for most commands.
const FullProgram = "atoll-full"

// keepUnused is the time after which an unpacked full program of another version is removed.
const keepUnused = 30 * 24 * time.Hour

// Executable returns the path of the program that the user runs. In the full program, which atoll has
// unpacked and started, that is atoll: it passes its own path as the name of the program.
func Executable() (string, error) {
	path, err := os.Executable()
	base := filepath.Base(path)
	isFull := strings.HasPrefix(base, FullProgram) || strings.HasPrefix(base, "memfd:"+FullProgram)
	if err == nil && isFull && filepath.IsAbs(os.Args[0]) {
		return os.Args[0], nil
	}
	return path, err
}

// FindFull returns the path of the full program: unpacked from this program, or beside it.
// An unpacked one in a directory that other users can change is not used.
func (f Finder) FindFull() (string, error) {
	path, err := f.findPacked(FullProgram)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if path, ok := findBeside(FullProgram); ok {
			return path, nil
		}
		if dir := os.Getenv("ATOLL_HELPERS"); isProgram(filepath.Join(dir, FullProgram)) {
			return filepath.Abs(filepath.Join(dir, FullProgram))
		}
		return "", fmt.Errorf("%w: this atoll was built without %s, which has its commands: %s", atoll.ErrUnavailable, FullProgram, howToGet(FullProgram, Version()))
	case err != nil:
		return "", err
	}
	if !isPrivate(filepath.Dir(path)) || !isPrivate(path) {
		return "", fmt.Errorf("%w: %s can be changed by another user", atoll.ErrDenied, path)
	}
	removeUnused(path)
	return path, nil
}

// removeUnused marks an unpacked full program as used, once a day, and then removes those of other
// versions that were not used for keepUnused. Errors leave a file too many.
func removeUnused(used string) {
	now := time.Now()
	info, err := os.Stat(used)
	if err != nil || now.Sub(info.ModTime()) < 24*time.Hour {
		return
	}
	if err := os.Chtimes(used, now, now); err != nil {
		return
	}
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(used), FullProgram+"-*")) // the pattern is well-formed
	for _, path := range others {
		if info, err := os.Lstat(path); err == nil && now.Sub(info.ModTime()) > keepUnused {
			_ = os.Remove(path)
		}
	}
}

// copyFull writes the packed full program to w.
func copyFull(w io.Writer) error {
	return readPacked(FullProgram, func(file *zip.File) error {
		r, err := file.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(w, r) //nolint:gosec // it is part of this program
		return err
	})
}
