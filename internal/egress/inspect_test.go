package egress

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
)

const secret = "s3cr3t-credential"

// inspected is a world with an authority; what programs trust is its pool.
func inspected(t *testing.T, n atoll.Network) (*world, *httptest.Server, *x509.CertPool) {
	t.Helper()
	n.Inspect = true
	w := newWorld(t, atoll.Network{})
	both, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	if w.s.ca, err = readAuthority(both); err != nil {
		t.Fatal(err)
	}
	if err := w.s.setRules(n); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(w.s.ca.cert)
	for _, name := range []string{"example.com", "other.example.com"} {
		w.names[name] = []string{public}
	}
	w.web(public + ":80")
	srv := w.webTLS(public + ":443") // its certificate is for example.com
	w.s.roots = trust(srv)
	return w, srv, pool
}

func TestHeadersAreSetOutside(t *testing.T) {
	w, srv, pool := inspected(t, atoll.Network{
		Allow:   []string{"example.com", "other.example.com"},
		Headers: []atoll.Header{{Host: "example.com", Name: "Authorization", Value: "Bearer " + secret}},
	})
	var file bytes.Buffer
	w.s.journal.file = &file
	for _, way := range ways {
		c := w.client(way, pool)
		if got := get(c, "https://example.com/x"); !strings.Contains(got, `key="Bearer `+secret) {
			t.Errorf("%s: %q; %+v", way, got, w.last())
		}
		if got := get(c, "http://example.com/x"); strings.Contains(got, secret) || !strings.HasPrefix(got, "GET ") {
			t.Errorf("%s: over plain http: %q", way, got)
		}
		if got := get(c, "https://example.com/?to=https://other.example.com/"); strings.Contains(got, secret) {
			t.Errorf("%s: redirected: %q", way, got)
		}
		// A host without headers is not looked into: the program sees its own certificate.
		if got := get(w.client(way, trust(srv)), "https://other.example.com/"); strings.Contains(got, secret) || !strings.HasPrefix(got, "GET ") {
			t.Errorf("%s: another host: %q", way, got)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/"+secret, nil)
		req.Header.Set("Authorization", "own")
		req.Header.Set("Connection", "Authorization")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(b), `key="Bearer `+secret) {
			t.Errorf("%s: with a header of its own: %q", way, b)
		}
	}
	b, err := json.Marshal(w.s.journal.list())
	w.s.journal.mu.Lock() // a connection may still end
	kept := bytes.Clone(file.Bytes())
	w.s.journal.mu.Unlock()
	if err != nil || bytes.Contains(b, []byte(secret)) || bytes.Contains(kept, []byte(secret)) {
		t.Errorf("the journal tells the secret: %s", b)
	}
	if !bytes.Contains(b, []byte(`/***`)) {
		t.Errorf("the path is not written down: %s", b)
	}
}

func TestInspectedPaths(t *testing.T) {
	w, _, pool := inspected(t, atoll.Network{Allow: []string{"https://example.com/api/"}, Deny: []string{"https://example.com/api/admin"}})
	for _, way := range ways {
		c := w.client(way, pool)
		for url, works := range map[string]bool{
			"https://example.com/api/x": true, "https://example.com/": false, "https://example.com/api/admin": false, "https://example.com/api/%2e%2e/": false, "http://example.com/api/x": false,
		} {
			if got := get(c, url); strings.HasPrefix(got, "GET ") != works {
				t.Errorf("%s %s: %q", way, url, got)
			}
		}
		if got := get(c, "https://example.com/"); !strings.Contains(got, "only \"https://example.com/api/\" is allowed") {
			t.Errorf("%s: no clear word: %q", way, got)
		}
	}
}

// TestInspectedOverrides sends allowed requests with a header that replaces their path, with HTTP/1 and 2.
func TestInspectedOverrides(t *testing.T) {
	w, _, pool := inspected(t, atoll.Network{Allow: []string{"https://example.com/api/"}})
	for _, way := range ways {
		for value, works := range map[string]bool{"/api/y": true, "/secret": false} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/api/x", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Rewrite-Url", value)
			resp, err := w.client(way, pool).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if (resp.StatusCode == http.StatusOK) != works {
				t.Errorf("%s, X-Rewrite-Url: %s: %s", way, value, resp.Status)
			}
		}
	}
}

// The gate checks servers as a browser does, although programs only see the gate.
func TestInspectedServersAreVerified(t *testing.T) {
	w, _, pool := inspected(t, atoll.Network{Allow: []string{"example.com"}, Headers: []atoll.Header{{Host: "example.com", Name: "X", Value: secret}}})
	w.s.roots = x509.NewCertPool()
	if got := get(w.client("direct", pool), "https://example.com/"); !strings.HasPrefix(got, "502 ") || !strings.Contains(got, "certificate") {
		t.Errorf("%q", got)
	}
}

func TestLeavesAreBounded(t *testing.T) {
	both, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	a, err := readAuthority(both)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxLeaves {
		cert, err := a.certFor(fmt.Sprintf("h%d.test", i))
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(a.cert)
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: fmt.Sprintf("h%d.test", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.made) != maxLeaves || a.order.Len() != maxLeaves {
		t.Errorf("%d are kept", len(a.made))
	}
}

func TestByteLimit(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{"example.com"}, Bytes: 1 << 20})
	w.names["example.com"] = []string{public}
	w.listen(public+":9000", func(c net.Conn) { _, _ = io.Copy(c, io.LimitReader(zeros{}, 16<<20)) })
	c, err := w.dialName("example.com", "9000")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); n > 1<<20+chunkSize || err == nil {
		t.Errorf("%d bytes came through, %v", n, err)
	}
	w.served.Wait()
	if c := w.last(); !strings.Contains(c.Reason, "all the bytes") {
		t.Errorf("%+v", c)
	}
	if got := get(w.client("proxy", nil), "http://example.com/"); !strings.HasPrefix(got, "error") {
		t.Errorf("afterwards: %q", got)
	}
	if err := w.s.setRules(atoll.Network{Allow: []string{"example.com"}}); err != nil {
		t.Fatal(err)
	}
	w.web(public + ":80")
	if got := get(w.client("proxy", nil), "http://example.com/"); !strings.HasPrefix(got, "GET ") {
		t.Errorf("without a limit: %q", got)
	}
}

