package image

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/internal/state/jsondir"
)

// source is an image to install.
type source struct {
	digest   string // of the manifest or configuration; empty: of the only layer, as of an archive of files
	platform string
	created  time.Time
	config   Config
	layers   []layer // topmost last, as in manifests
}

// layer is a layer of a source.
type layer struct {
	diffID string // hexadecimal SHA-256 of its uncompressed archive; empty: not known yet
	short  string // short digest for users
	size   int64  // bytes to fetch; 0: unknown
	// fetch returns the archive, compressed or not. A partial download may be kept in the file part
	// for the next try.
	fetch func(ctx context.Context, part string, report func(atoll.Progress)) (io.ReadCloser, error)
}

// convertConfig returns the used part of an image's configuration, and its platform.
func convertConfig(cf *v1.ConfigFile) (Config, string) {
	c := cf.Config
	platform := cf.OS + "/" + cf.Architecture
	if cf.Variant != "" {
		platform += "/" + cf.Variant
	}
	return Config{Env: c.Env, User: c.User, Dir: c.WorkingDir, Entrypoint: c.Entrypoint, Command: c.Cmd}, platform
}

// maxParallel is the number of layers that are fetched and unpacked at the same time.
const maxParallel = 3

// installSource installs the layers of a source, and then records the image under its name. The
// caller holds the shared lock.
func (s *Store) installSource(ctx context.Context, name, ref string, src source, r *reporter) (atoll.Image, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg    sync.WaitGroup
		ids   = make([]string, len(src.layers))
		sizes = make([]int64, len(src.layers))
		slots = make(chan struct{}, maxParallel)
	)
	for i, l := range src.layers {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var err error
			if ids[i], sizes[i], err = s.installLayer(ctx, l, r); err != nil {
				cancel(fmt.Errorf("layer %s: %w", l.short, err))
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return atoll.Image{}, wrapTimeout(ctx, err)
	}
	rec := record{Config: src.config, Image: atoll.Image{
		Ref: ref, Digest: src.digest, Layers: len(ids), Platform: src.platform, Created: src.created,
	}}
	for i := range ids {
		rec.Layers = append(rec.Layers, ids[len(ids)-1-i])
		rec.Image.Size += sizes[i]
	}
	if src.digest == "" {
		rec.Image.Digest = "sha256:" + rec.Layers[0]
	}
	if err := s.imageDir().Write(name, rec); err != nil {
		return atoll.Image{}, err
	}
	return rec.Image, nil
}

// wrapTimeout adds ErrTimeout to the error of an exceeded deadline.
func wrapTimeout(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, atoll.ErrTimeout) {
		return fmt.Errorf("%w: %w", atoll.ErrTimeout, err)
	}
	return err
}

// layerInfo is written next to an unpacked layer.
type layerInfo struct {
	Size int64 `json:"size"`
}

const (
	sizeFile = "layer.json"
	filesDir = "fs"
)

// installLayer installs a layer, once for all processes, and returns its id and size.
func (s *Store) installLayer(ctx context.Context, l layer, r *reporter) (id string, size int64, err error) {
	report := func(p atoll.Progress) {
		p.ID = l.short
		r.reportProgress(p)
	}
	part := ""
	if l.diffID != "" {
		part = s.pathTo(partsDir, l.diffID)
		unlock, err := filelock.Acquire(ctx, part+".lock", filelock.Exclusive)
		if err != nil {
			return "", 0, err
		}
		defer unlock()
		if size, err := s.layerSize(l.diffID); err == nil {
			report(atoll.Progress{Message: "already there", Done: l.size, Total: l.size})
			return l.diffID, size, nil
		}
	}
	blob, err := l.fetch(ctx, part, report)
	if err != nil {
		return "", 0, err
	}
	defer blob.Close()
	id, size, err = s.unpackLayer(ctx, l, blob, report)
	if err != nil {
		return "", 0, err
	}
	if part != "" {
		err = ignoreError(os.Remove(part), fs.ErrNotExist)
	}
	report(atoll.Progress{Message: "done", Done: l.size, Total: l.size})
	return id, size, err
}

// layerSize returns the size of an installed layer.
func (s *Store) layerSize(id string) (int64, error) {
	var u layerInfo
	err := jsondir.ReadFile(s.pathTo(layersDir, id, sizeFile), &u)
	return u.Size, err
}

