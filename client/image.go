package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Images returns the images of a driver; empty: of all drivers with an image store.
func (c *Client) Images(ctx context.Context, driver string) ([]atoll.DriverImage, error) {
	q := make(url.Values)
	setText(q, "driver", driver)
	return getList[atoll.DriverImage](ctx, c, call{op: "images", path: "/v1/images", query: q})
}

// RemoveImage removes an image of a driver; empty: the first driver with an image store.
func (c *Client) RemoveImage(ctx context.Context, driver, ref string) error {
	q := url.Values{"ref": {ref}}
	setText(q, "driver", driver)
	return c.getJSON(ctx, call{op: "image remove", id: ref, method: http.MethodDelete, path: "/v1/images", query: q}, nil)
}

// PullImage makes the server pull an image from its registry. progress may be nil.
func (c *Client) PullImage(ctx context.Context, driver, ref string, progress func(atoll.Progress)) (atoll.Image, error) {
	b, err := json.Marshal(wire.Pull{Ref: ref, Driver: driver})
	k := call{op: "image pull", id: ref, method: http.MethodPost, path: "/v1/images/pull"}
	if err != nil {
		return atoll.Image{}, k.wrapError(err)
	}
	k.body, k.length = bytes.NewReader(b), int64(len(b))
	k.header = http.Header{"Content-Type": {"application/json"}}
	return c.readImageEvents(ctx, k, progress)
}

// ImportImage creates an image from an archive: the output of docker save, an OCI layout as
// tar, or the files of a root directory.
func (c *Client) ImportImage(ctx context.Context, driver, ref string, archive io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	q := url.Values{"ref": {ref}}
	setText(q, "driver", driver)
	return c.uploadImage(ctx, call{op: "image import", id: ref, path: "/v1/images/import", query: q}, archive, progress)
}

// BuildImage builds an image from a tar stream with the Dockerfile and the
// build context.
func (c *Client) BuildImage(ctx context.Context, driver string, b atoll.ImageBuild, tar io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	q := url.Values{"ref": {b.Ref}}
	setText(q, "driver", driver)
	setText(q, "dockerfile", b.Dockerfile)
	setText(q, "network", b.Network)
	for name, v := range b.Args {
		q.Add("arg", name+"="+v)
	}
	slices.Sort(q["arg"])
	return c.uploadImage(ctx, call{op: "image build", id: b.Ref, path: "/v1/images/build", query: q}, tar, progress)
}

func (c *Client) uploadImage(ctx context.Context, k call, tar io.Reader, progress func(atoll.Progress)) (atoll.Image, error) {
	src := newSource(ctx, tar)
	k.method, k.body = http.MethodPost, src
	k.header = http.Header{"Content-Type": {"application/x-tar"}}
	image, err := c.readImageEvents(ctx, k, progress)
	if own := src.stopReading(); own != nil && err != nil && ctx.Err() == nil {
		return image, k.wrapError(own)
	}
	return image, err
}

// errImageDone ends the event stream after the image event.
var errImageDone = errors.New("done")

// readImageEvents sends a call and reads progress events until the image event, which it returns.
func (c *Client) readImageEvents(ctx context.Context, k call, progress func(atoll.Progress)) (image atoll.Image, err error) {
	resp, err := c.sendCall(ctx, k)
	if err != nil {
		return image, err
	}
	defer resp.Body.Close()
	err = readEvents(resp.Body, func(e serverEvent) error {
		var p atoll.Progress
		into := any(&p)
		switch e.kind {
		case "problem":
			return k.problemEvent(e)
		case "image":
			into = &image
		}
		if err := json.Unmarshal(e.data, into); err != nil {
			return fmt.Errorf("%w: malformed progress event: %w", atoll.ErrUnavailable, err)
		}
		switch {
		case e.kind == "image":
			return errImageDone
		case progress != nil:
			progress(p)
		}
		return nil
	})
	if errors.Is(err, errImageDone) {
		return image, nil
	}
	return image, c.streamError(ctx, k, err, nil)
}
