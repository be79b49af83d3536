package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

const (
	usualResponse = 1 << 20  // bytes
	maxResponse   = 16 << 20 // bytes
)

// request is an HTTP request with places.
type request struct {
	base    *url.URL // of the one host that is asked
	method  string
	path    template
	query   map[string]template
	headers map[string]template
	body    *filled // nil: none
	limit   time.Duration
	most    int64
}

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"}

// requests reads a server whose tools are HTTP calls of one host:
//
//	"base": "https://api.example.com/v1",
//	"headers": {"Authorization": "Bearer $ENV.API_TOKEN"},
//	"tools": {"issue": {"path": "/repos/{{repo}}/issues/{{number}}", "query": {"q": "{{q}}"}}}
func (f *file) requests(r *reader, server string) []Tool {
	base := f.base(r, "base")
	headers := f.templates(r, "headers")
	limit, most := r.duration("timeout", usualTime, time.Millisecond, maxTime), r.size("max_response", usualResponse, maxResponse)
	return f.each(r, server, nil, func(t *reader) *Tool {
		q := request{base: base, method: strings.ToUpper(t.text("method")), headers: maps.Clone(headers), limit: t.duration("timeout", limit, time.Millisecond, maxTime), most: t.size("max_response", most, maxResponse)}
		if n := t.get("body"); n != nil {
			body := f.fill(n, t.path("body"))
			q.body = &body
		}
		switch {
		case q.method == "" && q.body != nil:
			q.method = http.MethodPost
		case q.method == "":
			q.method = http.MethodGet
		case !slices.Contains(methods, q.method):
			t.bad("method", "it must be one of %s, not %q", strings.Join(methods, ", "), q.method)
		}
		q.path = f.template(t.o.of["path"], t.path("path"), t.text("path"))
		if strings.ContainsAny(t.text("path"), "?#") {
			t.bad("path", "it must be a path only: fields after ? stand in query")
		}
		q.query = f.templates(t, "query")
		maps.Copy(q.headers, f.templates(t, "headers"))
		for name := range q.headers {
			if strings.EqualFold(name, "host") {
				t.bad("headers", "Host can't be set: the host is that of base")
			}
		}
		return &Tool{Schema: f.schemaFor(t, q.fields()), Call: q.call}
	})
}

// base reads the address of a host, which is fixed.
func (f *file) base(r *reader, name string) *url.URL {
	s := r.text(name)
	u, err := url.Parse(f.expand(r.o.of[name], r.path(name), s))
	switch {
	case strings.Contains(s, "{{"):
		r.bad(name, "it can't come from the input: a tool asks one host only")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		r.bad(name, "it must be an address like https://api.example.com/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		r.bad(name, "it must be scheme, host and path only")
	}
	if u == nil {
		u = &url.URL{}
	}
	return u
}

func (q *request) fields() []string {
	list := q.path.fields()
	for _, m := range []map[string]template{q.query, q.headers} {
		for _, t := range m {
			list = append(list, t.fields()...)
		}
	}
	if q.body != nil {
		list = append(list, q.body.fields()...)
	}
	return list
}

// segment escapes a value for a path. It can't climb, however often a server
// unescapes it.
func segment(s string) (string, error) {
	plain := s
	for range 3 {
		for _, piece := range strings.FieldsFunc(plain, func(r rune) bool { return r == '/' || r == '\\' }) {
			if piece == "." || piece == ".." || strings.HasPrefix(piece, "..;") {
				return "", errors.New("must not have . or .. in it")
			}
		}
		next, err := url.PathUnescape(plain)
		if err != nil {
			break
		}
		plain = next
	}
	if s == "" {
		return "", errors.New("must not be empty")
	}
	return url.PathEscape(s), nil
}

// build fills the request. Its scheme and host are those of base, whatever the
// input is.
func (q *request) build(ctx context.Context, s scope, input json.RawMessage) (*http.Request, error) {
	path, there, err := s.text(q.path, segment)
	switch {
	case err != nil:
		return nil, err
	case !there:
		return nil, &Error{"Invalid input: a field that is part of the path is missing."}
	}
	u := *q.base
	u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + "/" + strings.TrimPrefix(path, "/")
	if path == "" {
		u.RawPath = q.base.EscapedPath()
	}
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return nil, &Error{"Invalid input: that makes no path."}
	}
	query := url.Values{}
	for name, t := range q.query {
		if v, only, there := s.whole(t); only {
			list, many := v.([]any)
			if there && !many {
				list = []any{v}
			}
			for _, e := range list {
				query.Add(name, word(e))
			}
			continue
		}
		v, there, err := s.text(t, asIs)
		if err != nil {
			return nil, err
		}
		if there {
			query.Add(name, v)
		}
	}
	u.RawQuery = query.Encode()
	var body io.Reader
	if q.body != nil {
		v, _ := q.body.with(s) // what is not there is null
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	} else if q.method != http.MethodGet && q.method != http.MethodHead && q.method != http.MethodDelete {
		body = bytes.NewReader(input)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, q.head(req, s)
}

func (q *request) head(req *http.Request, s scope) error {
	req.Header.Set("User-Agent", "atoll")
	for name, t := range q.headers {
		v, there, err := s.text(t, asIs)
		switch {
		case err != nil:
			return err
		case strings.ContainsAny(v, "\r\n\x00"):
			return &Error{"Invalid input: a value that goes into a header has more than one line."}
		case there:
			req.Header.Set(name, v)
		}
	}
	return nil
}

// stay follows redirects on the same host only: secrets in headers, and what a
// tool may reach, go no further.
func stay(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		return fmt.Errorf("%w: it redirects to another host", atoll.ErrDenied)
	}
	if len(via) > 5 {
		return fmt.Errorf("%w: too many redirects", atoll.ErrDenied)
	}
	return nil
}

func (q *request) call(ctx context.Context, c Call) (Result, error) {
	s, err := newScope(c)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, q.limit)
	defer cancel()
	req, err := q.build(ctx, s, c.Input)
	if err != nil {
		return Result{}, err
	}
	resp, err := (&http.Client{CheckRedirect: stay}).Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the address, which may hold a secret
		}
		return Result{}, fmt.Errorf("asking %s: %w", q.base.Host, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, q.most+1))
	if err != nil {
		return Result{}, fmt.Errorf("the answer of %s: %w", q.base.Host, err)
	}
	return q.result(resp, b), nil
}

func (q *request) result(resp *http.Response, b []byte) Result {
	cut := int64(len(b)) > q.most
	if cut {
		b = b[:q.most]
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // none: text
	failed := resp.StatusCode >= 400
	if strings.HasPrefix(kind, "image/") && !failed && !cut && kind != "image/svg+xml" {
		return Result{Images: []Image{{kind, b}}}
	}
	r := Result{Text: string(b), Failed: failed}
	if cut {
		r.Text = note(r.Text, fmt.Sprintf("the answer has more than %d bytes", q.most))
	}
	if failed {
		r.Text = fmt.Sprintf("HTTP %s\n%s", resp.Status, r.Text)
	}
	return r
}
