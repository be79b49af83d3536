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
	"github.com/atoll-sandbox/atoll/internal/filelock"
)

// source is an image to be had.
type source struct {
	digest   string // of the manifest or configuration
	platform string
	created  time.Time
	config   Config
	layers   []layer // upper ones last, as manifests have them
}

// layer is one of its layers.
type layer struct {
	diffID string // hexadecimal SHA-256 of its archive; empty: not known before
	short  string // for people
	size   int64  // of what is fetched; 0: unknown
	// fetch gives the archive, compressed or not. The path is where a part of
	// it may be kept for a next time.
	fetch func(ctx context.Context, part string, report func(atoll.Progress)) (io.ReadCloser, error)
}

// describe takes from an image's configuration what is kept of it.
func describe(cf *v1.ConfigFile) (Config, string) {
	c := cf.Config
	platform := cf.OS + "/" + cf.Architecture
	if cf.Variant != "" {
		platform += "/" + cf.Variant
	}
	return Config{Env: c.Env, User: c.User, Dir: c.WorkingDir, Entrypoint: c.Entrypoint, Command: c.Cmd}, platform
}

// atOnce is how many layers are fetched and unpacked at once.
const atOnce = 3

// install makes a source's layers be there, then gives it its name. The caller
// has the shared lock.
func (s *Store) install(ctx context.Context, path, ref string, src source, r *reporter) (atoll.Image, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg    sync.WaitGroup
		ids   = make([]string, len(src.layers))
		sizes = make([]int64, len(src.layers))
		slots = make(chan struct{}, atOnce)
	)
	for i, l := range src.layers {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var err error
			if ids[i], sizes[i], err = s.layer(ctx, l, r); err != nil {
				cancel(fmt.Errorf("layer %s: %w", l.short, err))
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return atoll.Image{}, timeout(ctx, err)
	}
	rec := record{Config: src.config, Image: atoll.Image{
		Ref: ref, Digest: src.digest, Layers: len(ids), Platform: src.platform, Created: src.created,
	}}
	for i := range ids {
		rec.Layers = append(rec.Layers, ids[len(ids)-1-i])
		rec.Image.Size += sizes[i]
	}
	if err := writeJSON(path, rec); err != nil {
		return atoll.Image{}, err
	}
	return rec.Image, nil
}

// timeout says that it was a deadline, where it was.
func timeout(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, atoll.ErrTimeout) {
		return fmt.Errorf("%w: %w", atoll.ErrTimeout, err)
	}
	return err
}

// unpacked is what is written beside an unpacked layer.
type unpacked struct {
	Size int64 `json:"size"`
}

const (
	sizeFile = "layer.json"
	filesDir = "fs"
)

// layer makes a layer be there, once for all processes, and returns its name
// and size.
func (s *Store) layer(ctx context.Context, l layer, r *reporter) (id string, size int64, err error) {
	report := func(p atoll.Progress) {
		p.ID = l.short
		r.report(p)
	}
	part := ""
	if l.diffID != "" {
		part = s.path(partsDir, l.diffID)
		unlock, err := filelock.Wait(ctx, part+".lock", filelock.Exclusive)
		if err != nil {
			return "", 0, err
		}
		defer unlock()
		if size, err := s.have(l.diffID); err == nil {
			report(atoll.Progress{Message: "already there", Done: l.size, Total: l.size})
			return l.diffID, size, nil
		}
	}
	blob, err := l.fetch(ctx, part, report)
	if err != nil {
		return "", 0, err
	}
	defer blob.Close()
	id, size, err = s.unpack(ctx, l, blob, report)
	if err != nil {
		return "", 0, err
	}
	if part != "" {
		err = ignore(os.Remove(part), fs.ErrNotExist)
	}
	report(atoll.Progress{Message: "done", Done: l.size, Total: l.size})
	return id, size, err
}

// have returns the size of a layer that is there.
func (s *Store) have(id string) (int64, error) {
	var u unpacked
	err := readJSON(s.path(layersDir, id, sizeFile), &u)
	return u.Size, err
}

