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

// maxResponse limits the bytes read of one JSON response, maxProblem those of an error.
const (
	maxResponse = 256 << 20
	maxProblem  = 1 << 20
)

// call describes one request.
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

// escapeSegment escapes one segment of a path, "." and ".." included.
func escapeSegment(s string) string {
	switch s {
	case "":
		return "%00" // no name; matches nothing
	case ".", "..":
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

// callURL returns the URL of a path.
func (c *Client) callURL(path string, query url.Values) string {
	u := c.base.Scheme + "://" + c.base.Host + c.base.EscapedPath() + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	return u
}

// newRequest returns the HTTP request of a call.
func (c *Client) newRequest(ctx context.Context, k call) (*http.Request, error) {
	method := k.method
	if method == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, c.callURL(k.path, k.query), k.body)
	if err != nil {
		return nil, k.wrapError(fmt.Errorf("%w: %w", atoll.ErrInvalid, err))
	}
	if k.length > 0 {
		r.ContentLength = k.length
	}
	for name, v := range k.header {
		r.Header[name] = v
	}
	c.setIdentity(r.Header)
	return r, nil
}

// setIdentity sets the headers with the user agent and the token.
func (c *Client) setIdentity(h http.Header) {
	h.Set("User-Agent", c.userAgent)
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
}

// sendCall sends a call and returns a successful response, whose body the caller closes.
func (c *Client) sendCall(ctx context.Context, k call) (*http.Response, error) {
	if ctx.Err() != nil {
		return nil, k.wrapError(contextError(ctx))
	}
	r, err := c.newRequest(ctx, k)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, k.wrapError(c.transportError(ctx, err))
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, c.readProblem(k, resp)
	}
	return resp, nil
}

// getJSON sends a call and decodes the JSON response into v; nil: it is ignored.
func (c *Client) getJSON(ctx context.Context, k call, v any) error {
	resp, err := c.sendCall(ctx, k)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if v == nil || resp.StatusCode == http.StatusNoContent {
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
		return nil
	}
	return c.decodeJSON(ctx, k, resp, v)
}

// decodeJSON decodes the JSON of a response into v.
func (c *Client) decodeJSON(ctx context.Context, k call, resp *http.Response, v any) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	switch {
	case err != nil:
		return k.wrapError(c.transportError(ctx, err))
	case len(b) > maxResponse:
		return k.wrapError(fmt.Errorf("%w: the answer of %s is longer than %d bytes", atoll.ErrUnavailable, c.host, maxResponse))
	}
	if err := json.Unmarshal(b, v); err != nil {
		return k.wrapError(fmt.Errorf("%w: %s does not answer like an atoll server: %w", atoll.ErrUnavailable, c.host, err))
	}
	return nil
}

// postJSON sends v as JSON and decodes the response into answer.
func (c *Client) postJSON(ctx context.Context, k call, v, answer any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return k.wrapError(fmt.Errorf("%w: %w", atoll.ErrInvalid, err))
	}
	if k.method == "" {
		k.method = http.MethodPost
	}
	k.body, k.length = bytes.NewReader(b), int64(len(b))
	k.header = http.Header{"Content-Type": {"application/json"}}
	return c.getJSON(ctx, k, answer)
}

// wrapError adds the operation and object of the call to an error that has none.
func (k call) wrapError(err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: k.op, ID: k.id, Err: err}
}

// contextError returns the error of a context that is done.
func contextError(ctx context.Context) error {
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

// readProblem reads the error in a response.
func (c *Client) readProblem(k call, resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // the bytes read so far are used
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var p wire.Problem
	if kind == wire.ContentType && json.Unmarshal(b, &p) == nil && p.Title != "" {
		return k.wrapServerError(p.Err())
	}
	reason := atoll.ErrUnavailable
	hint := "is it an atoll server?"
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		reason, hint = atoll.ErrDenied, "use a token that it accepts"
	case http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge, http.StatusRequestURITooLong, http.StatusBadRequest:
		reason, hint = atoll.ErrInvalid, "it rejects the request as malformed"
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		hint = "try again later"
	}
	return k.wrapError(fmt.Errorf("%w: %s answers %s: %s", reason, c.host, resp.Status, hint))
}

// wrapServerError adds the call's operation and object to an error of the server that
// lacks them.
func (k call) wrapServerError(err error) error {
	var e *atoll.Error
	if errors.As(err, &e) && e.ID == "" && k.id != "" {
		return &atoll.Error{Op: e.Op, ID: k.id, Err: e.Err}
	}
	return k.wrapError(err)
}

// transportError explains why a server was not reached or the connection was lost.
func (c *Client) transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var dns *net.DNSError
	var op *net.OpError
	hint := "the connection was lost"
	switch {
	case errors.As(err, &authority):
		hint = "its certificate is signed by an unknown authority: give the authority's certificate"
	case errors.As(err, &name):
		hint = "its certificate is for another name: use the host name in the certificate"
	case errors.As(err, &invalid), errors.As(err, &verify):
		hint = "its certificate is invalid"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		hint = "it does not speak TLS there: use http:// if you mean plain HTTP"
	case errors.As(err, &dns):
		hint = "the name can't be resolved: check the host"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		hint = "no server listens there: start one (atoll serve) or give another host"
	case errors.Is(err, os.ErrPermission):
		hint = "this user may not connect to it"
	case errors.As(err, &op) && op.Op == "dial":
		hint = "it can't be reached: check the host and the network"
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%w: server %s: %s: %w", atoll.ErrUnavailable, c.host, hint, err)
}