// TestRateLimit checks the rate of a connection in memory, by the clock of a bubble.
func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, atoll.Network{Allow: []string{"example.com"}, Rate: 1 << 20})
		w.names["example.com"] = []string{public}
		w.n.dial = func(context.Context, netip.AddrPort) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				_, _ = io.Copy(there, io.LimitReader(zeros{}, 10<<20))
			}()
			return here, nil
		}
		c, inside := net.Pipe()
		w.served.Go(func() {
			defer inside.Close()
			w.s.serveProxy(inside)
		})
		start := time.Now()
		if _, err := io.WriteString(c, "CONNECT example.com:9000 HTTP/1.1\r\nHost: example.com:9000\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		const established = "HTTP/1.1 200 Connection established\r\n\r\n"
		answer := make([]byte, len(established))
		if _, err := io.ReadFull(c, answer); err != nil || string(answer) != established {
			t.Fatalf("CONNECT: %q, %v", answer, err)
		}
		if n, err := io.CopyN(io.Discard, c, 10<<20); n != 10<<20 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if took := time.Since(start); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("10 MiB at 1 MiB a second took %v", took)
		}
		c.Close()
		w.served.Wait()
	})
}

// What is no longer allowed is cut, in whatever it is.
func TestSetCuts(t *testing.T) {
	before := atoll.Network{Allow: []string{"example.com"}}
	for what, after := range map[string]atoll.Network{
		"nothing": {}, "another port": {Allow: []string{"example.com:1"}}, "denied": {Allow: []string{"example.com"}, Deny: []string{"example.com"}},
		"its address": {Allow: []string{"example.com"}, Deny: []string{public}},
	} {
		w := newWorld(t, before)
		w.names["example.com"] = []string{public}
		began := make(chan struct{}, 2)
		w.listen(public+":9000", func(c net.Conn) { began <- struct{}{}; _, _ = io.Copy(io.Discard, c) })
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { began <- struct{}{}; <-r.Context().Done() }))
		t.Cleanup(srv.Close)
		w.place(srv, public+":80")
		raw, err := w.dialName("example.com", "9000")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(raw, "hello")
		web, err := w.dialName("example.com", "80")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(web, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
		<-began
		<-began
		if err := w.s.setRules(atoll.Network{Allow: []string{"example.com", "more.test"}}); err != nil {
			t.Fatal(err)
		}
		_ = raw.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := raw.Read(make([]byte, 1)); !timedOut(err) {
			t.Errorf("%s: more is allowed, but it is cut: %v", what, err)
		}
		if err := w.s.setRules(after); err != nil {
			t.Fatal(err)
		}
		for _, c := range []net.Conn{raw, web} {
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			if n, err := c.Read(make([]byte, 1)); err == nil || timedOut(err) {
				t.Errorf("%s: it goes on: %d, %v", what, n, err)
			}
		}
	}
}

func TestJournalIsBounded(t *testing.T) {
	w := newWorld(t, atoll.Network{})
	for i := range 3 * maxEntries {
		w.s.recordRefusal(atoll.Connection{Host: fmt.Sprint(i, strings.Repeat("x", 5000))}, nil)
	}
	list := w.s.journal.list()
	if len(list) != maxEntries || !strings.HasPrefix(list[0].Host, fmt.Sprint(2*maxEntries)) || len(list[0].Host) > maxText+10 {
		t.Errorf("%d entries, the first %.20s", len(list), list[0].Host)
	}
	for range 100 {
		w.s.recordRefusal(atoll.Connection{Host: "same"}, nil)
	}
	if list := w.s.journal.list(); list[len(list)-2].Host == "same" {
		t.Error("what is the same is told a hundred times")
	}
}

func TestAsk(t *testing.T) {
	w := newWorld(t, atoll.Network{Mode: atoll.NetworkNAT, Deny: []string{"bad.test", "http://example.com/admin"}})
	w.names["example.com"] = []string{public}
	for target, want := range map[string]bool{
		"example.com": true, "example.com:22": true, "https://example.com/x": true, "http://example.com/admin/x": false, "bad.test": false, "10.0.0.1": false, "10.0.0.1:80": false, "8.8.8.8:53": true,
	} {
		if c, err := w.s.evaluate(t.Context(), target); err != nil || c.Allowed != want || (c.Reason == "") != want {
			t.Errorf("%s: %+v, %v", target, c, err)
		}
	}
	for _, target := range []string{"", "*.example.com", "10.0.0.0/8", "a b"} {
		if _, err := w.s.evaluate(t.Context(), target); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%q: %v", target, err)
		}
	}
}

// Names are looked up by whole names at the servers that are given.
func TestConnectFailsClearly(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{"gone.test", "closed.test"}})
	w.names["closed.test"] = []string{public}
	for url, want := range map[string]string{"http://gone.test/": "502 atoll: gone.test: not found", "http://closed.test/": "502 atoll: closed.test: connection refused"} {
		if got := get(w.client("proxy", nil), url); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", url, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.n.resolveHost(ctx, "10.0.0.1"); err != nil {
		t.Error(err)
	}
}
