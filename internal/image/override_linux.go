package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/jsondir"
)

// Override has the attributes of an image's file that the directory of its layer can't store:
// capabilities, which would apply on the host, and, if an unprivileged user unpacked it, owners,
// and modes that would prevent that user from reading it.
type Override struct {
	UID        uint32 `json:"uid,omitempty"`
	GID        uint32 `json:"gid,omitempty"`
	Mode       uint32 `json:"mode"` // permissions
	Capability []byte `json:"cap,omitempty"`
}

// overridesFile is written next to a layer's files.
const overridesFile = "lost.json"

// maxOverrides limits the overrides of a layer.
const maxOverrides = 1 << 20

// ReadOverrides returns the overrides of a layer, one of Root.Layers, by the names of the files
// below it; "." is the layer's root. A layer that an older version unpacked has none.
func ReadOverrides(layer string) (map[string]Override, error) {
	lost := make(map[string]Override)
	err := jsondir.ReadFile(filepath.Join(filepath.Dir(layer), overridesFile), &lost)
	if errors.Is(err, atoll.ErrNotFound) {
		return lost, nil
	}
	return lost, err
}

// writeOverrides writes the overrides next to a layer's files.
func writeOverrides(dir string, lost map[string]Override) error {
	if len(lost) == 0 {
		return nil
	}
	b, err := json.Marshal(lost)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, overridesFile), b, 0o600)
}

// recordOverride records the attributes of an entry that can't be stored.
func (x *extractor) recordOverride(name string, h *tar.Header) error {
	if x.overrides == nil {
		return nil
	}
	l := Override{Mode: uint32(h.Mode & 0o7777)}
	if h.Typeflag == tar.TypeReg {
		l.Capability = []byte(h.PAXRecords["SCHILY.xattr.security.capability"])
	}
	if !x.owners {
		l.UID, l.GID = uint32(h.Uid), uint32(h.Gid)
	}
	if len(l.Capability) == 0 && l.UID == 0 && l.GID == 0 && x.storedMode(h) == l.Mode {
		delete(x.overrides, name)
		return nil
	}
	x.overrides[name] = l
	if len(x.overrides) > maxOverrides {
		return fmt.Errorf("%w: more than %d files of other owners in a layer", atoll.ErrQuota, maxOverrides)
	}
	return nil
}

// storedMode returns the mode that a file or directory gets: an unprivileged user who unpacks it
// can read it.
func (x *extractor) storedMode(h *tar.Header) uint32 {
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
