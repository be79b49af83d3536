package docker

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
)

// ImportImage imports an archive of `docker save`, of an OCI layout, or of the files of a root
// directory, compressed or not. It ignores image names in the archive, which could be those of other
// images.
func (d *Driver) ImportImage(ctx context.Context, ref string, archive io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	e, err := d.openEngine(ctx)
	if err == nil {
		err = e.importImage(ctx, d.baseDir(), ref, archive, progress)
	}
	return d.describeResult(ctx, "import image", ref, err)
}

func (e *engine) importImage(ctx context.Context, dir, ref string, archive io.Reader, progress func(atoll.Progress)) error {
	tag, err := name.NewTag(ref, name.WeakValidation)
	if err != nil {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	spool, err := os.CreateTemp(dir, "import-*")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(spool.Close(), os.Remove(spool.Name())) }() // only this call uses it
	if err := decompress(ctx, spool, archive); err != nil {
		return err
	}
	b, err := indexArchive(spool)
	if err != nil {
		return err
	}
	image, err := b.findImage()
	if err != nil {
		return fmt.Errorf("%w: the archive: %w", atoll.ErrInvalid, err)
	}
	if image == nil {
		return e.importRoot(ctx, ref, io.NewSectionReader(spool, 0, 1<<62), progress)
	}
	return e.loadImage(ctx, tag, image, progress)
}

// decompress writes the decompressed archive to a file that can be searched.
func decompress(ctx context.Context, to *os.File, archive io.Reader) error {
	r := bufio.NewReaderSize(archive, 64<<10)
	var plain io.Reader = r
	switch head, _ := r.Peek(4); { // a shorter file is no archive
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(r)
		if err != nil {
			return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
		}
		plain = z
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(r)
		if err != nil {
			return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
		}
		defer z.Close()
		plain = z
	}
	stop := context.AfterFunc(ctx, func() { _ = to.Close() })
	defer stop()
	_, err := io.Copy(to, plain)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, zstd.ErrCRCMismatch) {
		err = fmt.Errorf("%w: the archive: %w", atoll.ErrInvalid, err)
	}
	return errors.Join(context.Cause(ctx), err)
}

// archive is an archive with an index of its files.
type archive struct {
	file  *os.File
	files map[string]section
}

// section is the position of a file's content in the archive.
type section struct{ from, size int64 }

// Bounds of an archive.
const (
	maxEntries  = 100_000
	maxDocument = 16 << 20 // bytes of JSON
)

func indexArchive(f *os.File) (*archive, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	b := &archive{file: f, files: make(map[string]section)}
	tr := tar.NewReader(f)
	for range maxEntries {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the archive: %w", atoll.ErrInvalid, err)
		}
		if h.Typeflag == tar.TypeReg {
			at, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			b.files[path.Clean(h.Name)] = section{at, h.Size}
		}
	}
	return b, nil
}

func (b *archive) open(name string) (io.ReadCloser, error) {
	s, ok := b.files[name]
	if !ok {
		return nil, fmt.Errorf("%s is missing", name)
	}
	return io.NopCloser(io.NewSectionReader(b.file, s.from, s.size)), nil
}

func (b *archive) read(name string) ([]byte, error) {
	rc, err := b.open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(rc, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("%s is longer than %d bytes", name, maxDocument)
	}
	return text, err
}

// findImage returns the image in an archive; nil for an archive of a root directory.
func (b *archive) findImage() (v1.Image, error) {
	_, saved := b.files["manifest.json"]
	_, layout := b.files["oci-layout"]
	switch {
	case layout:
		return b.layoutImage()
	case saved:
		return tarball.Image(func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(b.file, 0, 1<<62)), nil
		}, nil)
	}
	return nil, nil
}

