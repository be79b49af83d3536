package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
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
	return d.imageStore().PullImage(ctx, ref, progress)
}

// RemoveImage removes an image.
func (d *Driver) RemoveImage(ctx context.Context, ref string) error {
	return d.imageStore().RemoveImage(ctx, ref)
}

// ImportImage imports an image from an archive.
func (d *Driver) ImportImage(ctx context.Context, ref string, archive io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	return d.imageStore().ImportImage(ctx, ref, archive, progress)
}

// useImage pulls the image of a new sandbox if needed, and marks it as used by the sandbox.
func (d *Driver) useImage(ctx context.Context, r *record) error {
	if r.Spec.Image == "" {
		return nil
	}
	if _, err := d.imageStore().Ensure(ctx, r.Spec.Image, nil); err != nil {
		return err
	}
	_, err := d.imageStore().Acquire(ctx, r.Spec.Image, r.ID)
	return err
}

// releaseImage ends the use of a sandbox's image.
func (d *Driver) releaseImage(r *record) error {
	if r.Spec.Image == "" {
		return nil
	}
	err := d.imageStore().Release(r.ID)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}

// addImageRoot plans the layers of a sandbox's image. With privileges, the numbers of their owners
// inside are those of the image.
func (d *Driver) addImageRoot(ctx context.Context, p *plan, r *record) (*image.Config, error) {
	im, err := d.imageStore().ImageOf(r.ID)
	if err != nil {
		return nil, err
	}
	all := []jail.IDs{{Inside: 0, Outside: p.base, Count: perID}}
	for _, layer := range im.Layers {
		src, err := p.openDir(layer, jail.Step{ReadOnly: true})
		if err != nil {
			return nil, err
		}
		p.setup.Layers = append(p.setup.Layers, src)
	}
	if !p.root {
		return &im.Config, nil
	}
	spawner, err := d.startSpawner(ctx)
	if err != nil {
		return nil, err
	}
	ns, err := spawner.NewUserNamespace(ctx, all, all)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	for _, l := range p.setup.Layers {
		if err := jail.MapOwners(p.files[l.File], ns); err != nil {
			return nil, fmt.Errorf("%w: images need Linux 5.19 or later, and a file system that can map owners: %w", atoll.ErrUnsupported, err)
		}
	}
	return &im.Config, nil
}
