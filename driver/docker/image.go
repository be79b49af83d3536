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

// Images returns the engine's images that have a name, except for snapshots.
func (d *Driver) Images(ctx context.Context) ([]atoll.Image, error) {
	e, err := d.openEngine(ctx)
	if err != nil {
		return nil, &atoll.Error{Op: "list images", Err: err}
	}
	r, err := e.api.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return nil, &atoll.Error{Op: "list images", Err: e.contextError(ctx, err)}
	}
	var list []atoll.Image
	for _, s := range r.Items {
		for _, tag := range s.RepoTags {
			if tag == "<none>:<none>" || strings.HasPrefix(tag, snapshotRepo) {
				continue
			}
			im, err := e.describeImage(ctx, tag)
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

// describeImage returns the description of an image.
func (e *engine) describeImage(ctx context.Context, ref string) (atoll.Image, error) {
	i, err := e.api.ImageInspect(ctx, ref)
	if err != nil {
		return atoll.Image{}, fmt.Errorf("image %s: %w", ref, e.contextError(ctx, err))
	}
	return atoll.Image{
		Ref: ref, Digest: i.ID, Size: i.Size, Layers: len(i.RootFS.Layers),
		Platform: strings.TrimSuffix(i.Os+"/"+i.Architecture+"/"+i.Variant, "/"), Created: parseTime(i.Created),
	}, nil
}

// PullImage pulls an image from its registry. The engine fetches only the layers that it does not
// have.
func (d *Driver) PullImage(ctx context.Context, ref string, progress func(atoll.Progress)) (atoll.Image, error) {
	e, err := d.openEngine(ctx)
	if err == nil {
		err = e.pullImage(ctx, ref, progress)
	}
	return d.describeResult(ctx, "pull image", ref, err)
}

// describeResult returns the description of an image that an operation has made, or its error.
func (d *Driver) describeResult(ctx context.Context, op, ref string, err error) (im atoll.Image, _ error) {
	if err == nil {
		im, err = d.eng.describeImage(ctx, ref)
	}
	if err != nil {
		return atoll.Image{}, &atoll.Error{Op: op, ID: ref, Err: err}
	}
	return im, nil
}

func (e *engine) pullImage(ctx context.Context, ref string, progress func(atoll.Progress)) error {
	r, err := e.api.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: registryCredentials(ref)})
	if err != nil {
		return fmt.Errorf("pulling %s: %w", ref, e.contextError(ctx, err))
	}
	if err := e.reportProgress(ctx, r.JSONMessages(ctx), progress); err != nil {
		return fmt.Errorf("pulling %s: %w", ref, err)
	}
	return nil
}

// reportProgress reports the messages of an engine until they end, or one is an error.
func (e *engine) reportProgress(ctx context.Context, messages iter.Seq2[jsonstream.Message, error], progress func(atoll.Progress)) error {
	for m, err := range messages {
		if err != nil {
			return e.contextError(ctx, err)
		}
		if m.Error != nil {
			return markStreamError(m.Error)
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
	return e.contextError(ctx, ctx.Err())
}

// markStreamError makes an error message of a stream match one of atoll's errors.
func markStreamError(e *jsonstream.Error) error {
	switch e.Code {
	case 401, 403:
		return fmt.Errorf("%w: %w", atoll.ErrDenied, e)
	case 404:
		return fmt.Errorf("%w: %w", atoll.ErrNotFound, e)
	}
	return fmt.Errorf("%w: %w", atoll.ErrUnavailable, e)
}

// RemoveImage removes a name of an image, and the image with its last name.
func (d *Driver) RemoveImage(ctx context.Context, ref string) error {
	e, err := d.openEngine(ctx)
	if err == nil {
		_, err = e.api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
		err = e.contextError(ctx, err)
	}
	if err != nil {
		return &atoll.Error{Op: "remove image", ID: ref, Err: err}
	}
	return nil
}

// BuildImage builds an image from a Dockerfile with the engine's own builder.
func (d *Driver) BuildImage(ctx context.Context, b atoll.ImageBuild, context io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	e, err := d.openEngine(ctx)
	if err == nil {
		err = e.buildImage(ctx, b, context, progress)
	}
	return d.describeResult(ctx, "build image", b.Ref, err)
}

func (e *engine) buildImage(ctx context.Context, b atoll.ImageBuild, source io.Reader, progress func(atoll.Progress)) error {
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
		return e.contextError(ctx, err)
	}
	defer r.Body.Close()
	return e.reportProgress(ctx, decodeMessages(r.Body), progress)
}

// decodeMessages decodes the messages of a stream.
func decodeMessages(r io.Reader) iter.Seq2[jsonstream.Message, error] {
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
