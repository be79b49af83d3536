package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerWatch registers the stream of file changes.
func (s *Server) registerWatch(api huma.API) {
	s.registerRaw(api, huma.Operation{
		OperationID: "watch-files", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/files/watch", Tags: []string{"files"},
		Summary: "Follow the file changes below a directory",
		Description: "Server-sent events, each a change as JSON. The first is \"ready\": all later changes follow. " +
			"An event of the type problem is the last.",
		Parameters: append(pathParams("id"), pathParam), Errors: []int{404, 409, 501},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		dir := q.readPath("path")
		if err := q.checkErrors(); err != nil {
			return err
		}
		sb, err := a.Open(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		return s.streamEvents(w, r, "watch", func(ctx context.Context, out *sseStream) error {
			return atoll.Watch(ctx, sb, dir, func(e atoll.FileEvent) error { return out.send("", string(e.Op), e) })
		})
	})
}
