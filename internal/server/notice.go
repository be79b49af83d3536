package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// notices adds what happens inside, as it happens.
func (s *Server) notices(api huma.API) {
	s.handle(api, huma.Operation{
		OperationID: "follow-notices", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/notices", Tags: []string{"sandboxes"},
		Summary: "What happens inside, as it happens",
		Description: "Server-sent events, each a notice as JSON: ports that are opened, commands that end, memory that is out. The first is \"ready\": what happens later is told. " +
			"An event of the type problem is the last. GET /v1/events has, of all sandboxes, what is worth keeping.",
		Parameters: pathParams("id"), Errors: []int{404, 409, 501},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		if err := newQuery(r.URL.Query()).err(); err != nil {
			return err
		}
		sb, err := a.Open(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		return s.stream(w, r, "notices", func(ctx context.Context, out *stream) error {
			return atoll.Notices(ctx, sb, func(n atoll.Notice) error { return out.send("", string(n.Kind), n) })
		})
	})
}
