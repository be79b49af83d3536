package about

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// buildPython makes the directory of the interpreter from the unpacked package, and compiles it. The directory exists
// only with the content that it should have.
func buildPython(ctx context.Context, f helper.Finder, unpacked string) (string, error) {
	dir, err := f.PythonDir()
	if err != nil {
		return "", err
	}
	program, err := f.Find(helper.PythonProgram)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(unpacked, "dist", helper.PythonFile))
	if err != nil {
		return "", err
	}
	if b, err = rebuildModule(b); err != nil {
		return "", fmt.Errorf("package %s: %w", helper.PythonPackage, err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != helper.PythonDigest {
		return "", fmt.Errorf("%w: package %s@%s does not have the content that this atoll knows: its digest is %x, not %s", atoll.ErrDenied, helper.PythonPackage, helper.PythonVersion, sum, helper.PythonDigest)
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
	if err := errors.Join(os.WriteFile(filepath.Join(tmp, helper.PythonFile), b, 0o644), os.WriteFile(filepath.Join(tmp, "LICENSE"), license, 0o644), os.Chmod(tmp, 0o755)); err != nil {
		return "", err
	}
	if err := errors.Join(compilePython(ctx, program, tmp), makeReadable(tmp)); err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

// Sections of the interpreter that are replaced: it has 512 KiB for its stack, which ends recursion through C far below the
// limits of Python. The new stack, of 8 MiB, is above the memory that the module has used when it was made, whose allocator takes more
// memory only by growing it. atoll-python watches its end.
const (
	memorySection = 5
	globalSection = 6

	memoryBefore = "\x01\x00\xa0\x01" // 160 pages
	memoryAfter  = "\x01\x00\xa0\x02" // 288 pages
	stackBefore  = "\x01\x7f\x01\x41\x80\x80\x20\x0b"
	stackAfter   = "\x01\x7f\x01\x41\x80\x80\x80\x09\x0b"
)

// rebuildModule returns the interpreter without its custom sections, which have no meaning for a program (names and debugging
// information), and with a larger stack.
func rebuildModule(b []byte) ([]byte, error) {
	const header = 8
	bad := fmt.Errorf("%w: it is not the WebAssembly module that it should be", atoll.ErrInvalid)
	if len(b) < header || string(b[:4]) != "\x00asm" {
		return nil, bad
	}
	out := slices.Clone(b[:header])
	for at := header; at < len(b); {
		size, n := binary.Uvarint(b[at+1:])
		if n <= 0 || size > uint64(len(b)-at-1-n) {
			return nil, bad
		}
		kind, content := b[at], b[at+1+n:at+1+n+int(size)]
		at += 1 + n + int(size)
		switch {
		case kind == 0:
			continue
		case kind == memorySection && string(content) == memoryBefore:
			content = []byte(memoryAfter)
		case kind == globalSection && string(content) == stackBefore:
			content = []byte(stackAfter)
		case kind == memorySection || kind == globalSection:
			return nil, bad
		}
		out = append(binary.AppendUvarint(append(out, kind), uint64(len(content))), content...)
	}
	return out, nil
}

// compilePython fills the cache of compiled code beside the interpreter, unless it has the code.
func compilePython(ctx context.Context, program, dir string) error {
	if err := fdpass.SealInherited(); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, program, dir, "compile").CombinedOutput(); err != nil {
		return fmt.Errorf("compiling Python: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// makeReadable lets all users read a directory.
func makeReadable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}
