package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
)

var (
	_ atoll.ImageStore    = (*Driver)(nil)
	_ atoll.ImageImporter = (*Driver)(nil)
	_ atoll.ImageBuilder  = (*Driver)(nil)
)

// Images returns the engine's images that have a name, besides those that are
// snapshots.
func (d *Driver) Images(ctx context.Context) ([]atoll.Image, error) {
	e, err := d.engine(ctx)
	if err != nil {
		return nil, &atoll.Error{Op: "list images", Err: err}
	}
	r, err := e.api.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return nil, &atoll.Error{Op: "list images", Err: e.cause(ctx, err)}
	}
	var list []atoll.Image
	for _, s := range r.Items {
		for _, tag := range s.RepoTags {
			if tag == "<none>:<none>" || strings.HasPrefix(tag, snapshotRepo) {
				continue
			}
			im, err := e.describe(ctx, tag)
			if errors.Is(err, atoll.ErrNotFound) {
				continue // removed meanwhile
			}
			if err != nil {
				return nil, &atoll.Error{Op: "list images", Err: err}
			}
			list = append(list, im)
		}
	}
	slices.SortFunc(list, func(a, b atoll.Image) int { return cmp.Compare(a.Ref, b.Ref) })
	return list, nil
}

// describe says what is known of an image.
func (e *engine) describe(ctx context.Context, ref string) (atoll.Image, error) {
	i, err := e.api.ImageInspect(ctx, ref)
	if err != nil {
		return atoll.Image{}, fmt.Errorf("image %s: %w", ref, e.cause(ctx, err))
	}
	return atoll.Image{
		Ref: ref, Digest: i.ID, Size: i.Size, Layers: len(i.RootFS.Layers),
		Platform: strings.TrimSuffix(i.Os+"/"+i.Architecture+"/"+i.Variant, "/"), Created: parseTime(i.Created),
	}, nil
}

// PullImage gets an image from its registry. The engine fetches only the
// layers that it doesn't have.
func (d *Driver) PullImage(ctx context.Context, ref string, progress func(atoll.Progress)) (atoll.Image, error) {
	e, err := d.engine(ctx)
	if err == nil {
		err = e.pull(ctx, ref, progress)
	}
	return d.made(ctx, "pull image", ref, err)
}

// made describes an image that an operation has made, unless it failed.
func (d *Driver) made(ctx context.Context, op, ref string, err error) (im atoll.Image, _ error) {
	if err == nil {
		im, err = d.eng.describe(ctx, ref)
	}
	if err != nil {
		return atoll.Image{}, &atoll.Error{Op: op, ID: ref, Err: err}
	}
	return im, nil
}

func (e *engine) pull(ctx context.Context, ref string, progress func(atoll.Progress)) error {
	r, err := e.api.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: credentials(ref)})
	if err != nil {
		return fmt.Errorf("pulling %s: %w", ref, e.cause(ctx, err))
	}
	if err := e.follow(ctx, r.JSONMessages(ctx), progress); err != nil {
		return fmt.Errorf("pulling %s: %w", ref, err)
	}
	return nil
}

// follow passes an engine's messages on until they end, or one is an error.
func (e *engine) follow(ctx context.Context, messages iter.Seq2[jsonstream.Message, error], progress func(atoll.Progress)) error {
	for m, err := range messages {
		if err != nil {
			return e.cause(ctx, err)
		}
		if m.Error != nil {
			return reasonOf(m.Error)
		}
		if progress == nil {
			continue
		}
		p := atoll.Progress{ID: m.ID, Message: strings.TrimRight(m.Status+m.Stream, "\n")}
		if m.Progress != nil {
			p.Done, p.Total = m.Progress.Current, m.Progress.Total
		}
		if p.Message != "" {
			progress(p)
		}
	}
	return e.cause(ctx, ctx.Err())
}

// reasonOf gives an error that came within a stream its sentinel.
func reasonOf(e *jsonstream.Error) error {
	switch e.Code {
	case 401, 403:
		return fmt.Errorf("%w: %w", atoll.ErrDenied, e)
	case 404:
		return fmt.Errorf("%w: %w", atoll.ErrNotFound, e)
	}
	return fmt.Errorf("%w: %w", atoll.ErrUnavailable, e)
}

// RemoveImage removes a name of an image, and the image when it was the last.
func (d *Driver) RemoveImage(ctx context.Context, ref string) error {
	e, err := d.engine(ctx)
	if err == nil {
		_, err = e.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
		err = e.cause(ctx, err)
	}
	if err != nil {
		return &atoll.Error{Op: "remove image", ID: ref, Err: err}
	}
	return nil
}

// BuildImage builds from a Dockerfile with the engine's own builder.
func (d *Driver) BuildImage(ctx context.Context, b atoll.ImageBuild, context io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	e, err := d.engine(ctx)
	if err == nil {
		err = e.build(ctx, b, context, progress)
	}
	return d.made(ctx, "build image", b.Ref, err)
}

func (e *engine) build(ctx context.Context, b atoll.ImageBuild, source io.Reader, progress func(atoll.Progress)) error {
	if b.Ref == "" {
		return fmt.Errorf("%w: the image has no name", atoll.ErrInvalid)
	}
	args := make(map[string]*string, len(b.Args))
	for k, v := range b.Args {
		args[k] = &v
	}
	r, err := e.api.ImageBuild(ctx, source, client.ImageBuildOptions{
		Tags: []string{b.Ref}, Dockerfile: b.Dockerfile, BuildArgs: args, NetworkMode: b.Network, Remove: true, ForceRemove: true,
	})
	if err != nil {
		return e.cause(ctx, err)
	}
	defer r.Body.Close()
	return e.follow(ctx, messages(r.Body), progress)
}

// messages reads the messages of a stream.
func messages(r io.Reader) iter.Seq2[jsonstream.Message, error] {
	return func(yield func(jsonstream.Message, error) bool) {
		dec := json.NewDecoder(r)
		for {
			var m jsonstream.Message
			err := dec.Decode(&m)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}
