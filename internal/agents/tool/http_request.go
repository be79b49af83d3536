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
	defaultResponse = 1 << 20  // bytes
	maxResponse     = 16 << 20 // bytes
)

// httpRequest is an HTTP request with templates.
type httpRequest struct {
	base     *url.URL // of the only host that is called
	method   string
	path     template
	query    map[string]template
	headers  map[string]template
	body     *valueTemplate // nil: none
	limit    time.Duration
	maxBytes int64
}

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"}

// readRequests decodes a server whose tools are HTTP calls of one host:
//
//	"base": "https://api.example.com/v1",
//	"headers": {"Authorization": "Bearer $ENV.API_TOKEN"},
//	"tools": {"issue": {"path": "/repos/{{repo}}/issues/{{number}}", "query": {"q": "{{q}}"}}}
func (f *file) readRequests(r *objectReader, server string) []Tool {
	base := f.readBaseURL(r, "base")
	headers := f.readTemplates(r, "headers")
	limit, most := r.readDuration("timeout", defaultTime, time.Millisecond, maxTime), r.readSize("max_response", defaultResponse, maxResponse)
	return f.readTools(r, server, nil, func(t *objectReader) *Tool {
		q := httpRequest{base: base, method: strings.ToUpper(t.readText("method")), headers: maps.Clone(headers), limit: t.readDuration("timeout", limit, time.Millisecond, maxTime), maxBytes: t.readSize("max_response", most, maxResponse)}
		if n := t.get("body"); n != nil {
			body := f.parseValue(n, t.fieldPath("body"))
			q.body = &body
		}
		switch {
		case q.method == "" && q.body != nil:
			q.method = http.MethodPost
		case q.method == "":
			q.method = http.MethodGet
		case !slices.Contains(methods, q.method):
			t.addFault("method", "it must be one of %s, not %q", strings.Join(methods, ", "), q.method)
		}
		q.path = f.parseTemplate(t.o.of["path"], t.fieldPath("path"), t.readText("path"))
		if strings.ContainsAny(t.readText("path"), "?#") {
			t.addFault("path", "it must be a path only: fields after ? stand in query")
		}
		q.query = f.readTemplates(t, "query")
		maps.Copy(q.headers, f.readTemplates(t, "headers"))
		for name := range q.headers {
			if strings.EqualFold(name, "host") {
				t.addFault("headers", "Host can't be set: the host is that of base")
			}
		}
		return &Tool{Schema: f.schemaFor(t, q.inputFields()), Call: q.callHTTP}
	})
}

// readBaseURL decodes the fixed address of a host.
func (f *file) readBaseURL(r *objectReader, name string) *url.URL {
	s := r.readText(name)
	u, err := url.Parse(f.expandEnv(r.o.of[name], r.fieldPath(name), s))
	switch {
	case strings.Contains(s, "{{"):
		r.addFault(name, "it can't come from the input: a tool calls one host only")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		r.addFault(name, "it must be an address like https://api.example.com/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		r.addFault(name, "it must be scheme, host and path only")
	}
	if u == nil {
		u = &url.URL{}
	}
	return u
}

func (q *httpRequest) inputFields() []string {
	list := q.path.inputFields()
	for _, m := range []map[string]template{q.query, q.headers} {
		for _, t := range m {
			list = append(list, t.inputFields()...)
		}
	}
	if q.body != nil {
		list = append(list, q.body.inputFields()...)
	}
	return list
}

// escapeSegment escapes a value for a path. The value can't climb to a parent, even
// if a server unescapes it several times.
func escapeSegment(s string) (string, error) {
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

// buildRequest fills the request. Its scheme and host are always those of base.
func (q *httpRequest) buildRequest(ctx context.Context, s scope, input json.RawMessage) (*http.Request, error) {
	path, there, err := s.fillText(q.path, escapeSegment)
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
		if v, only, there := s.wholeValue(t); only {
			list, many := v.([]any)
			if there && !many {
				list = []any{v}
			}
			for _, e := range list {
				query.Add(name, valueText(e))
			}
			continue
		}
		v, there, err := s.fillText(t, keepText)
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
		v, _ := q.body.fillValue(s) // a missing value is null
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
	return req, q.setHeaders(req, s)
}

func (q *httpRequest) setHeaders(req *http.Request, s scope) error {
	req.Header.Set("User-Agent", "atoll")
	for name, t := range q.headers {
		v, there, err := s.fillText(t, keepText)
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

// refuseOtherHosts follows redirects on the same host only, so that secrets in headers
// are not sent to other hosts and the tool can't be redirected to them.
func refuseOtherHosts(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		return fmt.Errorf("%w: it redirects to another host", atoll.ErrDenied)
	}
	if len(via) > 5 {
		return fmt.Errorf("%w: too many redirects", atoll.ErrDenied)
	}
	return nil
}

func (q *httpRequest) callHTTP(ctx context.Context, c Call) (Result, error) {
	s, err := newScope(c)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, q.limit)
	defer cancel()
	req, err := q.buildRequest(ctx, s, c.Input)
	if err != nil {
		return Result{}, err
	}
	resp, err := (&http.Client{CheckRedirect: refuseOtherHosts}).Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the address, which may hold a secret
		}
		return Result{}, fmt.Errorf("asking %s: %w", q.base.Host, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, q.maxBytes+1))
	if err != nil {
		return Result{}, fmt.Errorf("the answer of %s: %w", q.base.Host, err)
	}
	return q.readResult(resp, b), nil
}

func (q *httpRequest) readResult(resp *http.Response, b []byte) Result {
	cut := int64(len(b)) > q.maxBytes
	if cut {
		b = b[:q.maxBytes]
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // none: text
	failed := resp.StatusCode >= 400
	if strings.HasPrefix(kind, "image/") && !failed && !cut && kind != "image/svg+xml" {
		return Result{Images: []Image{{kind, b}}}
	}
	r := Result{Text: string(b), Failed: failed}
	if cut {
		r.Text = addNote(r.Text, fmt.Sprintf("the answer has more than %d bytes", q.maxBytes))
	}
	if failed {
		r.Text = fmt.Sprintf("HTTP %s\n%s", resp.Status, r.Text)
	}
	return r
}