// layoutImage returns the image of an OCI layout: the first for Linux.
func (b *archive) layoutImage() (v1.Image, error) {
	next := "index.json"
	for range 4 { // an index may name indexes
		text, err := b.read(next)
		if err != nil {
			return nil, err
		}
		var index v1.IndexManifest
		if err := json.Unmarshal(text, &index); err != nil {
			return nil, err
		}
		one, err := chooseLinux(index.Manifests)
		if err != nil {
			return nil, err
		}
		if one.MediaType.IsImage() {
			return partial.CompressedToImage(&layoutImage{b, one})
		}
		next = blobName(one.Digest)
	}
	return nil, errors.New("its indexes lead nowhere")
}

func chooseLinux(list []v1.Descriptor) (v1.Descriptor, error) {
	for _, m := range list {
		if (m.MediaType.IsImage() || m.MediaType.IsIndex()) && (m.Platform == nil || m.Platform.OS == "linux" || m.Platform.OS == "") {
			return m, nil
		}
	}
	return v1.Descriptor{}, errors.New("it holds no image for Linux")
}

func blobName(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// layoutImage reads an image from the blobs of a layout.
type layoutImage struct {
	b *archive
	v1.Descriptor
}

// MediaType returns the media type of the manifest.
func (i *layoutImage) MediaType() (types.MediaType, error) { return i.Descriptor.MediaType, nil }

// RawManifest returns the manifest.
func (i *layoutImage) RawManifest() ([]byte, error) { return i.b.read(blobName(i.Digest)) }

// RawConfigFile returns the configuration.
func (i *layoutImage) RawConfigFile() ([]byte, error) {
	m, err := partial.Manifest(i)
	if err != nil {
		return nil, err
	}
	return i.b.read(blobName(m.Config.Digest))
}

// LayerByDigest returns a layer.
func (i *layoutImage) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	m, err := partial.Manifest(i)
	if err != nil {
		return nil, err
	}
	for _, l := range m.Layers {
		if l.Digest == h {
			return &layoutLayer{i.b, l}, nil
		}
	}
	return nil, fmt.Errorf("layer %s is missing", h)
}

// layoutLayer is a layer among the blobs of a layout.
type layoutLayer struct {
	b *archive
	v1.Descriptor
}

// Digest returns the layer's digest.
func (l *layoutLayer) Digest() (v1.Hash, error) { return l.Descriptor.Digest, nil }

// Compressed opens the layer.
func (l *layoutLayer) Compressed() (io.ReadCloser, error) {
	return l.b.open(blobName(l.Descriptor.Digest))
}

// Size returns the layer's size.
func (l *layoutLayer) Size() (int64, error) { return l.Descriptor.Size, nil }

// MediaType returns the media type of the layer.
func (l *layoutLayer) MediaType() (types.MediaType, error) { return l.Descriptor.MediaType, nil }

// loadImage loads an image into the engine under one name.
func (e *engine) loadImage(ctx context.Context, tag name.Tag, image v1.Image, progress func(atoll.Progress)) error {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := tarball.Write(tag, image, w)
		_ = w.CloseWithError(err) // never fails
		written <- err
	}()
	res, err := e.api.ImageLoad(ctx, r)
	if err == nil {
		err = e.reportProgress(ctx, decodeMessages(res), progress)
		_ = res.Close() // all of it was read
	}
	_ = r.Close() // never fails
	if werr := <-written; werr != nil && !errors.Is(werr, io.ErrClosedPipe) {
		return fmt.Errorf("%w: the archive: %w", atoll.ErrInvalid, werr)
	}
	return e.contextError(ctx, err)
}

// importRoot imports the files of a root directory as an image.
func (e *engine) importRoot(ctx context.Context, ref string, archive io.Reader, progress func(atoll.Progress)) error {
	rc, err := e.api.ImageImport(ctx, client.ImageImportSource{Source: archive, SourceName: "-"}, ref, client.ImageImportOptions{})
	if err != nil {
		return e.contextError(ctx, err)
	}
	defer rc.Close()
	return e.reportProgress(ctx, decodeMessages(rc), progress)
}
