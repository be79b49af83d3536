package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// maxAnswer bounds what is read of one answer in JSON, maxProblem of an error.
const (
	maxAnswer  = 256 << 20
	maxProblem = 1 << 20
)

// call is one request and what it is about.
type call struct {
	op     string // the user's verb
	id     string // the object that errors name
	method string // empty: GET
	path   string // escaped, from the root of the API
	query  url.Values
	header http.Header
	body   io.Reader
	length int64 // of body; 0 with a body: unknown
}

// seg escapes one segment of a path. "." and ".." would be taken for steps.
func seg(s string) string {
	switch s {
	case "":
		return "%00" // no name; matches nothing
	case ".", "..":
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

// url returns the address of a path.
func (c *Client) url(path string, query url.Values) string {
	u := c.base.Scheme + "://" + c.base.Host + c.base.EscapedPath() + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	return u
}

// request returns the request of a call.
func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
	method := k.method
	if method == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url(k.path, k.query), k.body)
	if err != nil {
		return nil, k.fail(fmt.Errorf("%w: %w", atoll.ErrInvalid, err))
	}
	if k.length > 0 {
		r.ContentLength = k.length
	}
	for name, v := range k.header {
		r.Header[name] = v
	}
	c.identify(r.Header)
	return r, nil
}

// identify adds who asks.
func (c *Client) identify(h http.Header) {
	h.Set("User-Agent", c.agent)
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
}

// send sends a call and returns a good answer, whose body the caller closes.
func (c *Client) send(ctx context.Context, k call) (*http.Response, error) {
	if ctx.Err() != nil {
		return nil, k.fail(ended(ctx))
	}
	r, err := c.request(ctx, k)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, k.fail(c.broken(ctx, err))
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, c.problem(k, resp)
	}
	return resp, nil
}

// get sends a call and reads the answer's JSON into v; nil: it is ignored.
func (c *Client) get(ctx context.Context, k call, v any) error {
	resp, err := c.send(ctx, k)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if v == nil || resp.StatusCode == http.StatusNoContent {
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
		return nil
	}
	return c.decode(ctx, k, resp, v)
}

// decode reads an answer's JSON.
func (c *Client) decode(ctx context.Context, k call, resp *http.Response, v any) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return k.fail(c.broken(ctx, err))
	case len(b) > maxAnswer:
		return k.fail(fmt.Errorf("%w: the answer of %s is longer than %d bytes", atoll.ErrUnavailable, c.host, maxAnswer))
	}
	if err := json.Unmarshal(b, v); err != nil {
		return k.fail(fmt.Errorf("%w: %s does not answer like a server of sandboxes: %w", atoll.ErrUnavailable, c.host, err))
	}
	return nil
}

// post sends v as JSON and reads the answer's into answer.
func (c *Client) post(ctx context.Context, k call, v, answer any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return k.fail(fmt.Errorf("%w: %w", atoll.ErrInvalid, err))
	}
	if k.method == "" {
		k.method = http.MethodPost
	}
	k.body, k.length = bytes.NewReader(b), int64(len(b))
	k.header = http.Header{"Content-Type": {"application/json"}}
	return c.get(ctx, k, answer)
}

// fail names a call in an error that does not name one.
func (k call) fail(err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: k.op, ID: k.id, Err: err}
}

// ended is the error of a context that is done.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		if errors.Is(cause, atoll.ErrTimeout) {
			return fmt.Errorf("%w: %w", cause, context.DeadlineExceeded)
		}
		return fmt.Errorf("%w: %w", atoll.ErrTimeout, cause)
	}
	if errors.Is(cause, context.Canceled) {
		return cause
	}
	return fmt.Errorf("%w: %w", context.Canceled, cause)
}

// problem reads the error that an answer holds.
func (c *Client) problem(k call, resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // what came counts
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var p wire.Problem
	if kind == wire.ContentType && json.Unmarshal(b, &p) == nil && p.Title != "" {
		return k.named(p.Err())
	}
	reason := atoll.ErrUnavailable
	hint := "is it a server of sandboxes?"
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		reason, hint = atoll.ErrDenied, "show a token that it accepts"
	case http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge, http.StatusRequestURITooLong, http.StatusBadRequest:
		reason, hint = atoll.ErrInvalid, "the request is not as it likes"
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		hint = "try again later"
	}
	return k.fail(fmt.Errorf("%w: %s answers %s: %s", reason, c.host, resp.Status, hint))
}

// named gives an error of the server the call's operation and object, where it
// has none.
func (k call) named(err error) error {
	var e *atoll.Error
	if errors.As(err, &e) && e.ID == "" && k.id != "" {
		return &atoll.Error{Op: e.Op, ID: k.id, Err: e.Err}
	}
	return k.fail(err)
}

// broken says why a server was not reached, or went away.
func (c *Client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var dns *net.DNSError
	var op *net.OpError
	hint := "it went away in the middle"
	switch {
	case errors.As(err, &authority):
		hint = "its certificate is of an authority that this machine does not know: give the authority's certificate"
	case errors.As(err, &name):
		hint = "its certificate is for another name: call it by the name that the certificate has"
	case errors.As(err, &invalid), errors.As(err, &verify):
		hint = "its certificate is not good"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		hint = "it does not speak TLS there: use http:// if that is meant"
	case errors.As(err, &dns):
		hint = "the name can't be resolved: check the host"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		hint = "nobody listens there: start a server (atoll serve) or give another host"
	case errors.Is(err, os.ErrPermission):
		hint = "this user may not connect to it"
	case errors.As(err, &op) && op.Op == "dial":
		hint = "it can't be reached: check the host and the way to it"
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%w: server %s: %s: %w", atoll.ErrUnavailable, c.host, hint, err)
}
