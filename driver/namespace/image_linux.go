package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/jail"
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
	return d.store().PullImage(ctx, ref, progress)
}

// RemoveImage forgets an image.
func (d *Driver) RemoveImage(ctx context.Context, ref string) error {
	return d.store().RemoveImage(ctx, ref)
}

// ImportImage takes an archive.
func (d *Driver) ImportImage(ctx context.Context, ref string, archive io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	return d.store().ImportImage(ctx, ref, archive, progress)
}

// useImage gets the image of a new sandbox, which it then uses.
func (d *Driver) useImage(ctx context.Context, r *record) error {
	if r.Spec.Image == "" {
		return nil
	}
	if _, err := d.store().Ensure(ctx, r.Spec.Image, nil); err != nil {
		return fmt.Errorf("image %s: %w", r.Spec.Image, err)
	}
	_, err := d.store().Use(ctx, r.Spec.Image, r.ID)
	return err
}

// leaveImage ends the use of a sandbox's image.
func (d *Driver) leaveImage(r *record) error {
	if r.Spec.Image == "" {
		return nil
	}
	err := d.store().Release(r.ID)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}

// imageRoot plans the layers of a sandbox's image. With privileges, their owners
// appear inside as the same numbers.
func (d *Driver) imageRoot(ctx context.Context, p *plan, r *record) (*image.Config, error) {
	im, err := d.store().Used(r.ID)
	if err != nil {
		return nil, err
	}
	all := []jail.IDs{{Inside: 0, Outside: p.base, Count: perID}}
	for _, layer := range im.Layers {
		src, err := p.source(layer, jail.Step{ReadOnly: true})
		if err != nil {
			return nil, err
		}
		p.setup.Layers = append(p.setup.Layers, src)
	}
	if !p.root {
		return &im.Config, nil
	}
	spawner, err := d.spawn(ctx)
	if err != nil {
		return nil, err
	}
	ns, err := spawner.Namespace(ctx, all, all)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	for _, l := range p.setup.Layers {
		if err := jail.Shift(p.files[l.File], ns); err != nil {
			return nil, fmt.Errorf("%w: images need Linux 5.19 or later, and a file system that can map owners: %w", atoll.ErrUnsupported, err)
		}
	}
	return &im.Config, nil
}
