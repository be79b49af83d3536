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

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// ImportImage takes an archive of `docker save`, of an OCI layout, or of the
// files of a root directory, compressed or not. An empty ref is the first one
// that the archive names. progress may be nil.
func (s *Store) ImportImage(ctx context.Context, ref string, archive io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	unlock, err := s.open(ctx, unix.LOCK_SH)
	if err != nil {
		return atoll.Image{}, err
	}
	defer unlock()
	im, err := s.take(ctx, ref, archive, &reporter{f: progress})
	if err != nil {
		return atoll.Image{}, fmt.Errorf("image %s: %w", ref, timeout(ctx, err))
	}
	return im, nil
}

func (s *Store) take(ctx context.Context, ref string, archive io.Reader, r *reporter) (atoll.Image, error) {
	if ref != "" {
		if _, err := parse(ref); err != nil {
			return atoll.Image{}, err
		}
	}
	spool, err := os.CreateTemp(s.path(partsDir), "import-*")
	if err != nil {
		return atoll.Image{}, err
	}
	defer func() { _ = errors.Join(spool.Close(), os.Remove(spool.Name())) }() // nobody else knows it
	if err := s.spool(ctx, spool, archive, r); err != nil {
		return atoll.Image{}, err
	}
	b, err := bundleOf(spool)
	if err != nil {
		return atoll.Image{}, err
	}
	src, named, err := b.source()
	if err != nil {
		return atoll.Image{}, err
	}
	if ref == "" {
		ref = named
	}
	parsed, err := parse(ref)
	if err != nil {
		return atoll.Image{}, fmt.Errorf("the archive names no image: %w", err)
	}
	return s.installImport(ctx, parsed, src, r)
}

func (s *Store) installImport(ctx context.Context, ref name.Reference, src source, r *reporter) (atoll.Image, error) {
	im, err := s.install(ctx, s.recordPath(ref), familiar(ref), src, r)
	if err != nil || src.digest != "" {
		return im, err
	}
	// Files of a root directory: the image is its one layer.
	var rec record
	if err := readJSON(s.recordPath(ref), &rec); err != nil {
		return atoll.Image{}, err
	}
	rec.Image.Digest = "sha256:" + rec.Layers[0]
	return rec.Image, writeJSON(s.recordPath(ref), rec)
}

// spool writes the plain archive to a file, in which it can be searched.
func (s *Store) spool(ctx context.Context, to *os.File, archive io.Reader, r *reporter) error {
	plain, err := decompress(&meter{Reader: leashed{ctx, archive}, report: func(done int64) {
		r.report(atoll.Progress{Message: "reading", Done: done})
	}})
	if err != nil {
		return err
	}
	defer plain.Close()
	most := s.most()
	n, err := io.Copy(to, io.LimitReader(plain, most))
	if err == nil && n == most {
		err = fmt.Errorf("%w: an archive of more than %d bytes", atoll.ErrQuota, most)
	}
	return quota(err)
}

// leashed ends a copy when its context does.
type leashed struct {
	ctx context.Context //nolint:containedctx // of the copy
	r   io.Reader
}

func (l leashed) Read(p []byte) (int, error) {
	if err := context.Cause(l.ctx); err != nil {
		return 0, err
	}
	return l.r.Read(p)
}

// bundle is an archive that was looked through.
type bundle struct {
	file  *os.File
	files map[string]span
	links map[string]string
	size  int64
}

// span is where a file's content lies in the archive.
type span struct{ from, size int64 }

// Bounds of a bundle of an image.
const (
	mostBlobs    = 10_000
	mostDocument = 16 << 20 // bytes of JSON
	mostLayers   = 500
)

// bundleOf looks through an archive. What is no image's is a root directory's,
// of which no more is read than it takes to see that.
func bundleOf(f *os.File) (*bundle, error) {
	b := &bundle{file: f, files: make(map[string]span), links: make(map[string]string)}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b.size = info.Size()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	tr := tar.NewReader(f)
	for range mostBlobs {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, broken(err)
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			b.files[name] = span{at, h.Size}
		case tar.TypeSymlink: // old archives name a layer twice so
			b.links[name] = path.Join(path.Dir(name), h.Linkname)
		}
	}
	return b, nil
}

// open returns a file of the bundle.
func (b *bundle) open(name string) (*io.SectionReader, error) {
	name = path.Clean(name)
	for range mostLinks {
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
	return nil, fmt.Errorf("%w: the archive has no %q", atoll.ErrInvalid, clip(name))
}

// document reads a JSON file of the bundle.
func (b *bundle) document(name string, v any) ([]byte, error) {
	r, err := b.open(name)
	if err != nil {
		return nil, err
	}
	if r.Size() > mostDocument {
		return nil, fmt.Errorf("%w: %q of %d bytes", atoll.ErrInvalid, clip(name), r.Size())
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("%w: %q: %w", atoll.ErrInvalid, clip(name), err)
	}
	return data, nil
}

// source finds out what the archive is.
func (b *bundle) source() (src source, named string, err error) {
	_, docker := b.files["manifest.json"]
	_, layout := b.files["index.json"]
	_, marked := b.files["oci-layout"]
	switch {
	case docker:
		return b.docker()
	case layout && marked:
		return b.layout()
	}
	fetch := func(context.Context, string, func(atoll.Progress)) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(b.file, 0, b.size)), nil
	}
	if len(b.files)+len(b.links) == 0 && b.size < 512 {
		return source{}, "", fmt.Errorf("%w: an empty archive", atoll.ErrInvalid)
	}
	return source{platform: "linux/" + runtime.GOARCH, created: time.Now().UTC(), layers: []layer{{short: "files", size: b.size, fetch: fetch}}}, "", nil
}

