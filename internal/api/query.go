package api

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll/internal/wire"
	"github.com/danielgtaylor/huma/v2"
)

func queryParam(name, kind, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: &huma.Schema{Type: kind}}
}

func repeatedParam(name, doc string) *huma.Param {
	explode := true
	return &huma.Param{Name: name, In: "query", Description: doc, Explode: &explode, Schema: &huma.Schema{Type: "array", Items: &huma.Schema{Type: "string"}}}
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

// pathParams describes parameters of the path.
func pathParams(names ...string) []*huma.Param {
	docs := map[string]string{"id": "The sandbox's id, or its name.", "process": "The process's id.", "name": "The workspace's name."}
	var list []*huma.Param
	for _, n := range names {
		list = append(list, &huma.Param{Name: n, In: "path", Required: true, Description: docs[n], Schema: &huma.Schema{Type: "string"}})
	}
	return list
}
