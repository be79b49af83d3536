package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/wire"
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

func queryParam(name, kind, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: &huma.Schema{Type: kind}}
}

func repeatedParam(name, doc string) *huma.Param {
	explode := true
	return &huma.Param{Name: name, In: "query", Description: doc, Explode: &explode, Schema: &huma.Schema{Type: "array", Items: &huma.Schema{Type: "string"}}}
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

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return encodeJSON(w, v)
}

// queryReader reads the parameters of a URL and collects the mistakes in them.
type queryReader struct {
	values url.Values
	known  map[string]bool
	errs   []wire.Detail
}

func newQuery(values url.Values) *queryReader {
	return &queryReader{values: values, known: make(map[string]bool)}
}

func (q *queryReader) addError(where, message string, value any) {
	q.errs = append(q.errs, wire.Detail{Message: message, Location: where, Value: value})
}

func (q *queryReader) isSet(name string) bool {
	q.known[name] = true
	return q.values.Has(name)
}

func (q *queryReader) readText(name string) string {
	q.known[name] = true
	return q.values.Get(name)
}

func (q *queryReader) readAll(name string) []string {
	q.known[name] = true
	return q.values[name]
}

func (q *queryReader) readBool(name string) bool {
	v := q.readText(name)
	if v == "" {
		return false
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		q.addError("query."+name, "must be true or false", v)
	}
	return b
}

func (q *queryReader) readUint(name string, most int64) int64 {
	v := q.readText(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n > most {
		q.addError("query."+name, "must be a whole number from 0 to "+strconv.FormatInt(most, 10), v)
	}
	return n
}

func (q *queryReader) readTime(name string) time.Time {
	v := q.readText(name)
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		q.addError("query."+name, "must be a time like 2006-01-02T15:04:05Z", v)
	}
	return t
}

// checkErrors returns the collected mistakes, including unknown parameters.
func (q *queryReader) checkErrors() error {
	for name := range q.values {
		if !q.known[name] {
			q.addError("query."+name, "unknown query parameter", nil)
		}
	}
	if len(q.errs) == 0 {
		return nil
	}
	p := &wire.Problem{Errors: q.errs}
	return &requestError{status: http.StatusUnprocessableEntity, kind: "invalid", detail: summaryLine(p), errs: q.errs}
}
