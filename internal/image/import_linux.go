package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// ImportImage imports an archive of `docker save`, of an OCI layout, or of the files of a root
// directory, compressed or not. If ref is empty, it is the first name in the archive. progress may
// be nil.
func (s *Store) ImportImage(ctx context.Context, ref string, archive io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	if err := s.RemoveUnfinished(); err != nil {
		return atoll.Image{}, err
	}
	unlock, err := s.lockStore(ctx, unix.LOCK_SH)
	if err != nil {
		return atoll.Image{}, err
	}
	defer unlock()
	im, err := s.importArchive(ctx, ref, archive, &reporter{f: progress})
	if err != nil {
		return atoll.Image{}, fmt.Errorf("image %s: %w", ref, wrapTimeout(ctx, err))
	}
	return im, nil
}

func (s *Store) importArchive(ctx context.Context, ref string, archive io.Reader, r *reporter) (atoll.Image, error) {
	if ref != "" {
		if _, err := parseReference(ref); err != nil {
			return atoll.Image{}, err
		}
	}
	spool, err := os.CreateTemp(s.pathTo(partsDir), spoolPattern)
	if err != nil {
		return atoll.Image{}, err
	}
	defer func() { _ = errors.Join(spool.Close(), os.Remove(spool.Name())) }() // the file has no other users
	if err := s.spoolArchive(ctx, spool, archive, r); err != nil {
		return atoll.Image{}, err
	}
	b, err := indexArchive(spool)
	if err != nil {
		return atoll.Image{}, err
	}
	src, named, err := b.detectSource()
	if err != nil {
		return atoll.Image{}, err
	}
	if ref == "" {
		ref = named
	}
	parsed, err := parseReference(ref)
	if err != nil {
		return atoll.Image{}, fmt.Errorf("the archive has no image name: %w", err)
	}
	return s.installSource(ctx, recordName(parsed), familiarName(parsed), src, r)
}

// spoolArchive writes the decompressed archive to a file, to read it in any order.
func (s *Store) spoolArchive(ctx context.Context, to *os.File, archive io.Reader, r *reporter) error {
	plain, err := openDecompressed(&progressReader{Reader: contextReader{ctx, archive}, report: func(done int64) {
		r.reportProgress(atoll.Progress{Message: "reading", Done: done})
	}})
	if err != nil {
		return err
	}
	defer plain.Close()
	most := s.maxArchiveSize()
	n, err := io.Copy(to, io.LimitReader(plain, most))
	if err == nil && n == most {
		err = fmt.Errorf("%w: the archive has more than %d bytes", atoll.ErrQuota, most)
	}
	return wrapDiskFull(err)
}

// contextReader fails once its context is done.
type contextReader struct {
	ctx context.Context //nolint:containedctx // it lives as long as the copy
	r   io.Reader
}

func (l contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(l.ctx); err != nil {
		return 0, err
	}
	return l.r.Read(p)
}

// archiveIndex is the index of an archive.
type archiveIndex struct {
	file  *os.File
	files map[string]span
	links map[string]string
	size  int64
}

// span is the position of a file's content in the archive.
type span struct{ from, size int64 }

// Limits of an image's archive.
const (
	maxBlobs    = 10_000
	maxDocument = 16 << 20 // bytes of JSON
	maxLayers   = 500
)

// indexArchive indexes the first files of an archive. An archive that is no image is that of a root
// directory: the rest of it is not read.
func indexArchive(f *os.File) (*archiveIndex, error) {
	b := &archiveIndex{file: f, files: make(map[string]span), links: make(map[string]string)}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b.size = info.Size()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	tr := tar.NewReader(f)
	for range maxBlobs {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, wrapArchiveError(err)
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			b.files[name] = span{at, h.Size}
		case tar.TypeSymlink: // old archives refer to a repeated layer by a link
			b.links[name] = path.Join(path.Dir(name), h.Linkname)
		}
	}
	return b, nil
}

// open returns a file of the archive.
func (b *archiveIndex) open(name string) (*io.SectionReader, error) {
	name = path.Clean(name)
	for range maxLinks {
		if s, ok := b.files[name]; ok {
			if s.from+s.size > b.size {
				return nil, io.ErrUnexpectedEOF
			}
			return io.NewSectionReader(b.file, s.from, s.size), nil
		}
		to, ok := b.links[name]
		if !ok {
			break
		}
		name = to
	}
	return nil, fmt.Errorf("%w: the archive has no %q", atoll.ErrInvalid, clipText(name))
}

// readDocument decodes a JSON file of the archive, and returns its bytes.
func (b *archiveIndex) readDocument(name string, v any) ([]byte, error) {
	r, err := b.open(name)
	if err != nil {
		return nil, err
	}
	if r.Size() > maxDocument {
		return nil, fmt.Errorf("%w: %q of %d bytes", atoll.ErrInvalid, clipText(name), r.Size())
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("%w: %q: %w", atoll.ErrInvalid, clipText(name), err)
	}
	return data, nil
}

// detectSource detects the format of the archive, and returns its image and the image's name.
func (b *archiveIndex) detectSource() (src source, named string, err error) {
	_, docker := b.files["manifest.json"]
	_, layout := b.files["index.json"]
	_, marked := b.files["oci-layout"]
	switch {
	case docker:
		return b.readDockerArchive()
	case layout && marked:
		return b.readLayout()
	}
	fetch := func(context.Context, string, func(atoll.Progress)) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(b.file, 0, b.size)), nil
	}
	if len(b.files)+len(b.links) == 0 && b.size < 512 {
		return source{}, "", fmt.Errorf("%w: an empty archive", atoll.ErrInvalid)
	}
	return source{platform: "linux/" + runtime.GOARCH, created: time.Now().UTC(), layers: []layer{{short: "files", size: b.size, fetch: fetch}}}, "", nil
}

