//go:build !linux

package backup

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"

	"github.com/atoll-sandbox/atoll"
)

// fileID identifies a file.
type fileID struct{}

// linkedFile returns false: each name is archived as a file of its own.
func linkedFile(fs.FileInfo) (fileID, bool) { return fileID{}, false }

// sameDevice returns true: sandboxes mount nothing on this system.
func sameDevice(_, _ fs.FileInfo) bool { return true }

// readAttributes returns nil: sandboxes of this system have no extended attributes.
func readAttributes(string) (map[string]string, error) { return nil, nil }

// addSparse returns false: files are archived without holes.
func (a *archiver) addSparse(*os.File, *tar.Header) (bool, error) { return false, nil }

// makeSpecial returns ErrUnsupported.
func makeSpecial(file string, _ *tar.Header) error {
	return fmt.Errorf("%w: %s: a device", atoll.ErrUnsupported, file)
}

// writeAttributes does nothing.
func writeAttributes(string, *tar.Header) error { return nil }

// syncTree does nothing.
func syncTree(string) error { return nil }
