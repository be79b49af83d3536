package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerNotices registers the stream of notices.
func (s *Server) registerNotices(api huma.API) {
	s.registerRaw(api, huma.Operation{
		OperationID: "follow-notices", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/notices", Tags: []string{"sandboxes"},
		Summary: "Follow what happens inside a sandbox",
		Description: "Server-sent events, each a notice as JSON: opened ports, ended commands, out of memory. The first is \"ready\": all later notices follow. " +
			"An event of the type problem is the last. GET /v1/events has the stored events of all sandboxes.",
		Parameters: pathParams("id"), Errors: []int{404, 409, 501},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		if err := newQuery(r.URL.Query()).checkErrors(); err != nil {
			return err
		}
		sb, err := a.Open(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		return s.streamEvents(w, r, "notices", func(ctx context.Context, out *sseStream) error {
			return atoll.Notices(ctx, sb, func(n atoll.Notice) error { return out.send("", string(n.Kind), n) })
		})
	})
}
