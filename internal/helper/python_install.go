package helper

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// InstallPython makes the directory of the interpreter from the unpacked package, and compiles it. The directory exists
// only with the content that it should have.
func (f Finder) InstallPython(ctx context.Context, unpacked string) (string, error) {
	dir, err := f.PythonDir()
	if err != nil {
		return "", err
	}
	program, err := f.Find(PythonProgram)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(unpacked, "dist", PythonFile))
	if err != nil {
		return "", err
	}
	if b, err = dropCustomSections(b); err != nil {
		return "", fmt.Errorf("package %s: %w", PythonPackage, err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != PythonDigest {
		return "", fmt.Errorf("%w: package %s@%s does not have the content that this atoll knows: its digest is %x, not %s", atoll.ErrDenied, PythonPackage, PythonVersion, sum, PythonDigest)
	}
	license, err := os.ReadFile(filepath.Join(unpacked, "LICENSE"))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".python-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp) // fails once it was renamed
	if err := errors.Join(os.WriteFile(filepath.Join(tmp, PythonFile), b, 0o644), os.WriteFile(filepath.Join(tmp, "LICENSE"), license, 0o644), os.Chmod(tmp, 0o755)); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, program, tmp, "compile").CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling Python: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

// dropCustomSections returns a WebAssembly module without its custom sections, which have no meaning for a program: names
// and debugging information.
func dropCustomSections(b []byte) ([]byte, error) {
	const header = 8
	bad := fmt.Errorf("%w: it is not a WebAssembly module", atoll.ErrInvalid)
	if len(b) < header || string(b[:4]) != "\x00asm" {
		return nil, bad
	}
	out := append([]byte(nil), b[:header]...)
	for at := header; at < len(b); {
		size, n := binary.Uvarint(b[at+1:])
		if n <= 0 || size > uint64(len(b)-at-1-n) {
			return nil, bad
		}
		end := at + 1 + n + int(size)
		if b[at] != 0 {
			out = append(out, b[at:end]...)
		}
		at = end
	}
	return out, nil
}