// unpackLayer unpacks an archive into a temporary directory, verifies its digest, and stores it as
// a layer.
func (s *Store) unpackLayer(ctx context.Context, l layer, blob io.Reader, report func(atoll.Progress)) (id string, size int64, err error) {
	tmp, err := os.MkdirTemp(s.pathTo(partsDir), unpackPattern)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, removeTree(tmp)) }()
	if err := os.Mkdir(tmp+"/"+filesDir, 0o755); err != nil {
		return "", 0, err
	}
	root, err := os.OpenRoot(tmp + "/" + filesDir)
	if err != nil {
		return "", 0, err
	}
	defer root.Close()
	report(atoll.Progress{Message: "unpacking", Total: l.size})
	archive, err := openDecompressed(&progressReader{Reader: blob, report: func(done int64) {
		report(atoll.Progress{Message: "unpacking", Done: done, Total: l.size})
	}})
	if err != nil {
		return "", 0, err
	}
	defer archive.Close()
	sum := &hashReader{r: io.LimitReader(archive, s.maxArchiveSize()), h: sha256.New()}
	size, lost, err := extractLayer(ctx, root, sum, s.Limits)
	if err != nil {
		return "", 0, wrapTimeout(ctx, err)
	}
	if _, err := io.Copy(io.Discard, sum); err != nil { // the digest includes the bytes after the end of the archive
		return "", 0, wrapArchiveError(err)
	}
	id = hex.EncodeToString(sum.h.Sum(nil))
	if l.diffID != "" && l.diffID != id {
		return "", 0, fmt.Errorf("%w: its digest is %s, want %s", atoll.ErrInvalid, id, l.diffID)
	}
	if err := writeOverrides(tmp, lost); err != nil {
		return "", 0, wrapDiskFull(err)
	}
	return id, size, s.storeLayer(root, tmp, id, size)
}

// maxArchiveSize returns the size limit of an archive: that of its files, and of the headers around
// them.
func (s *Store) maxArchiveSize() int64 {
	l := s.Limits
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	if l.Files == 0 {
		l.Files = DefaultFiles
	}
	return l.Bytes + int64(l.Files)*(16<<10) + 1<<20
}

// storeLayer renames an unpacked directory to a layer. Another process may have been faster.
func (s *Store) storeLayer(root *os.Root, tmp, id string, size int64) error {
	b, err := json.Marshal(layerInfo{size})
	if err != nil {
		return err
	}
	if err := os.WriteFile(tmp+"/"+sizeFile, b, 0o600); err != nil {
		return wrapDiskFull(err)
	}
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close()); err != nil {
		return wrapDiskFull(err)
	}
	err = os.Rename(tmp, s.pathTo(layersDir, id))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}

// hashReader hashes the bytes that are read through it.
type hashReader struct {
	r io.Reader
	h hash.Hash
}

func (s *hashReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.h.Write(p[:n])
	return n, err
}

// magics are the first bytes of compressed streams.
var magics = map[string][]byte{
	"gzip":  {0x1f, 0x8b},
	"zstd":  {0x28, 0xb5, 0x2f, 0xfd},
	"bzip2": []byte("BZh"),
	"xz":    {0xfd, '7', 'z', 'X', 'Z', 0},
}

// maxWindow is the memory limit of a zstd stream in bytes.
const maxWindow = 128 << 20

// openDecompressed returns the decompressed stream; uncompressed streams are not changed.
func openDecompressed(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err := b.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, magics["gzip"]):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
		}
		return archiveErrorReader{z}, nil
	case bytes.HasPrefix(head, magics["zstd"]):
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
		}
		return archiveErrorReader{z.IOReadCloser()}, nil
	case bytes.HasPrefix(head, magics["bzip2"]):
		return archiveErrorReader{io.NopCloser(bzip2.NewReader(b))}, nil
	case bytes.HasPrefix(head, magics["xz"]):
		return nil, fmt.Errorf("%w: archives in xz: use gzip or zstd", atoll.ErrUnsupported)
	}
	return io.NopCloser(b), nil
}

// archiveErrorReader adds ErrInvalid to decompression errors.
type archiveErrorReader struct{ io.ReadCloser }

func (b archiveErrorReader) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	for _, own := range []error{gzip.ErrChecksum, gzip.ErrHeader, zstd.ErrMagicMismatch, zstd.ErrCRCMismatch, zstd.ErrWindowSizeExceeded, zstd.ErrDecoderSizeExceeded, io.ErrUnexpectedEOF} {
		if errors.Is(err, own) {
			return n, fmt.Errorf("%w: the archive is broken: %w", atoll.ErrInvalid, err)
		}
	}
	return n, err
}

// shortDigest returns the first digits of a digest, for users.
func shortDigest(digest string) string {
	_, hexa, ok := strings.Cut(digest, ":")
	if !ok {
		hexa = digest
	}
	return hexa[:min(len(hexa), 12)]
}
