package npm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
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

// Progress is told how many bytes have come, and how many there are; 0: nobody
// knows.
type Progress func(done, total int64)

// Fetch gets a package and unpacks it into dir, which is made, in one step: it
// has all of it or is not there. It returns the version, which tells what a tag
// means now. Where dir is there already, nothing is fetched. progress may be nil.
func (r *Registry) Fetch(ctx context.Context, p Package, dir func(version string) string, progress Progress) (string, error) {
	version, err := r.fetch(ctx, p, dir, progress)
	if err != nil {
		return "", fmt.Errorf("package %s: %w", p, err)
	}
	return version, nil
}

func (r *Registry) fetch(ctx context.Context, p Package, dir func(version string) string, progress Progress) (_ string, err error) {
	m, err := r.look(ctx, p)
	if err != nil {
		return "", err
	}
	want, err := digest(m.Dist.Integrity)
	if err != nil {
		return "", err
	}
	to := dir(m.Version)
	if _, err := os.Lstat(to); err == nil {
		return m.Version, nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(to), ".new-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	file, err := os.OpenFile(filepath.Join(tmp, "packed"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if err := r.download(ctx, m.Dist.Tarball, file, want, progress); err != nil {
		return "", err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	content := filepath.Join(tmp, "content")
	if err := os.Mkdir(content, 0o755); err != nil {
		return "", err
	}
	if err := unpack(ctx, file, content); err != nil {
		return "", err
	}
	if err := os.Rename(content, to); err != nil {
		if _, there := os.Lstat(to); there == nil {
			return m.Version, nil // another was faster
		}
		return "", err
	}
	return m.Version, nil
}

// digest reads the SHA-512 of a list of digests (Subresource Integrity).
func digest(integrity string) ([]byte, error) {
	for f := range strings.FieldsSeq(integrity) {
		if text, ok := strings.CutPrefix(f, "sha512-"); ok {
			text, _, _ = strings.Cut(text, "?")
			sum, err := base64.StdEncoding.DecodeString(text)
			if err == nil && len(sum) == sha512.Size {
				return sum, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: the registry has no SHA-512 of it", atoll.ErrDenied)
}

// download gets a file, whose content must be what was promised.
func (r *Registry) download(ctx context.Context, from string, to io.Writer, want []byte, progress Progress) error {
	resp, err := r.get(ctx, from)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	h := sha512.New()
	m := &meter{r: io.LimitReader(resp.Body, maxPacked+1), total: max(0, resp.ContentLength), tell: progress}
	n, err := io.Copy(io.MultiWriter(to, h), m)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	case n > maxPacked:
		return fmt.Errorf("%w: it has more than %d bytes", atoll.ErrQuota, maxPacked)
	case !bytes.Equal(h.Sum(nil), want):
		return fmt.Errorf("%w: what came is not what the registry's digest is of", atoll.ErrDenied)
	}
	return nil
}

// meter tells how much was read.
type meter struct {
	r           io.Reader
	done, total int64
	tell        Progress
}

// Read reads on.
func (m *meter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.done += int64(n)
	if m.tell != nil {
		m.tell(m.done, m.total)
	}
	return n, err
}

// unpack writes the files of a package into a directory. A package has files and
// directories only: what is not one of them makes it invalid.
func unpack(ctx context.Context, packed io.Reader, dir string) error {
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
	t := tar.NewReader(&bounded{r: z, left: maxUnpacked + maxFiles*2048})
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
		if err := u.entry(h, t); err != nil {
			return err
		}
	}
	if u.files == 0 {
		return fmt.Errorf("%w: the package is empty", atoll.ErrInvalid)
	}
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = root.Chmod(name, 0o755) // whatever this process's umask is: others read it
		}
		return err
	})
}

// unpacker writes files, up to the bounds.
type unpacker struct {
	root  *os.Root
	files int
	left  int64
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
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
	_, name, _ := strings.Cut(strings.TrimPrefix(h.Name, "./"), "/") // the first is "package", or whatever
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
	return u.file(name, h, content)
}

func (u *unpacker) file(name string, h *tar.Header, content io.Reader) error {
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

// bounded reads so much and then fails: what is compressed can be anything.
type bounded struct {
	r    io.Reader
	left int64
}

// Read reads on.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: it unpacks to too much", atoll.ErrQuota)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
