package server

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// listImages and removeImage are what is asked of images.
type (
	listImages struct {
		Driver string `query:"driver" doc:"Only those of this driver."`
	}
	removeImage struct {
		Ref    string `query:"ref" required:"true" minLength:"1" doc:"The image's name."`
		Driver string `query:"driver" doc:"Of this driver; without it, of the first that keeps images."`
	}
)

// images adds root file systems to make sandboxes of.
func (s *Server) images(api huma.API) {
	noun := []string{"images"}
	register(s, api, huma.Operation{
		OperationID: "list-images", Method: http.MethodGet, Path: "/v1/images", Tags: noun, Summary: "The images that are there", Errors: []int{501},
	}, func(ctx context.Context, a *fleet.Account, in *listImages) (*reply[wire.List[atoll.DriverImage]], error) {
		return list(a.Images(ctx, in.Driver))
	})
	register(s, api, huma.Operation{
		OperationID: "remove-image", Method: http.MethodDelete, Path: "/v1/images", Tags: noun, Summary: "Forget an image; needs the scope admin", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *removeImage) (*none, error) {
		return done(a.RemoveImage(ctx, in.Driver, in.Ref))
	})
	s.imageSources(api)
}

// imageSources adds where images come from. Each answer is a stream of how far
// it has come.
func (s *Server) imageSources(api huma.API) {
	noun := []string{"images"}
	const doc = "Server-sent events: progress, how far it has come, then image, what came of it, or problem. It needs the scope admin."
	events := func() map[string]*huma.Response {
		return map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}}
	}
	tar := &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/x-tar": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}
	driver := param("driver", "string", "The driver that is to have it; without it, the first that can.")
	pull := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.Pull](), true, "")
	s.handle(api, huma.Operation{
		OperationID: "pull-image", Method: http.MethodPost, Path: "/v1/images/pull", Tags: noun, Summary: "Get an image from its registry", Description: doc,
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: pull}}},
		Responses:   events(), Errors: []int{404, 501},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		var ask wire.Pull
		if err := s.readBody(r, pull, &ask); err != nil {
			return err
		}
		return s.streamImage(w, r, func(ctx context.Context, progress func(atoll.Progress)) (atoll.Image, error) {
			return a.PullImage(ctx, ask.Driver, ask.Ref, progress)
		})
	})
	ref := param("ref", "string", "Its name.")
	ref.Required = true
	s.handle(api, huma.Operation{
		OperationID: "import-image", Method: http.MethodPost, Path: "/v1/images/import", Tags: noun,
		Summary: "Make an image of an archive: of docker save, an OCI layout, or the files of a root directory", Description: doc,
		Parameters: []*huma.Param{ref, driver}, RequestBody: tar, Responses: events(), Errors: []int{501, 507},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		name, by := q.text("ref"), q.text("driver")
		if err := q.err(); err != nil {
			return err
		}
		return s.streamImage(w, r, func(ctx context.Context, progress func(atoll.Progress)) (atoll.Image, error) {
			return a.ImportImage(ctx, by, name, r.Body, progress)
		})
	})
	s.handle(api, huma.Operation{
		OperationID: "build-image", Method: http.MethodPost, Path: "/v1/images/build", Tags: noun,
		Summary: "Build an image from a tar stream that holds a Dockerfile and what it copies", Description: doc,
		Parameters: []*huma.Param{ref, driver, param("dockerfile", "string", "Its path in the stream."), param("network", "string", "The network of the builder."),
			repeated("arg", "Arguments of the build, each NAME=VALUE.")},
		RequestBody: tar, Responses: events(), Errors: []int{501, 507},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		b := atoll.ImageBuild{Ref: q.text("ref"), Dockerfile: q.text("dockerfile"), Network: q.text("network"), Args: q.pairs("arg")}
		by := q.text("driver")
		if err := q.err(); err != nil {
			return err
		}
		return s.streamImage(w, r, func(ctx context.Context, progress func(atoll.Progress)) (atoll.Image, error) {
			return a.BuildImage(ctx, by, b, r.Body, progress)
		})
	})
}

// streamImage answers with how far an image has come, while its body may still
// be read.
func (s *Server) streamImage(w http.ResponseWriter, r *http.Request, f func(context.Context, func(atoll.Progress)) (atoll.Image, error)) error {
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		return err
	}
	return s.stream(w, r, "images", func(ctx context.Context, out *stream) error {
		image, err := f(ctx, func(p atoll.Progress) { _ = out.send("", "progress", p) }) // who is gone ends it by ctx
		if err != nil {
			return err
		}
		return out.send("", "image", image)
	})
}

// pairs reads a parameter that is there any number of times, each NAME=VALUE.
func (q *query) pairs(name string) map[string]string {
	var m map[string]string
	for _, p := range q.all(name) {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			q.wrong("query."+name, "must be NAME=VALUE", p)
			continue
		}
		if m == nil {
			m = make(map[string]string)
		}
		m[k] = v
	}
	return m
}
