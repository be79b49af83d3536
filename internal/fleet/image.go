package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Images returns the images that a driver has; of no driver, of all that keep
// some and work here.
func (a *Account) Images(ctx context.Context, driver string) ([]atoll.DriverImage, error) {
	const op = "images"
	if err := a.need(op, atoll.ScopeRead); err != nil {
		return nil, err
	}
	list, err := a.f.images(ctx, driver)
	if err != nil {
		return nil, &atoll.Error{Op: op, Err: err}
	}
	return list, nil
}

func (f *Fleet) images(ctx context.Context, driver string) ([]atoll.DriverImage, error) {
	stores, err := stores[atoll.ImageStore](ctx, f, driver)
	if driver == "" && errors.Is(err, atoll.ErrUnsupported) {
		return nil, nil // there is none where nobody keeps some
	}
	if err != nil {
		return nil, err
	}
	var list []atoll.DriverImage
	for _, s := range stores {
		images, err := s.does.Images(ctx)
		if err != nil {
			return nil, fmt.Errorf("driver %s: %w", s.name, err)
		}
		for _, i := range images {
			list = append(list, atoll.DriverImage{Driver: s.name, Image: i})
		}
	}
	return list, nil
}

// mayUse refuses an image that a driver would have to pull: which registries this
// machine asks, and with its credentials, is for those who have ScopeAdmin or
// ScopeHost.
func (a *Account) mayUse(ctx context.Context, cfg *atoll.Config) error {
	if cfg.Image == "" || a.caller.can(atoll.ScopeAdmin) || a.caller.can(atoll.ScopeHost) {
		return nil
	}
	if store, ok := a.f.bay(cfg.Driver).driver.(atoll.ImageStore); ok {
		list, err := store.Images(ctx)
		if err != nil {
			return fmt.Errorf("driver %s: %w", cfg.Driver, err)
		}
		ref := wholeRef(cfg.Image)
		if slices.ContainsFunc(list, func(i atoll.Image) bool { return wholeRef(i.Ref) == ref }) {
			return nil
		}
	}
	return fmt.Errorf("%w: image %s is not there: somebody with the scope %s pulls it first", atoll.ErrDenied, clip(cfg.Image, 200), atoll.ScopeAdmin)
}

// wholeRef is an image's name with all that people leave out.
func wholeRef(ref string) string {
	host, rest, ok := strings.Cut(ref, "/")
	switch {
	case !ok:
		ref = "docker.io/library/" + ref
	case host == "index.docker.io" || host == "docker.io":
		if !strings.Contains(rest, "/") {
			rest = "library/" + rest
		}
		ref = "docker.io/" + rest
	case host != "localhost" && !strings.ContainsAny(host, ".:"):
		ref = "docker.io/" + ref
	}
	if last := ref[strings.LastIndexByte(ref, '/')+1:]; !strings.ContainsAny(last, ":@") {
		ref += ":latest"
	}
	return ref
}

// PullImage gets an image from its registry. It needs ScopeAdmin, as all that
// changes the images that everybody's sandboxes are made of.
func (a *Account) PullImage(ctx context.Context, driver, ref string, progress func(atoll.Progress)) (atoll.Image, error) {
	return changeImage(ctx, a, "image pull", driver, ref, func(ctx context.Context, s atoll.ImageStore) (atoll.Image, error) {
		return s.PullImage(ctx, ref, progress)
	})
}

// ImportImage makes an image of an archive.
func (a *Account) ImportImage(ctx context.Context, driver, ref string, archive io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	return changeImage(ctx, a, "image import", driver, ref, func(ctx context.Context, s atoll.ImageImporter) (atoll.Image, error) {
		return s.ImportImage(ctx, ref, archive, progress)
	})
}

// BuildImage builds an image from a Dockerfile.
func (a *Account) BuildImage(ctx context.Context, driver string, b atoll.ImageBuild, tar io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	return changeImage(ctx, a, "image build", driver, b.Ref, func(ctx context.Context, s atoll.ImageBuilder) (atoll.Image, error) {
		return s.BuildImage(ctx, b, tar, progress)
	})
}

// RemoveImage forgets an image.
func (a *Account) RemoveImage(ctx context.Context, driver, ref string) error {
	_, err := changeImage(ctx, a, "image remove", driver, ref, func(ctx context.Context, s atoll.ImageStore) (atoll.Image, error) {
		return atoll.Image{}, s.RemoveImage(ctx, ref)
	})
	return err
}

// changeImage does something to the images of the driver that is named, or else
// of the first that can.
func changeImage[T any](ctx context.Context, a *Account, op, driver, ref string, f func(context.Context, T) (atoll.Image, error)) (atoll.Image, error) {
	if err := a.need(op, atoll.ScopeAdmin); err != nil {
		return atoll.Image{}, err
	}
	noted := a.audited(op, clip(ref, 200), driver)
	image, err := func() (atoll.Image, error) {
		if ref == "" {
			return atoll.Image{}, fmt.Errorf("%w: name the image", atoll.ErrInvalid)
		}
		ctx, leave, err := a.f.operate(ctx)
		if err != nil {
			return atoll.Image{}, err
		}
		defer leave()
		list, err := stores[T](ctx, a.f, driver)
		if err != nil {
			return atoll.Image{}, err
		}
		return f(ctx, list[0].does)
	}()
	noted(err)
	if err != nil {
		return image, failed(op, clip(ref, 200), late(err))
	}
	return image, nil
}

// storing is a driver that can do something with images.
type storing[T any] struct {
	name string
	does T
}

// stores returns the drivers that can do something with images and work here:
// the one that is named, or all, the default first. None is an error.
func stores[T any](ctx context.Context, f *Fleet, driver string) ([]storing[T], error) {
	if driver != "" && f.bay(driver) == nil {
		return nil, fmt.Errorf("%w: driver %q: must be one of %v", atoll.ErrInvalid, driver, f.driverNames())
	}
	var list []storing[T]
	var errs []error
	for _, b := range f.bays {
		name := b.driver.Name()
		t, ok := b.driver.(T)
		if driver != "" && name != driver || !ok {
			continue
		}
		if _, err := b.probe(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, storing[T]{name, t})
		if last := len(list) - 1; name == f.opts.Default {
			list[0], list[last] = list[last], list[0]
		}
	}
	switch {
	case len(list) > 0:
		return list, nil
	case len(errs) > 0:
		return nil, errors.Join(errs...)
	case driver != "":
		return nil, fmt.Errorf("%w by driver %s", atoll.ErrUnsupported, driver)
	}
	return nil, fmt.Errorf("%w by any driver here", atoll.ErrUnsupported)
}
