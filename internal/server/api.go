package server

import (
	"context"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// newAPI returns the API that all nouns register with.
func (s *Server) newAPI() huma.API {
	format := huma.Format{Marshal: marshal, Unmarshal: unmarshal}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "atoll", Version: s.opts.Version,
				Description: "Computers for agents: sandboxes, their commands and files, workspaces, events. " +
					"Durations are nanoseconds, sizes bytes, times RFC 3339. Every error is a problem of RFC 9457; its kind is for programs."},
			Components: &huma.Components{
				Schemas:         newSchemas(),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "made by POST /v1/tokens or 'atoll token create'"}},
			},
			Tags: tags,
		},
		Formats:                      map[string]huma.Format{"application/json": format, "json": format}, // the second is that of …+json
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{s.transform},
	}
	config.FieldsOptionalByDefault = true // one type is asked with and answered with; what an answer always has, the document says
	return humago.New(s.mux, config)
}

// tags are the nouns of the API.
var tags = []*huma.Tag{
	{Name: "sandboxes", Description: "isolated computers"},
	{Name: "snapshots", Description: "points to go back to, or to fork from"},
	{Name: "commands", Description: "programs that run in sandboxes"},
	{Name: "files", Description: "files of sandboxes and workspaces"},
	{Name: "network", Description: "what sandboxes may reach, and what they tried to"},
	{Name: "routes", Description: "host names of ports, and links that open them"},
	{Name: "images", Description: "root file systems to make sandboxes of"},
	{Name: "workspaces", Description: "files that outlive sandboxes"},
	{Name: "disks", Description: "disks of working directories, kept of sandboxes that are gone"},
	{Name: "agents", Description: "coding agents in sandboxes, assistants, and their turns"},
	{Name: "tokens", Description: "who may call"},
	{Name: "pools", Description: "sandboxes that are ready to be claimed"},
	{Name: "events", Description: "what happens, and who did it"},
	{Name: "server", Description: "the server itself"},
}

// register adds an operation whose input and output are JSON. Its function is
// given the fleet as the caller sees it; the error that it returns becomes the
// problem that is answered.
func register[I, O any](s *Server, api huma.API, op huma.Operation, f func(ctx context.Context, a *fleet.Account, in *I) (*O, error)) {
	s.describe(api, &op)
	limit := op.MaxBodyBytes
	if limit == 0 {
		limit = s.limits.Body
	}
	op.MaxBodyBytes = -1    // readJSON has the limit
	op.BodyReadTimeout = -1 // and the deadline: huma's would outlive the body and end the request
	if f, ok := reflect.TypeFor[I]().FieldByName("Body"); ok {
		schema := api.OpenAPI().Components.Schemas.Schema(f.Type, true, "")
		op.Middlewares = append(op.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
			r, w := humago.Unwrap(ctx)
			if err := s.readSchema(r, schema, limit); err != nil {
				s.fail(w, r, err)
				return
			}
			next(ctx)
		})
	}
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := f(ctx, account(ctx), in)
		if err != nil {
			return nil, s.problemOf(ctx, err)
		}
		return out, nil
	})
}

// handle adds an operation that reads and writes by itself. An error that it
// returns is answered, if nothing is written yet.
func (s *Server) handle(api huma.API, op huma.Operation, f func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error) {
	s.describe(api, &op)
	if op.Responses[strconv.Itoa(max(op.DefaultStatus, 200))] == nil {
		status := max(op.DefaultStatus, 200)
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status)}
	}
	api.OpenAPI().AddOperation(&op)
	s.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		if err := f(w, r, account(r.Context())); err != nil {
			s.fail(w, r, err)
		}
	})
}

// describe adds what all operations have in common.
func (s *Server) describe(api huma.API, op *huma.Operation) {
	op.Security = []map[string][]string{{"token": {}}}
	if op.Responses == nil {
		op.Responses = make(map[string]*huma.Response)
	}
	for _, status := range append([]int{400, 401, 403, 422, 429, 500, 503}, op.Errors...) {
		op.Responses[strconv.Itoa(status)] = s.problemResponse(api, status)
	}
	op.Errors = nil
}

// problemResponse describes the answer of a problem, one for all operations.
func (s *Server) problemResponse(api huma.API, status int) *huma.Response {
	r := s.problems[status]
	if r == nil {
		schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.Problem](), true, "Problem")
		r = &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{wire.ContentType: {Schema: schema}}}
		s.problems[status] = r
	}
	return r
}

// reply is an answer with a JSON body.
type reply[T any] struct {
	Body T
}

// none is an answer without a body.
type none struct{}

// list is an answer with several of a kind.
func list[T any](items []T, err error) (*reply[wire.List[T]], error) {
	if err != nil {
		return nil, err
	}
	if items == nil {
		items = []T{}
	}
	return &reply[wire.List[T]]{wire.List[T]{Items: items}}, nil
}

// one is an answer with one of a kind.
func one[T any](v T, err error) (*reply[T], error) {
	if err != nil {
		return nil, err
	}
	return &reply[T]{v}, nil
}

// done is an answer that says only that it is done.
func done(err error) (*none, error) {
	if err != nil {
		return nil, err
	}
	return &none{}, nil
}
