package microvm

import (
	"context"
	"io"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/image"
)

var (
	_ atoll.ImageStore    = (*Driver)(nil)
	_ atoll.ImageImporter = (*Driver)(nil)
)

// imageStore returns the store of this driver's images.
func (d *Driver) imageStore() *image.Store {
	dir := d.ImageDir
	if dir == "" {
		dir = filepath.Join(d.Dir, "images")
	}
	return &image.Store{Dir: dir}
}

// Images returns the local images, sorted by name.
func (d *Driver) Images(ctx context.Context) ([]atoll.Image, error) {
	return d.imageStore().Images(ctx)
}

// PullImage pulls an image from its registry.
func (d *Driver) PullImage(ctx context.Context, ref string, progress func(atoll.Progress)) (atoll.Image, error) {
	im, err := d.imageStore().PullImage(ctx, ref, progress)
	if err != nil {
		return im, err
	}
	return im, d.collectRootDisks(ctx)
}

// collectRootDisks removes the root disks of images that no longer exist: another driver with the
// same store may have removed them.
func (d *Driver) collectRootDisks(ctx context.Context) error {
	return d.diskStore().CollectGarbage(ctx, d.imageStore())
}

// RemoveImage removes an image and the root disk that was made of it.
func (d *Driver) RemoveImage(ctx context.Context, ref string) error {
	if err := d.imageStore().RemoveImage(ctx, ref); err != nil {
		return err
	}
	return d.collectRootDisks(ctx)
}

// ImportImage imports an image from an archive.
func (d *Driver) ImportImage(ctx context.Context, ref string, archive io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	im, err := d.imageStore().ImportImage(ctx, ref, archive, progress)
	if err != nil {
		return im, err
	}
	return im, d.collectRootDisks(ctx)
}
