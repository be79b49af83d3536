package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/wire"
	"github.com/danielgtaylor/huma/v2"
)

// maxEvents is the size of a list of events; the rest follows after the last id.
const maxEvents = 10_000

// registerEvents registers events, as a list or a stream.
func (s *Server) registerEvents(api huma.API) {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.List[atoll.Event]](), true, "")
	s.registerRaw(api, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: "/v1/events", Tags: []string{"events"}, Summary: "Follow or list events",
		Description: "Server-sent events: first the stored ones, then new ones. id is the event's id, event its type, data the event as JSON. " +
			"A client that reconnects with Last-Event-ID misses nothing. With follow=false, a JSON list of the stored events.",
		Parameters: []*huma.Param{
			queryParam("after", "integer", "Only events with a higher id, as with Last-Event-ID."),
			queryParam("since", "string", "Only events not older than this time (RFC 3339)."),
			repeatedParam("type", "Only events of these types, at most 32: sandbox.running, sandbox.*"),
			queryParam("object", "string", "Only events of this sandbox (id or name) or workspace."),
			queryParam("all_owners", "boolean", "Include all owners; needs the scope operate."),
			queryParam("follow", "boolean", "Wait for new events (the default); false: a JSON list."),
			queryParam("stats", "integer", "Send the resource usage of your running sandboxes too, every so many seconds, 1 to 60, as events sandbox.stats, which are not stored and have no id."),
			{Name: "Last-Event-ID", In: "header", Description: "The id of the last event received.", Schema: &huma.Schema{Type: "integer"}},
		},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
			"text/event-stream": {Schema: &huma.Schema{Type: "string"}},
			"application/json":  {Schema: schema},
		}}},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		in, err := parseEventRequest(r)
		if err != nil {
			return err
		}
		if !in.follow {
			return listEvents(w, r, a, in.filter)
		}
		return s.streamEvents(w, r, "events", func(ctx context.Context, out *sseStream) error {
			if in.stats > 0 {
				defer startUsageStream(ctx, a, in, out)()
			}
			return a.Events(ctx, in.filter, true, func(e atoll.Event) error {
				id := ""
				if e.ID > 0 { // it is stored and can be resumed from
					id = strconv.FormatInt(e.ID, 10)
				}
				return out.send(id, e.Type, e)
			})
		})
	})
}

// eventRequest is a request for events.
type eventRequest struct {
	filter event.Filter
	follow bool
	stats  time.Duration // interval of the usage events; 0: none
}

// parseEventRequest parses the parameters of an event request and reports all mistakes at once.
func parseEventRequest(r *http.Request) (in eventRequest, err error) {
	q := newQuery(r.URL.Query())
	in.follow = true
	if q.isSet("follow") {
		in.follow = q.readBool("follow")
	}
	in.stats = time.Duration(q.readUint("stats", 60)) * time.Second
	if in.stats > 0 && !in.follow {
		q.addError("query.stats", "must not be set with follow=false: usage is not stored", q.readText("stats"))
	}
	in.filter = event.Filter{After: q.readUint("after", math.MaxInt64), Since: q.readTime("since"), Types: q.readAll("type"), Object: q.readText("object"), AllOwners: q.readBool("all_owners")}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		n, bad := strconv.ParseInt(last, 10, 64)
		if bad != nil || n < 0 {
			q.addError("header.Last-Event-ID", "must be the id of an event", last)
		}
		in.filter.After = max(in.filter.After, n)
	}
	return in, q.checkErrors()
}

// errEnough ends a list that has reached its size.
var errEnough = errors.New("enough")

func listEvents(w http.ResponseWriter, r *http.Request, a *fleet.Account, filter event.Filter) error {
	l := wire.List[atoll.Event]{Items: []atoll.Event{}}
	err := a.Events(r.Context(), filter, false, func(e atoll.Event) error {
		l.Items = append(l.Items, e)
		if len(l.Items) == maxEvents {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return writeJSON(w, http.StatusOK, l)
}
