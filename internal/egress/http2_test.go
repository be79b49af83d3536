package egress

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// inspectedHTTP2 is an inspected world whose server and client speak HTTP/2. The server echoes each
// message of a request with the trailers of gRPC.
func inspectedHTTP2(t *testing.T, n atoll.Network) (*world, *http.Client) {
	t.Helper()
	w, _, pool := inspected(t, n)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page" || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			fmt.Fprintf(out, "%s %s %s%s key=%q", r.Proto, r.Method, r.Host, r.URL.RequestURI(), r.Header.Get("Authorization"))
			return
		}
		out.Header().Set("Content-Type", "application/grpc")
		out.Header().Set("Trailer", "Grpc-Status")
		out.WriteHeader(http.StatusOK)
		c := http.NewResponseController(out)
		_ = c.Flush()
		b := make([]byte, 100)
		for {
			n, err := r.Body.Read(b)
			if n > 0 {
				_, _ = fmt.Fprintf(out, "%s te=%s %s", r.Proto, r.Header.Get("Te"), b[:n])
				_ = c.Flush()
			}
			if err != nil {
				break
			}
		}
		out.Header().Set("Grpc-Status", "0")
		out.Header().Set(http.TrailerPrefix+"Grpc-Message", "got "+r.Trailer.Get("X-End"))
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	w.place(srv, public+":443")
	w.s.roots = trust(srv)
	c := w.client("direct", pool)
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	return w, c
}

// A gRPC call passes in both directions at once, with its trailers.
func TestHTTP2Streams(t *testing.T) {
	w, c := inspectedHTTP2(t, atoll.Network{Allow: []string{"https://example.com/pkg.Service/"}})
	body, in := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.com/pkg.Service/Call", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	req.Trailer = http.Header{"X-End": {"the end"}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", resp.Proto, resp.Status)
	}
	for _, message := range []string{"one", "two"} { // each is answered before the next
		want := "HTTP/2.0 te=trailers " + message
		if _, err := io.WriteString(in, message); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != want {
			t.Fatalf("%q, %v, want %q", b, err, want)
		}
	}
	in.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || len(b) != 0 {
		t.Errorf("the rest: %q, %v", b, err)
	}
	if got := resp.Trailer; got.Get("Grpc-Status") != "0" || got.Get("Grpc-Message") != "got the end" {
		t.Errorf("trailers: %v", got)
	}
	c.CloseIdleConnections()
	w.served.Wait()
	if got := w.last(); !got.Allowed || got.Path != "/pkg.Service/Call" || got.Sent != 6 || got.Received == 0 || got.Duration == 0 {
		t.Errorf("the log: %+v", got)
	}
}

// The rules apply to each request of a connection.
func TestHTTP2RequestsAreChecked(t *testing.T) {
	w, c := inspectedHTTP2(t, atoll.Network{
		Allow: []string{"https://example.com/api/", "GET https://example.com/page"}, Deny: []string{"https://example.com/api/admin"},
		Headers: []atoll.Header{{Host: "example.com", Name: "Authorization", Value: "Bearer " + secret}},
	})
	do := func(method, path, host string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "https://example.com"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := c.Do(req)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.ProtoMajor != 2 {
			t.Errorf("%s %s: %s, %v", method, path, resp.Proto, err)
		}
		return resp.StatusCode, string(b)
	}
	for _, one := range []struct {
		method, path, host string
		code               int
	}{
		{"GET", "/api/x", "", 200},
		{"GET", "/", "", 403},
		{"GET", "/page", "", 200},
		{"POST", "/page", "", 403},
		{"GET", "/api/admin", "", 403},
		{"GET", "/api/admin;x", "", 403},
		{"GET", "/api/%61dmin", "", 403},
		{"GET", "/api/..;/x", "", 403},
		{"GET", "//evil.test/api/", "", 403},
		{"GET", "/api/x", "other.example.com", 421},
		{"GET", "/api/x", "example.com:8443", 421},
		{"TRACE", "/api/x", "", 405},
		{"GET", "/api/y", "", 200},
	} {
		code, body := do(one.method, one.path, one.host)
		if code != one.code || code == 200 && !strings.Contains(body, "HTTP/2.0 "+one.method+" example.com"+one.path+` key="Bearer `+secret) || code != 200 && strings.Contains(body, secret) {
			t.Errorf("%s %s (%s): %d %q", one.method, one.path, one.host, code, body)
		}
	}
	if got := w.dials(); got != public+":443" {
		t.Errorf("the target was dialled as %s", got)
	}
}

// Replaced rules end an open stream that they forbid.
func TestReplacedRulesEndHTTP2(t *testing.T) {
	w, c := inspectedHTTP2(t, atoll.Network{Allow: []string{"https://example.com/a/"}})
	body, in := io.Pipe()
	defer in.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.com/a/x", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := w.s.setRules(atoll.Network{Allow: []string{"https://example.com/b/"}, Inspect: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("it goes on: %v", err)
	}
}

// A client of HTTP/2 reaches a server of HTTP/1, and a client of HTTP/1 one of HTTP/2.
func TestHTTP2AndHTTP1(t *testing.T) {
	n := atoll.Network{Allow: []string{"https://example.com/"}, Deny: []string{"https://example.com/no"}}
	w, _, pool := inspected(t, n)
	c := w.client("direct", pool)
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	if got := get(c, "https://example.com/x"); !strings.HasPrefix(got, "GET example.com/x") {
		t.Errorf("to HTTP/1: %q", got)
	}
	w, c = inspectedHTTP2(t, n)
	one := w.client("direct", c.Transport.(*http.Transport).TLSClientConfig.RootCAs)
	one.Transport.(*http.Transport).TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	if got := get(one, "https://example.com/x"); !strings.HasPrefix(got, "HTTP/1.1 GET example.com/x") {
		t.Errorf("from HTTP/1: %q", got)
	}
}
