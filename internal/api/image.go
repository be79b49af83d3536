package api

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The parameters of image operations.
type (
	listImages struct {
		Driver string `query:"driver" doc:"Only images of this driver."`
	}
	removeImage struct {
		Ref    string `query:"ref" required:"true" minLength:"1" doc:"The image's name."`
		Driver string `query:"driver" doc:"The driver; by default the first that keeps images."`
	}
)

// registerImages registers images.
func (s *Server) registerImages(api huma.API) {
	noun := []string{"images"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-images", Method: http.MethodGet, Path: "/v1/images", Tags: noun, Summary: "List images", Errors: []int{501},
	}, func(ctx context.Context, a *fleet.Account, in *listImages) (*reply[wire.List[atoll.DriverImage]], error) {
		return listReply(a.Images(ctx, in.Driver))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "remove-image", Method: http.MethodDelete, Path: "/v1/images", Tags: noun, Summary: "Remove an image; needs the scope operate", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *removeImage) (*noBody, error) {
		return emptyReply(a.RemoveImage(ctx, in.Driver, in.Ref))
	})
	s.registerImageSources(api)
}

// registerImageSources registers pull, import and build. Their responses are streams of progress
// events.
func (s *Server) registerImageSources(api huma.API) {
	noun := []string{"images"}
	const doc = "Server-sent events: progress, and at the end image with the result, or problem. It needs the scope operate."
	events := func() map[string]*huma.Response {
		return map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}}
	}
	tar := &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/x-tar": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}
	driver := queryParam("driver", "string", "The driver; by default the first that supports it.")
	pull := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.Pull](), true, "")
	s.registerRaw(api, huma.Operation{
		OperationID: "pull-image", Method: http.MethodPost, Path: "/v1/images/pull", Tags: noun, Summary: "Pull an image from its registry", Description: doc,
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
	ref := queryParam("ref", "string", "Its name.")
	ref.Required = true
	s.registerRaw(api, huma.Operation{
		OperationID: "import-image", Method: http.MethodPost, Path: "/v1/images/import", Tags: noun,
		Summary: "Create an image from an archive: of docker save, an OCI layout, or a root directory", Description: doc,
		Parameters: []*huma.Param{ref, driver}, RequestBody: tar, Responses: events(), Errors: []int{501, 507},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		name, by := q.readText("ref"), q.readText("driver")
		if err := q.checkErrors(); err != nil {
			return err
		}
		return s.streamImage(w, r, func(ctx context.Context, progress func(atoll.Progress)) (atoll.Image, error) {
			return a.ImportImage(ctx, by, name, r.Body, progress)
		})
	})
	s.registerRaw(api, huma.Operation{
		OperationID: "build-image", Method: http.MethodPost, Path: "/v1/images/build", Tags: noun,
		Summary: "Build an image from a tar stream with a Dockerfile and its build context", Description: doc,
		Parameters: []*huma.Param{
			ref, driver, queryParam("dockerfile", "string", "The path of the Dockerfile in the stream."), queryParam("network", "string", "The network mode of the build."),
			repeatedParam("arg", "Build arguments, each NAME=VALUE."),
		},
		RequestBody: tar, Responses: events(), Errors: []int{501, 507},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		b := atoll.ImageBuild{Ref: q.readText("ref"), Dockerfile: q.readText("dockerfile"), Network: q.readText("network"), Args: q.readPairs("arg")}
		by := q.readText("driver")
		if err := q.checkErrors(); err != nil {
			return err
		}
		return s.streamImage(w, r, func(ctx context.Context, progress func(atoll.Progress)) (atoll.Image, error) {
			return a.BuildImage(ctx, by, b, r.Body, progress)
		})
	})
}

// streamImage answers with progress events, while the request's body may still be read.
func (s *Server) streamImage(w http.ResponseWriter, r *http.Request, f func(context.Context, func(atoll.Progress)) (atoll.Image, error)) error {
	control := http.NewResponseController(w)
	if err := control.EnableFullDuplex(); err != nil {
		return err
	}
	defer drainBody(control, r.Body)
	return s.streamEvents(w, r, "images", func(ctx context.Context, out *sseStream) error {
		image, err := f(ctx, func(p atoll.Progress) { _ = out.send("", "progress", p) }) // ctx ends when the client is gone
		if err != nil {
			return err
		}
		return out.send("", "image", image)
	})
}

// drainTime limits how long the rest of a request is read.
const drainTime = 5 * time.Second

// drainBody reads the rest of the body of a request that is answered while it is read. net/http watches a connection from the
// end of a body on. If it finds the end itself, after the handler, it does not stop that (Go 1.26), and panics at the
// connection's next request. A body that takes too long costs its connection.
func drainBody(control *http.ResponseController, body io.Reader) {
	if err := control.SetReadDeadline(time.Now().Add(drainTime)); err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, body); err == nil {
		_ = control.SetReadDeadline(time.Time{}) // the connection is then broken
	}
}

// readPairs reads a repeated parameter, each NAME=VALUE.
func (q *queryReader) readPairs(name string) map[string]string {
	var m map[string]string
	for _, p := range q.readAll(name) {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			q.addError("query."+name, "must be NAME=VALUE", p)
			continue
		}
		if m == nil {
			m = make(map[string]string)
		}
		m[k] = v
	}
	return m
}