// docker reads what `docker save` writes.
func (b *bundle) docker() (source, string, error) {
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if _, err := b.document("manifest.json", &list); err != nil {
		return source{}, "", err
	}
	if len(list) == 0 {
		return source{}, "", fmt.Errorf("%w: the archive holds no image", atoll.ErrInvalid)
	}
	m, named := list[0], ""
	if len(m.RepoTags) > 0 {
		named = m.RepoTags[0]
	}
	var cf v1.ConfigFile
	raw, err := b.document(m.Config, &cf)
	if err != nil {
		return source{}, "", err
	}
	src, err := b.sourceOf(digestOf(raw), &cf, m.Layers)
	return src, named, err
}

func (b *bundle) sourceOf(digest string, cf *v1.ConfigFile, names []string) (source, error) {
	if len(names) > mostLayers {
		return source{}, fmt.Errorf("%w: %d layers", atoll.ErrInvalid, len(names))
	}
	src, err := sourceOf(digest, cf, len(names))
	if err != nil {
		return source{}, err
	}
	for i, name := range names {
		r, err := b.open(name)
		if err != nil {
			return source{}, err
		}
		l := &src.layers[i]
		l.short, l.size = short(l.diffID), r.Size()
		l.fetch = func(context.Context, string, func(atoll.Progress)) (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(r, 0, r.Size())), nil
		}
	}
	return src, nil
}

func digestOf(b []byte) string {
	h, _, err := v1.SHA256(bytes.NewReader(b))
	if err != nil { // reading from memory can't fail
		return ""
	}
	return h.String()
}

// blobName is where an OCI layout has a blob.
func blobName(h v1.Hash) (string, error) {
	if b, err := hex.DecodeString(h.Hex); h.Algorithm != "sha256" || err != nil || len(b) != 32 {
		return "", fmt.Errorf("%w: a blob named %q", atoll.ErrInvalid, clip(h.String()))
	}
	return "blobs/sha256/" + h.Hex, nil
}

// layout reads an OCI layout. Indexes may lie in indexes.
func (b *bundle) layout() (source, string, error) {
	named, at := "", "index.json"
	for range 4 {
		var ix v1.IndexManifest
		if _, err := b.document(at, &ix); err != nil {
			return source{}, "", err
		}
		d, err := pick(ix.Manifests)
		if err != nil {
			return source{}, "", err
		}
		if n := nameOf(d); n != "" {
			named = n
		}
		if at, err = blobName(d.Digest); err != nil {
			return source{}, "", err
		}
		if !d.MediaType.IsIndex() {
			src, err := b.manifest(at)
			return src, named, err
		}
	}
	return source{}, "", fmt.Errorf("%w: indexes in indexes", atoll.ErrInvalid)
}

// nameOf is the name that a layout has for an image.
func nameOf(d v1.Descriptor) string {
	if n := d.Annotations["io.containerd.image.name"]; n != "" {
		return n
	}
	if n := d.Annotations["org.opencontainers.image.ref.name"]; strings.ContainsAny(n, ":/") {
		return n
	}
	return ""
}

// pick chooses what is for this machine.
func pick(list []v1.Descriptor) (v1.Descriptor, error) {
	i := slices.IndexFunc(list, func(d v1.Descriptor) bool {
		return d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH
	})
	if i < 0 {
		i = slices.IndexFunc(list, func(d v1.Descriptor) bool { return d.Platform == nil || d.Platform.Architecture == "" })
	}
	if i < 0 {
		return v1.Descriptor{}, fmt.Errorf("%w: the archive holds nothing for linux/%s", atoll.ErrUnsupported, runtime.GOARCH)
	}
	return list[i], nil
}

func (b *bundle) manifest(at string) (source, error) {
	var m v1.Manifest
	raw, err := b.document(at, &m)
	if err != nil {
		return source{}, err
	}
	if d := digestOf(raw); at != "blobs/sha256/"+strings.TrimPrefix(d, "sha256:") {
		return source{}, fmt.Errorf("%w: the manifest is %s, not what it is called", atoll.ErrInvalid, d)
	}
	if m.Config.MediaType != types.OCIConfigJSON && m.Config.MediaType != types.DockerConfigJSON {
		return source{}, fmt.Errorf("%w: %q is no image's", atoll.ErrInvalid, clip(string(m.Config.MediaType)))
	}
	config, err := blobName(m.Config.Digest)
	if err != nil {
		return source{}, err
	}
	var cf v1.ConfigFile
	if raw, err = b.document(config, &cf); err != nil {
		return source{}, err
	}
	if d := digestOf(raw); d != m.Config.Digest.String() {
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
	return b.sourceOf("sha256:"+path.Base(at), &cf, names)
}
