package npm

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// unpackTar writes the files of a package into a directory. It returns ErrInvalid
// for entries that are neither files nor directories.
func unpackTar(ctx context.Context, packed io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	u := &unpacker{root: root, left: maxUnpacked}
	t := tar.NewReader(&limitedReader{r: z, left: maxUnpacked + maxFiles*2048})
	for {
		h, err := t.Next()
		if err == io.EOF { //nolint:errorlint // the tar package's contract
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := u.unpackEntry(h, t); err != nil {
			return err
		}
	}
	if u.files == 0 {
		return fmt.Errorf("%w: the package is empty", atoll.ErrInvalid)
	}
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = root.Chmod(name, 0o755) // readable by others, whatever the umask is
		}
		return err
	})
}

// unpacker writes files within the limits.
type unpacker struct {
	root  *os.Root
	files int
	left  int64
}

func (u *unpacker) unpackEntry(h *tar.Header, content io.Reader) error {
	if u.files++; u.files > maxFiles {
		return fmt.Errorf("%w: it has more than %d files", atoll.ErrQuota, maxFiles)
	}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir, tar.TypeReg:
	default:
		return fmt.Errorf("%w: %q is neither a file nor a directory", atoll.ErrInvalid, h.Name)
	}
	_, name, _ := strings.Cut(strings.TrimPrefix(h.Name, "./"), "/") // the first element is usually "package"
	if name = path.Clean(name); name == "." {
		return nil
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) || len(name) > maxPath || strings.ContainsAny(name, "\\\x00") {
		return fmt.Errorf("%w: the file name %q", atoll.ErrInvalid, h.Name)
	}
	if h.Typeflag == tar.TypeDir {
		return u.root.MkdirAll(name, 0o755)
	}
	if u.left -= h.Size; u.left < 0 || h.Size < 0 {
		return fmt.Errorf("%w: its files have more than %d bytes", atoll.ErrQuota, int64(maxUnpacked))
	}
	return u.writeFile(name, h, content)
}

func (u *unpacker) writeFile(name string, h *tar.Header, content io.Reader) error {
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if h.Mode&0o111 != 0 {
		mode = 0o755
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// limitedReader fails after a number of bytes: compressed data can expand without limit.
type limitedReader struct {
	r    io.Reader
	left int64
}

// Read returns ErrQuota after the limit.
func (b *limitedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: its unpacked size is over the limit", atoll.ErrQuota)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
