package server

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
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// maxEvents is how many a list has at most; the rest begins after the last.
const maxEvents = 10_000

// events adds what happens, as a list or as it happens.
func (s *Server) events(api huma.API) {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.List[atoll.Event]](), true, "")
	s.handle(api, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: "/v1/events", Tags: []string{"events"}, Summary: "What happens, as it happens",
		Description: "Server-sent events: first those that are kept, then new ones. id is the event's id, event its type, data the event as JSON. " +
			"A client that comes again sends Last-Event-ID and misses nothing. With follow=false, a JSON list of those that are kept.",
		Parameters: []*huma.Param{
			param("after", "integer", "Only events with a higher id; Last-Event-ID says the same."),
			param("since", "string", "Only events not older than this time (RFC 3339)."),
			repeated("type", "Only events of these types, at most 32: sandbox.running, sandbox.*"),
			param("object", "string", "Only events of this sandbox (id or name) or workspace."),
			param("all_owners", "boolean", "Those of all owners; needs the scope admin."),
			param("follow", "boolean", "false: a list, not a stream."),
			{Name: "Last-Event-ID", In: "header", Description: "The id of the last event received.", Schema: &huma.Schema{Type: "integer"}},
		},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{
			"text/event-stream": {Schema: &huma.Schema{Type: "string"}},
			"application/json":  {Schema: schema},
		}}},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		filter, follow, err := eventFilter(r)
		if err != nil {
			return err
		}
		if !follow {
			return listEvents(w, r, a, filter)
		}
		return s.stream(w, r, "events", func(ctx context.Context, out *stream) error {
			return a.Events(ctx, filter, true, func(e atoll.Event) error {
				id := ""
				if e.ID > 0 { // it is kept, and can be resumed from
					id = strconv.FormatInt(e.ID, 10)
				}
				return out.send(id, e.Type, e)
			})
		})
	})
}

func param(name, kind, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: &huma.Schema{Type: kind}}
}

func repeated(name, doc string) *huma.Param {
	explode := true
	return &huma.Param{Name: name, In: "query", Description: doc, Explode: &explode, Schema: &huma.Schema{Type: "array", Items: &huma.Schema{Type: "string"}}}
}

// eventFilter reads which events are wanted; all mistakes at once.
func eventFilter(r *http.Request) (filter fleet.EventFilter, follow bool, err error) {
	q := newQuery(r.URL.Query())
	follow = true
	if q.has("follow") {
		follow = q.flag("follow")
	}
	filter = fleet.EventFilter{After: q.number("after", math.MaxInt64), Since: q.time("since"), Types: q.all("type"), Object: q.text("object"), AllOwners: q.flag("all_owners")}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		n, bad := strconv.ParseInt(last, 10, 64)
		if bad != nil || n < 0 {
			q.wrong("header.Last-Event-ID", "must be the id of an event", last)
		}
		filter.After = max(filter.After, n)
	}
	return filter, follow, q.err()
}

// errEnough ends a list that has become too long.
var errEnough = errors.New("enough")

func listEvents(w http.ResponseWriter, r *http.Request, a *fleet.Account, filter fleet.EventFilter) error {
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
	return marshal(w, v)
}

// query reads the parameters of a URL and collects what is wrong with them.
type query struct {
	values url.Values
	known  map[string]bool
	errs   []wire.Detail
}

func newQuery(values url.Values) *query { return &query{values: values, known: make(map[string]bool)} }

func (q *query) wrong(where, message string, value any) {
	q.errs = append(q.errs, wire.Detail{Message: message, Location: where, Value: value})
}

func (q *query) has(name string) bool {
	q.known[name] = true
	return q.values.Has(name)
}

func (q *query) text(name string) string {
	q.known[name] = true
	return q.values.Get(name)
}

func (q *query) all(name string) []string {
	q.known[name] = true
	return q.values[name]
}

func (q *query) flag(name string) bool {
	v := q.text(name)
	if v == "" {
		return false
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		q.wrong("query."+name, "must be true or false", v)
	}
	return b
}

func (q *query) number(name string, most int64) int64 {
	v := q.text(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n > most {
		q.wrong("query."+name, "must be a whole number from 0 to "+strconv.FormatInt(most, 10), v)
	}
	return n
}

func (q *query) time(name string) time.Time {
	v := q.text(name)
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		q.wrong("query."+name, "must be a time as in 2006-01-02T15:04:05Z", v)
	}
	return t
}

// err returns what was wrong, parameters that nobody knows too.
func (q *query) err() error {
	for name := range q.values {
		if !q.known[name] {
			q.wrong("query."+name, "unknown query parameter", nil)
		}
	}
	if len(q.errs) == 0 {
		return nil
	}
	p := &wire.Problem{Errors: q.errs}
	return &refusal{status: http.StatusUnprocessableEntity, kind: "invalid", detail: summary(p), errs: q.errs}
}
