package npm

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Progress receives the number of downloaded bytes and the total; 0: the total is
// unknown.
type Progress func(done, total int64)

// Fetch downloads a package and unpacks it into dir(version), atomically. It
// returns the version that p.Version, which may be a tag, refers to. If the
// directory exists, nothing is downloaded. progress may be nil.
func (r *Registry) Fetch(ctx context.Context, p Package, dir func(version string) string, progress Progress) (string, error) {
	version, err := r.fetch(ctx, p, dir, progress)
	if err != nil {
		return "", fmt.Errorf("package %s: %w", p, err)
	}
	return version, nil
}

func (r *Registry) fetch(ctx context.Context, p Package, dir func(version string) string, progress Progress) (_ string, err error) {
	m, err := r.fetchManifest(ctx, p)
	if err != nil {
		return "", err
	}
	want, err := parseIntegrity(m.Dist.Integrity)
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
	if err := r.downloadVerified(ctx, m.Dist.Tarball, file, want, progress); err != nil {
		return "", err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	content := filepath.Join(tmp, "content")
	if err := os.Mkdir(content, 0o755); err != nil {
		return "", err
	}
	if err := unpackTar(ctx, file, content); err != nil {
		return "", err
	}
	if err := os.Rename(content, to); err != nil {
		if _, there := os.Lstat(to); there == nil {
			return m.Version, nil // another process was faster
		}
		return "", err
	}
	return m.Version, nil
}

// parseIntegrity returns the SHA-512 in a list of digests (Subresource Integrity).
func parseIntegrity(integrity string) ([]byte, error) {
	for f := range strings.FieldsSeq(integrity) {
		if text, ok := strings.CutPrefix(f, "sha512-"); ok {
			text, _, _ = strings.Cut(text, "?")
			sum, err := base64.StdEncoding.DecodeString(text)
			if err == nil && len(sum) == sha512.Size {
				return sum, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: the registry has no SHA-512 digest of it", atoll.ErrDenied)
}

// downloadVerified downloads a file and verifies its digest.
func (r *Registry) downloadVerified(ctx context.Context, from string, to io.Writer, want []byte, progress Progress) error {
	resp, err := r.get(ctx, from)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	h := sha512.New()
	m := &progressReader{r: io.LimitReader(resp.Body, maxPacked+1), total: max(0, resp.ContentLength), report: progress}
	n, err := io.Copy(io.MultiWriter(to, h), m)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	case n > maxPacked:
		return fmt.Errorf("%w: it has more than %d bytes", atoll.ErrQuota, maxPacked)
	case !bytes.Equal(h.Sum(nil), want):
		return fmt.Errorf("%w: the content does not match the registry's digest", atoll.ErrDenied)
	}
	return nil
}

// progressReader reports the bytes that are read through it.
type progressReader struct {
	r           io.Reader
	done, total int64
	report      Progress
}

// Read reads and reports.
func (m *progressReader) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.done += int64(n)
	if m.report != nil {
		m.report(m.done, m.total)
	}
	return n, err
}