// unpack unpacks an archive beside the layers, sees that it is what it should
// be, and renames it.
func (s *Store) unpack(ctx context.Context, l layer, blob io.Reader, report func(atoll.Progress)) (id string, size int64, err error) {
	tmp, err := os.MkdirTemp(s.path(partsDir), "unpacking-*")
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, discard(tmp)) }()
	if err := os.Mkdir(tmp+"/"+filesDir, 0o755); err != nil {
		return "", 0, err
	}
	root, err := os.OpenRoot(tmp + "/" + filesDir)
	if err != nil {
		return "", 0, err
	}
	defer root.Close()
	report(atoll.Progress{Message: "unpacking", Total: l.size})
	archive, err := decompress(&meter{Reader: blob, report: func(done int64) {
		report(atoll.Progress{Message: "unpacking", Done: done, Total: l.size})
	}})
	if err != nil {
		return "", 0, err
	}
	defer archive.Close()
	sum := &hashing{r: io.LimitReader(archive, s.most()), h: sha256.New()}
	size, lost, err := extract(ctx, root, sum, s.Limits)
	if err != nil {
		return "", 0, timeout(ctx, err)
	}
	if _, err := io.Copy(io.Discard, sum); err != nil { // what follows the end, of the digest too
		return "", 0, broken(err)
	}
	id = hex.EncodeToString(sum.h.Sum(nil))
	if l.diffID != "" && l.diffID != id {
		return "", 0, fmt.Errorf("%w: its content is %s, not what the image says: %s", atoll.ErrInvalid, id, l.diffID)
	}
	if err := keepLost(tmp, lost); err != nil {
		return "", 0, quota(err)
	}
	return id, size, s.keep(root, tmp, id, size)
}

// most is how long an archive may be that unpacks to what is allowed: its
// files, and of each what comes around it.
func (s *Store) most() int64 {
	l := s.Limits
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	if l.Files == 0 {
		l.Files = DefaultFiles
	}
	return l.Bytes + int64(l.Files)*(16<<10) + 1<<20
}

// keep makes an unpacked directory a layer, for good. Another process may have
// been faster.
func (s *Store) keep(root *os.Root, tmp, id string, size int64) error {
	b, err := json.Marshal(unpacked{size})
	if err != nil {
		return err
	}
	if err := os.WriteFile(tmp+"/"+sizeFile, b, 0o600); err != nil {
		return quota(err)
	}
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close()); err != nil {
		return quota(err)
	}
	err = os.Rename(tmp, s.path(layersDir, id))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}

// hashing adds up what is read.
type hashing struct {
	r io.Reader
	h hash.Hash
}

func (s *hashing) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.h.Write(p[:n])
	return n, err
}

// How compressed streams begin.
var magics = map[string][]byte{
	"gzip":  {0x1f, 0x8b},
	"zstd":  {0x28, 0xb5, 0x2f, 0xfd},
	"bzip2": []byte("BZh"),
	"xz":    {0xfd, '7', 'z', 'X', 'Z', 0},
}

// mostWindow is how much memory a zstd stream may ask for.
const mostWindow = 128 << 20

// decompress returns the plain stream of one that may be compressed.
func decompress(r io.Reader) (io.ReadCloser, error) {
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
		return broke{z}, nil
	case bytes.HasPrefix(head, magics["zstd"]):
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(mostWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
		}
		return broke{z.IOReadCloser()}, nil
	case bytes.HasPrefix(head, magics["bzip2"]):
		return broke{io.NopCloser(bzip2.NewReader(b))}, nil
	case bytes.HasPrefix(head, magics["xz"]):
		return nil, fmt.Errorf("%w: archives in xz: use gzip or zstd", atoll.ErrUnsupported)
	}
	return io.NopCloser(b), nil
}

// broke says of a stream that can't be decompressed that it is the archive's
// fault.
type broke struct{ io.ReadCloser }

func (b broke) Read(p []byte) (int, error) {
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

// short is a digest for people.
func short(digest string) string {
	_, hexa, ok := strings.Cut(digest, ":")
	if !ok {
		hexa = digest
	}
	return hexa[:min(len(hexa), 12)]
}
