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

// store keeps the images of this driver.
func (d *Driver) store() *image.Store {
	dir := d.ImageDir
	if dir == "" {
		dir = filepath.Join(d.Dir, "images")
	}
	return &image.Store{Dir: dir}
}

// Images returns what is there, by name.
func (d *Driver) Images(ctx context.Context) ([]atoll.Image, error) { return d.store().Images(ctx) }

// PullImage gets an image from its registry.
func (d *Driver) PullImage(ctx context.Context, ref string, progress func(atoll.Progress)) (atoll.Image, error) {
	im, err := d.store().PullImage(ctx, ref, progress)
	if err != nil {
		return im, err
	}
	return im, d.collect(ctx)
}

// collect removes the root disks of images that are gone: a driver that has the
// same store may have removed them.
func (d *Driver) collect(ctx context.Context) error { return d.disks().Collect(ctx, d.store()) }

// RemoveImage forgets an image, and the root disk that was made of it.
func (d *Driver) RemoveImage(ctx context.Context, ref string) error {
	if err := d.store().RemoveImage(ctx, ref); err != nil {
		return err
	}
	return d.collect(ctx)
}

// ImportImage takes an archive.
func (d *Driver) ImportImage(ctx context.Context, ref string, archive io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	im, err := d.store().ImportImage(ctx, ref, archive, progress)
	if err != nil {
		return im, err
	}
	return im, d.collect(ctx)
}