// readDockerArchive reads the format of `docker save`.
func (b *archiveIndex) readDockerArchive() (source, string, error) {
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if _, err := b.readDocument("manifest.json", &list); err != nil {
		return source{}, "", err
	}
	if len(list) == 0 {
		return source{}, "", fmt.Errorf("%w: the archive has no image", atoll.ErrInvalid)
	}
	m, named := list[0], ""
	if len(m.RepoTags) > 0 {
		named = m.RepoTags[0]
	}
	var cf v1.ConfigFile
	raw, err := b.readDocument(m.Config, &cf)
	if err != nil {
		return source{}, "", err
	}
	src, err := b.buildSource(computeDigest(raw), &cf, m.Layers)
	return src, named, err
}

func (b *archiveIndex) buildSource(digest string, cf *v1.ConfigFile, names []string) (source, error) {
	if len(names) > maxLayers {
		return source{}, fmt.Errorf("%w: %d layers", atoll.ErrInvalid, len(names))
	}
	src, err := newSource(digest, cf, len(names))
	if err != nil {
		return source{}, err
	}
	for i, name := range names {
		r, err := b.open(name)
		if err != nil {
			return source{}, err
		}
		l := &src.layers[i]
		l.short, l.size = shortDigest(l.diffID), r.Size()
		l.fetch = func(context.Context, string, func(atoll.Progress)) (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(r, 0, r.Size())), nil
		}
	}
	return src, nil
}

func computeDigest(b []byte) string {
	h, _, err := v1.SHA256(bytes.NewReader(b))
	if err != nil { // reading from memory can't fail
		return ""
	}
	return h.String()
}

// blobName returns the name of a blob in an OCI layout.
func blobName(h v1.Hash) (string, error) {
	if b, err := hex.DecodeString(h.Hex); h.Algorithm != "sha256" || err != nil || len(b) != 32 {
		return "", fmt.Errorf("%w: a blob named %q", atoll.ErrInvalid, clipText(h.String()))
	}
	return "blobs/sha256/" + h.Hex, nil
}

// readLayout reads an OCI layout. An index may refer to another index.
func (b *archiveIndex) readLayout() (source, string, error) {
	named, at := "", "index.json"
	for range 4 {
		var ix v1.IndexManifest
		if _, err := b.readDocument(at, &ix); err != nil {
			return source{}, "", err
		}
		d, err := pickPlatform(ix.Manifests)
		if err != nil {
			return source{}, "", err
		}
		if n := imageName(d); n != "" {
			named = n
		}
		if at, err = blobName(d.Digest); err != nil {
			return source{}, "", err
		}
		if !d.MediaType.IsIndex() {
			src, err := b.readManifest(at)
			return src, named, err
		}
	}
	return source{}, "", fmt.Errorf("%w: too many nested indexes", atoll.ErrInvalid)
}

// imageName returns the name of an image in a layout; empty if it has none.
func imageName(d v1.Descriptor) string {
	if n := d.Annotations["io.containerd.image.name"]; n != "" {
		return n
	}
	if n := d.Annotations["org.opencontainers.image.ref.name"]; strings.ContainsAny(n, ":/") {
		return n
	}
	return ""
}

// pickPlatform returns the entry for this host's platform.
func pickPlatform(list []v1.Descriptor) (v1.Descriptor, error) {
	i := slices.IndexFunc(list, func(d v1.Descriptor) bool {
		return d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH
	})
	if i < 0 {
		i = slices.IndexFunc(list, func(d v1.Descriptor) bool { return d.Platform == nil || d.Platform.Architecture == "" })
	}
	if i < 0 {
		return v1.Descriptor{}, fmt.Errorf("%w: the archive has no image for linux/%s", atoll.ErrUnsupported, runtime.GOARCH)
	}
	return list[i], nil
}

func (b *archiveIndex) readManifest(at string) (source, error) {
	var m v1.Manifest
	raw, err := b.readDocument(at, &m)
	if err != nil {
		return source{}, err
	}
	if d := computeDigest(raw); at != "blobs/sha256/"+strings.TrimPrefix(d, "sha256:") {
		return source{}, fmt.Errorf("%w: the manifest has the digest %s, not that of its name", atoll.ErrInvalid, d)
	}
	if m.Config.MediaType != types.OCIConfigJSON && m.Config.MediaType != types.DockerConfigJSON {
		return source{}, fmt.Errorf("%w: %q is not the type of an image configuration", atoll.ErrInvalid, clipText(string(m.Config.MediaType)))
	}
	config, err := blobName(m.Config.Digest)
	if err != nil {
		return source{}, err
	}
	var cf v1.ConfigFile
	if raw, err = b.readDocument(config, &cf); err != nil {
		return source{}, err
	}
	if d := computeDigest(raw); d != m.Config.Digest.String() {
		return source{}, fmt.Errorf("%w: the configuration is %s, not %s", atoll.ErrInvalid, d, m.Config.Digest)
	}
	var names []string
	for _, l := range m.Layers {
		n, err := blobName(l.Digest)
		if err != nil {
			return source{}, err
		}
		names = append(names, n)
	}
	return b.buildSource("sha256:"+path.Base(at), &cf, names)
}
