package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
)

// Lost is what an image says of a file that the directory of its layer doesn't
// hold: capabilities, which would be the host's, and, where an ordinary user
// unpacked it, owners, and modes that would keep him from reading it.
type Lost struct {
	UID        uint32 `json:"uid,omitempty"`
	GID        uint32 `json:"gid,omitempty"`
	Mode       uint32 `json:"mode"` // permissions
	Capability []byte `json:"cap,omitempty"`
}

// lostFile lies beside a layer's files.
const lostFile = "lost.json"

// mostLost bounds how many files of a layer are remembered so.
const mostLost = 1 << 20

// LostOf returns what the directory of a layer, one of a Root's, doesn't hold, by
// names below it; "." is the layer's root. Layers that were unpacked by older
// versions have nothing.
func LostOf(layer string) (map[string]Lost, error) {
	lost := make(map[string]Lost)
	err := readJSON(filepath.Join(filepath.Dir(layer), lostFile), &lost)
	if errors.Is(err, atoll.ErrNotFound) {
		return lost, nil
	}
	return lost, err
}

// keepLost writes it beside a layer's files.
func keepLost(dir string, lost map[string]Lost) error {
	if len(lost) == 0 {
		return nil
	}
	b, err := json.Marshal(lost)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, lostFile), b, 0o600)
}

// lose remembers what is lost of an entry.
func (x *extractor) lose(name string, h *tar.Header) error {
	l := Lost{Mode: uint32(h.Mode & 0o7777)}
	if h.Typeflag == tar.TypeReg {
		l.Capability = []byte(h.PAXRecords["SCHILY.xattr.security.capability"])
	}
	if !x.owners {
		l.UID, l.GID = uint32(h.Uid), uint32(h.Gid)
	}
	if len(l.Capability) == 0 && l.UID == 0 && l.GID == 0 && x.mode(h) == l.Mode {
		delete(x.lost, name)
		return nil
	}
	x.lost[name] = l
	if len(x.lost) > mostLost {
		return fmt.Errorf("%w: more than %d files of other owners in a layer", atoll.ErrQuota, mostLost)
	}
	return nil
}

// mode is the mode that a file or directory gets here: who unpacks it can read
// it, if he is not root and may anyway.
func (x *extractor) mode(h *tar.Header) uint32 {
	mode := uint32(h.Mode & 0o7777)
	switch {
	case x.owners:
	case h.Typeflag == tar.TypeDir:
		mode |= 0o700
	case h.Typeflag == tar.TypeReg:
		mode |= 0o400
	}
	return mode
}
