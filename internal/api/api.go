package api

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

// newAPI returns the API that all resources register with.
func (s *Server) newAPI() huma.API {
	format := huma.Format{Marshal: encodeJSON, Unmarshal: decodeJSON}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "atoll", Version: s.opts.Version,
				Description: "Computers for agents: sandboxes, their commands and files, workspaces, events. " +
					"Durations are nanoseconds, sizes bytes, times RFC 3339. Every error is a problem of RFC 9457; its kind is for programs.",
			},
			Components: &huma.Components{
				Schemas:         newSchemas(),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "Created by POST /v1/tokens or 'atoll token create'."}},
			},
			Tags: tags,
		},
		Formats:                      map[string]huma.Format{"application/json": format, "json": format}, // the second serves media types that end with +json
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{s.transformError},
	}
	config.FieldsOptionalByDefault = true // one type serves requests and responses; the published document lists what responses always have
	return humago.New(s.mux, config)
}

// tags are the resources of the API.
var tags = []*huma.Tag{
	{Name: "sandboxes", Description: "isolated computers"},
	{Name: "snapshots", Description: "states to restore or to fork"},
	{Name: "commands", Description: "programs that run in sandboxes"},
	{Name: "files", Description: "files of sandboxes and workspaces"},
	{Name: "changes", Description: "what has changed in git repositories of sandboxes"},
	{Name: "network", Description: "network rules of sandboxes, and the log of their connections"},
	{Name: "routes", Description: "host names of ports, and links to them"},
	{Name: "images", Description: "root file systems of sandboxes"},
	{Name: "workspaces", Description: "files that outlive sandboxes"},
	{Name: "disks", Description: "persistent disks of destroyed sandboxes"},
	{Name: "agents", Description: "coding agents in sandboxes, assistants, and their turns"},
	{Name: "tokens", Description: "API tokens and quotas"},
	{Name: "pools", Description: "warm pools of ready sandboxes"},
	{Name: "events", Description: "events and the audit"},
	{Name: "webhooks", Description: "addresses that events are sent to"},
	{Name: "server", Description: "the server itself"},
}

// registerJSON registers an operation with JSON input and output. F gets the fleet as the caller
// sees it; its error is answered as a problem.
func registerJSON[I, O any](s *Server, api huma.API, op huma.Operation, f func(ctx context.Context, a *fleet.Account, in *I) (*O, error)) {
	s.describeOperation(api, &op)
	limit := op.MaxBodyBytes
	if limit == 0 {
		limit = s.limits.Body
	}
	op.MaxBodyBytes = -1    // readSchema limits it
	op.BodyReadTimeout = -1 // and sets the deadline: huma's would outlive the body and end the request
	if f, ok := reflect.TypeFor[I]().FieldByName("Body"); ok {
		schema := api.OpenAPI().Components.Schemas.Schema(f.Type, true, "")
		op.Middlewares = append(op.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
			r, w := humago.Unwrap(ctx)
			if err := s.readSchema(r, schema, limit); err != nil {
				s.writeProblem(w, r, err)
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

// registerRaw registers an operation that reads the request and writes the response itself. Its
// error is answered as a problem, if nothing has been written yet.
func (s *Server) registerRaw(api huma.API, op huma.Operation, f func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error) {
	s.describeOperation(api, &op)
	if op.Responses[strconv.Itoa(max(op.DefaultStatus, 200))] == nil {
		status := max(op.DefaultStatus, 200)
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status)}
	}
	api.OpenAPI().AddOperation(&op)
	s.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		if err := f(w, r, account(r.Context())); err != nil {
			s.writeProblem(w, r, err)
		}
	})
}

// describeOperation adds to an operation what all have in common.
func (s *Server) describeOperation(api huma.API, op *huma.Operation) {
	op.Security = []map[string][]string{{"token": {}}}
	if op.Responses == nil {
		op.Responses = make(map[string]*huma.Response)
	}
	for _, status := range append([]int{400, 401, 403, 422, 429, 500, 503}, op.Errors...) {
		op.Responses[strconv.Itoa(status)] = s.problemResponse(api, status)
	}
	op.Errors = nil
}

// problemResponse returns the description of a problem response, shared by all operations.
func (s *Server) problemResponse(api huma.API, status int) *huma.Response {
	r := s.problems[status]
	if r == nil {
		schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.Problem](), true, "Problem")
		r = &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{wire.ContentType: {Schema: schema}}}
		s.problems[status] = r
	}
	return r
}

// reply is a response with a JSON body.
type reply[T any] struct {
	Body T
}

// noBody is a response without a body.
type noBody struct{}

// listReply returns a response with a list.
func listReply[T any](items []T, err error) (*reply[wire.List[T]], error) {
	if err != nil {
		return nil, err
	}
	if items == nil {
		items = []T{}
	}
	return &reply[wire.List[T]]{wire.List[T]{Items: items}}, nil
}

// oneReply returns a response with one object.
func oneReply[T any](v T, err error) (*reply[T], error) {
	if err != nil {
		return nil, err
	}
	return &reply[T]{v}, nil
}

// emptyReply returns a response without a body.
func emptyReply(err error) (*noBody, error) {
	if err != nil {
		return nil, err
	}
	return &noBody{}, nil
}
