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

// Images returns the images of a driver; with an empty driver, those of all drivers that keep
// images and work here.
func (a *Account) Images(ctx context.Context, driver string) ([]atoll.DriverImage, error) {
	const op = "images"
	if err := a.checkScope(op, atoll.ScopeRead); err != nil {
		return nil, err
	}
	list, err := a.f.listImages(ctx, driver)
	if err != nil {
		return nil, &atoll.Error{Op: op, Err: err}
	}
	return list, nil
}

func (f *Fleet) listImages(ctx context.Context, driver string) ([]atoll.DriverImage, error) {
	stores, err := driversWith[atoll.ImageStore](ctx, f, driver)
	if driver == "" && errors.Is(err, atoll.ErrUnsupported) {
		return nil, nil // no driver keeps images
	}
	if err != nil {
		return nil, err
	}
	var list []atoll.DriverImage
	for _, s := range stores {
		images, err := s.impl.Images(ctx)
		if err != nil {
			return nil, fmt.Errorf("driver %s: %w", s.name, err)
		}
		for _, i := range images {
			list = append(list, atoll.DriverImage{Driver: s.name, Image: i})
		}
	}
	return list, nil
}

// checkImage refuses an image that the driver would have to pull, unless the caller has ScopeOperate
// or ScopeHost: those decide which image registries this host contacts with its credentials.
func (a *Account) checkImage(ctx context.Context, cfg *atoll.Config) error {
	if cfg.Image == "" || a.caller.Allows(atoll.ScopeOperate) || a.caller.hasScope(atoll.ScopeHost) {
		return nil
	}
	if _, ok := a.f.findDriver(cfg.Driver).impl.(atoll.ImageStore); ok {
		return a.f.checkPresentImage(ctx, cfg)
	}
	return errImageMissing(cfg.Image)
}

func errImageMissing(ref string) error {
	return fmt.Errorf("%w: image %s has not been pulled: a caller with the scope %s must pull it first", atoll.ErrDenied, truncate(ref, 200), atoll.ScopeOperate)
}

// checkPresentImage refuses an image that the driver would have to pull, whoever the caller is. It accepts every image for a
// driver without an image store.
func (f *Fleet) checkPresentImage(ctx context.Context, cfg *atoll.Config) error {
	store, ok := f.findDriver(cfg.Driver).impl.(atoll.ImageStore)
	if cfg.Image == "" || !ok {
		return nil
	}
	list, err := store.Images(ctx)
	if err != nil {
		return fmt.Errorf("driver %s: %w", cfg.Driver, err)
	}
	ref := fullImageRef(cfg.Image)
	if slices.ContainsFunc(list, func(i atoll.Image) bool { return fullImageRef(i.Ref) == ref }) {
		return nil
	}
	return errImageMissing(cfg.Image)
}

// fullImageRef returns an image reference with the default registry, namespace and tag filled in.
func fullImageRef(ref string) string {
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

// PullImage pulls an image from its image registry. It needs ScopeOperate, as do all changes of the
// images that all owners use.
func (a *Account) PullImage(ctx context.Context, driver, ref string, progress func(atoll.Progress)) (atoll.Image, error) {
	return changeImage(ctx, a, "image pull", driver, ref, func(ctx context.Context, s atoll.ImageStore) (atoll.Image, error) {
		return s.PullImage(ctx, ref, progress)
	})
}

// ImportImage creates an image from an archive.
func (a *Account) ImportImage(ctx context.Context, driver, ref string, archive io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	return changeImage(ctx, a, "image import", driver, ref, func(ctx context.Context, s atoll.ImageImporter) (atoll.Image, error) {
		return s.ImportImage(ctx, ref, archive, progress)
	})
}

// BuildImage builds an image from a Dockerfile.
func (a *Account) BuildImage(ctx context.Context, driver string, b atoll.ImageBuild, tar io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	if b.Network != "" && b.Network != string(atoll.NetworkNone) {
		if err := a.checkScope("image build", atoll.ScopeHost); err != nil {
			return atoll.Image{}, fmt.Errorf("network %s of a build: %w", b.Network, err)
		}
	}
	return changeImage(ctx, a, "image build", driver, b.Ref, func(ctx context.Context, s atoll.ImageBuilder) (atoll.Image, error) {
		return s.BuildImage(ctx, b, tar, progress)
	})
}

// RemoveImage removes an image.
func (a *Account) RemoveImage(ctx context.Context, driver, ref string) error {
	_, err := changeImage(ctx, a, "image remove", driver, ref, func(ctx context.Context, s atoll.ImageStore) (atoll.Image, error) {
		return atoll.Image{}, s.RemoveImage(ctx, ref)
	})
	return err
}

// changeImage calls f with the named driver, or with the first that implements T.
func changeImage[T any](ctx context.Context, a *Account, op, driver, ref string, f func(context.Context, T) (atoll.Image, error)) (atoll.Image, error) {
	if err := a.checkScope(op, atoll.ScopeOperate); err != nil {
		return atoll.Image{}, err
	}
	noted := a.startAudit(op, truncate(ref, 200), driver)
	image, err := func() (atoll.Image, error) {
		if ref == "" {
			return atoll.Image{}, fmt.Errorf("%w: the image has no name", atoll.ErrInvalid)
		}
		ctx, leave, err := a.f.beginOperation(ctx)
		if err != nil {
			return atoll.Image{}, err
		}
		defer leave()
		list, err := driversWith[T](ctx, a.f, driver)
		if err != nil {
			return atoll.Image{}, err
		}
		return f(ctx, list[0].impl)
	}()
	noted(err)
	if err != nil {
		return image, wrapOpError(op, truncate(ref, 200), timeoutError(err))
	}
	return image, nil
}

// imageDriver is a driver that implements T.
type imageDriver[T any] struct {
	name string
	impl T
}

// driversWith returns the drivers that implement T and work here: the named one, or all, the
// default first. It returns an error rather than none.
func driversWith[T any](ctx context.Context, f *Fleet, driver string) ([]imageDriver[T], error) {
	if driver != "" && f.findDriver(driver) == nil {
		return nil, fmt.Errorf("%w: driver %q: must be one of %v", atoll.ErrInvalid, driver, f.driverNames())
	}
	var list []imageDriver[T]
	var errs []error
	for _, b := range f.drivers {
		name := b.impl.Name()
		t, ok := b.impl.(T)
		if driver != "" && name != driver || !ok {
			continue
		}
		if _, err := b.probe(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, imageDriver[T]{name, t})
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
