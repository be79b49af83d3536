package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// watches adds changes of files, as they happen.
func (s *Server) watches(api huma.API) {
	s.handle(api, huma.Operation{
		OperationID: "watch-files", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/files/watch", Tags: []string{"files"},
		Summary: "Changes below a directory, as they happen",
		Description: "Server-sent events, each a change as JSON. The first is \"ready\": what changes later is told. " +
			"An event of the type problem is the last.",
		Parameters: append(pathParams("id"), pathParam), Errors: []int{404, 409, 501},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		dir := q.path("path")
		if err := q.err(); err != nil {
			return err
		}
		sb, err := a.Open(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		return s.stream(w, r, "watch", func(ctx context.Context, out *stream) error {
			return atoll.Watch(ctx, sb, dir, func(e atoll.FileEvent) error { return out.send("", string(e.Op), e) })
		})
	})
}
