package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

// liar is a port inside that answers each connection with f, which knows no
// rules.
func liar(t testing.TB, f func(c net.Conn, r *bufio.Reader)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				if _, err := http.ReadRequest(r); err == nil {
					f(c, r)
				}
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

// raw sends bytes and returns all that comes back.
func raw(t testing.TB, address, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: %v", b, err)
	}
	return string(b)
}

// Ambiguous requests are refused.
func TestSmuggledRequests(t *testing.T) {
	web := newIsland("s1")
	var seen []string
	got := make(chan string, 100)
	web.open(80, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Method + " " + r.RequestURI + " " + r.Host + " " + string(body)
	})))
	p := &proxy.Proxy{Finder: sea{"web": web}}
	t.Cleanup(func() { p.Close() })
	at := serve(t, p)
	for name, request := range map[string]string{
		"two lengths":           "POST / HTTP/1.1\r\nHost: 80-web.localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhelloX",
		"two hosts":             "GET / HTTP/1.1\r\nHost: 80-web.localhost\r\nHost: evil.com\r\nConnection: close\r\n\r\n",
		"no host":               "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
		"unknown coding":        "POST / HTTP/1.1\r\nHost: 80-web.localhost\r\nTransfer-Encoding: xchunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
		"coding twice":          "POST / HTTP/1.1\r\nHost: 80-web.localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nConnection: close\r\n\r\n0\r\n\r\n",
		"space before colon":    "POST / HTTP/1.1\r\nHost: 80-web.localhost\r\nContent-Length : 5\r\nConnection: close\r\n\r\nhello",
		"folded":                "GET / HTTP/1.1\r\nHost: 80-web.localhost\r\nX: a\r\n Host: evil.com\r\nConnection: close\r\nY\x00: 1\r\n\r\n",
		"nul in value":          "GET / HTTP/1.1\r\nHost: 80-web.localhost\r\nX: a\x00b\r\nConnection: close\r\n\r\n",
		"connect":               "CONNECT 80-web.localhost:80 HTTP/1.1\r\nHost: 80-web.localhost\r\nConnection: close\r\n\r\n",
		"another's in the URL":  "GET http://evil.com/ HTTP/1.1\r\nHost: 80-web.localhost\r\nConnection: close\r\n\r\n",
		"user in the host":      "GET / HTTP/1.1\r\nHost: 80-web.localhost@evil.com\r\nConnection: close\r\n\r\n",
		"address":               "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
		"newline in the method": "GE\nT / HTTP/1.1\r\nHost: 80-web.localhost\r\nConnection: close\r\n\r\n",
	} {
		answer := raw(t, at, request)
		if !strings.HasPrefix(answer, "HTTP/1.1 4") && !strings.HasPrefix(answer, "HTTP/1.1 501") {
			t.Errorf("%s: %q", name, answer)
		}
	}
	// The length that counts is the one that the proxy read.
	raw(t, at, "POST /a HTTP/1.1\r\nHost: 80-web.localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: 80-web.localhost\r\n\r\n")
	raw(t, at, "GET /b HTTP/1.1\r\nHost: 80-web.localhost\r\nConnection: close\r\n\r\n")
	close(got)
	for s := range got {
		seen = append(seen, s)
		if strings.Contains(s, "smuggled") || strings.Contains(s, "evil") {
			t.Errorf("inside was heard %q", s)
		}
	}
	if len(seen) < 1 || !strings.HasPrefix(seen[len(seen)-1], "GET /b") {
		t.Errorf("inside was heard %q", seen)
	}
}

// The host in the URL of a request overrides the Host header, as in RFC 9112, and
// is forwarded to the sandbox.
func TestAbsoluteURL(t *testing.T) {
	web := newIsland("s1")
	web.open(80, serve(t, site()))
	p := &proxy.Proxy{Finder: sea{"web": web}}
	t.Cleanup(func() { p.Close() })
	answer := raw(t, serve(t, p), "GET http://80-web.localhost/x HTTP/1.1\r\nHost: evil.com\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 200") || strings.Contains(answer, "evil.com") {
		t.Errorf("%s", answer)
	}
}

// A page of the web that has its name lead to this machine gets nothing.
func TestRebinding(t *testing.T) {
	_, c := newProxy(t, &proxy.Proxy{})
	for _, host := range []string{"evil.com", "web.localhost.evil.com", "127.0.0.1", "[::1]:80", "localhost", "169.254.169.254", "web.local", "weblocalhost", "web.localhost%00.evil.com"} {
		if res, body := get(t, c, "GET", "http://web.localhost/", "Host: "+host); res.StatusCode != http.StatusMisdirectedRequest && res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s: %s", host, res.Status, body)
		}
	}
}

func TestCookiesStayWithTheirHost(t *testing.T) {
	names := proxy.Names{Domains: []string{"localhost", "sandbox.example.com"}}
	_, c := newProxy(t, &proxy.Proxy{Names: names})
	for cookie, want := range map[string]string{
		"a=1":                                   "a=1",
		"a=1; Path=/; HttpOnly":                 "a=1; Path=/; HttpOnly",
		"a=1; Domain=localhost":                 "",
		"a=1; Domain=.localhost; Path=/":        "",
		"a=1;domain=LOCALHOST":                  "",
		"a=1; Domain=other.localhost":           "",
		"a=1; Domain=web.localhost; Path=/":     "a=1; Path=/",
		"a=1; Domain=.WEB.localhost":            "a=1",
		"a=1; Domain=sandbox.example.com":       "",
		"a=1; Domain=example.com":               "",
		"a=1; Domain=":                          "a=1",
		"a=1; DoMaIn = localhost":               "",
		"a=1; Domain=web.localhost; Domain=com": "",
		"a=Domain=localhost":                    "a=Domain=localhost",
		"=a=1":                                  "",
		"nameless":                              "",
		"atoll-access=x":                        "",
		" ATOLL-access =x":                      "",
		"__Host-atoll-access=x; Secure; Path=/": "",
		"__host-atoll-access=x":                 "",
	} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://web.localhost/set", nil)
		q := req.URL.Query()
		q.Set("Set-Cookie", cookie)
		req.URL.RawQuery = q.Encode()
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := strings.Join(res.Header["Set-Cookie"], "|"); got != want {
			t.Errorf("%q came as %q; want %q", cookie, got, want)
		}
	}
}

// What a sandbox says to what stands before the proxy, or of what is beside it,
// is not passed on.
func TestControlHeadersAreRemoved(t *testing.T) {
	_, c := newProxy(t, &proxy.Proxy{})
	for _, name := range []string{"Alt-Svc", "X-Accel-Redirect", "x-accel_redirect", "X-Sendfile", "X-Lighttpd-Send-File", "X-Reproxy-URL"} {
		res, _ := get(t, c, "GET", "http://web.localhost/set?"+name+"=/etc/passwd&X-Mine=1")
		for got := range res.Header {
			if strings.EqualFold(got, name) {
				t.Errorf("%s was passed on", got)
			}
		}
		if res.Header.Get("X-Mine") != "1" {
			t.Errorf("%s: %v", name, res.Header)
		}
	}
}

func TestCrossOriginRequestsAreRefused(t *testing.T) {
	web, c := newProxy(t, &proxy.Proxy{})
	for _, f := range []struct {
		fields []string
		ok     bool
	}{
		{nil, true},
		{[]string{"Origin: http://web.localhost"}, true},
		{[]string{"Origin: http://8000-web.localhost"}, true},
		{[]string{"Origin: http://8000-web.localhost", "Sec-Fetch-Site: same-site"}, true},
		{[]string{"Origin: null", "Sec-Fetch-Site: same-origin"}, true},
		{[]string{"Origin: null"}, false},
		{[]string{"Origin: http://other.localhost"}, false},
		{[]string{"Origin: http://other.localhost", "Sec-Fetch-Site: same-site"}, false},
		{[]string{"Origin: https://evil.com"}, false},
		{[]string{"Origin: https://web.localhost.evil.com"}, false},
		{[]string{"Origin: http://web.localhost", "Origin: https://evil.com"}, false},
		{[]string{"Sec-Fetch-Site: cross-site"}, false},
		{[]string{"Origin: http://localhost:3000"}, false},
	} {
		res, _ := get(t, c, "POST", "http://web.localhost/", f.fields...)
		if (res.StatusCode == http.StatusOK) != f.ok {
			t.Errorf("POST with %v: %s", f.fields, res.Status)
		}
		if res, _ := get(t, c, "GET", "http://web.localhost/", f.fields...); res.StatusCode != http.StatusOK {
			t.Errorf("a link, with %v: %s", f.fields, res.Status)
		}
		h := http.Header{}
		for _, field := range f.fields {
			name, value, _ := cut(field)
			h.Add(name, value)
		}
		ws, _, err := websocket.Dial(t.Context(), "ws://web.localhost/ws", &websocket.DialOptions{HTTPClient: c, HTTPHeader: h})
		if (err == nil) != f.ok {
			t.Errorf("WebSocket with %v: %v", f.fields, err)
		}
		if err == nil {
			ws.CloseNow()
		}
	}
	_ = web
}

// A tunnel of another protocol would carry requests that the proxy can't check.
func TestOnlyWebSocketsAreUpgraded(t *testing.T) {
	web, c := newProxy(t, &proxy.Proxy{})
	for _, up := range []string{"h2c", "TLS/1.0", "websocket2", "anything"} {
		res, body := get(t, c, "GET", "http://web.localhost/", "Connection: Upgrade, HTTP2-Settings", "Upgrade: "+up, "Http2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
		if h := ears(t, body); res.StatusCode != http.StatusOK || h.Header.Get("Upgrade") != "" || h.Header.Get("Connection") != "" || h.Header.Get("Http2-Settings") != "" {
			t.Errorf("%s: %s %v", up, res.Status, h.Header)
		}
	}
	web.open(80, liar(t, func(c net.Conn, _ *bufio.Reader) {
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
	}))
	if res, _ := get(t, c, "GET", "http://80-web.localhost/"); res.StatusCode != http.StatusBadGateway {
		t.Errorf("an upgrade that was not requested: %s", res.Status)
	}
	if res, _ := get(t, c, "GET", "http://80-web.localhost/", "Connection: Upgrade", "Upgrade: websocket"); res.StatusCode != http.StatusBadGateway {
		t.Errorf("another was asked for: %s", res.Status)
	}
}

// Whatever a port says, the client gets one well-formed answer, and the proxy
// keeps little of it.
func TestHostileAnswers(t *testing.T) {
	web, c := newProxy(t, &proxy.Proxy{})
	endless := func(c net.Conn, begin, line string) {
		w := bufio.NewWriter(c)
		_, err := w.WriteString(begin)
		for n := 0; err == nil && n < 1<<30; n += len(line) {
			_, err = w.WriteString(line)
		}
		_ = w.Flush()
	}
	long := strings.Repeat("x", 1000)
	for name, f := range map[string]func(c net.Conn, r *bufio.Reader){
		"1 GB of fields":   func(c net.Conn, _ *bufio.Reader) { endless(c, "HTTP/1.1 200 OK\r\n", "X: "+long+"\r\n") },
		"a field of 1 GB":  func(c net.Conn, _ *bufio.Reader) { endless(c, "HTTP/1.1 200 OK\r\nX: ", long) },
		"a status of 1 GB": func(c net.Conn, _ *bufio.Reader) { endless(c, "HTTP/1.1 200 ", long) },
		"nothing":          func(net.Conn, *bufio.Reader) {},
		"half a head":      func(c net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: 1\r\n") },
		"no HTTP":          func(c net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9\r\n\r\n") },
		"two lengths": func(c net.Conn, _ *bufio.Reader) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
		},
		"a negative length": func(c net.Conn, _ *bufio.Reader) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nab")
		},
		"a status of letter": func(c net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(c, "HTTP/1.1 abc OK\r\n\r\n") },
	} {
		web.open(80, liar(t, f))
		res, body := get(t, c, "GET", "http://80-web.localhost/")
		if res.StatusCode != http.StatusBadGateway || res.Header.Get("Atoll-Reason") != "bad_answer" || res.Header.Get("X") != "" {
			t.Errorf("%s: %s %v %.100s", name, res.Status, res.Header, body)
		}
	}
}

// A field that holds a line of its own is no second field, and no second answer.
func TestSplitAnswers(t *testing.T) {
	web := newIsland("s1")
	web.open(80, liar(t, func(c net.Conn, _ *bufio.Reader) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b=1; Domain=localhost\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsplit")
	}))
	p := &proxy.Proxy{Finder: sea{"web": web}}
	t.Cleanup(func() { p.Close() })
	at := serve(t, p)
	answer := raw(t, at, "GET / HTTP/1.1\r\nHost: 80-web.localhost\r\n\r\nGET / HTTP/1.1\r\nHost: nobody.localhost\r\nConnection: close\r\n\r\n")
	if strings.Contains(answer, "\rSet-Cookie") || strings.Contains(answer, "\nSet-Cookie") || strings.Contains(answer, "split") || !strings.Contains(answer, "No sandbox called nobody") {
		t.Errorf("%q", answer)
	}
}

// An answer that ends early is an error of the client too, never a whole one.
func TestCutAnswer(t *testing.T) {
	web, c := newProxy(t, &proxy.Proxy{})
	web.open(80, liar(t, func(c net.Conn, _ *bufio.Reader) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsome")
	}))
	web.open(81, liar(t, func(c net.Conn, _ *bufio.Reader) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n")
	}))
	for _, port := range []int{80, 81} {
		res, err := c.Get(fmt.Sprintf("http://%d-web.localhost/", port))
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		if err == nil {
			t.Errorf("port %d: half an answer looks whole", port)
		}
	}
}

// A port that never answers holds its own requests only, and lets go when the
// client does.
func TestSilentPort(t *testing.T) {
	web, c := newProxy(t, &proxy.Proxy{MaxRequests: 3})
	began, gone := make(chan bool, 3), make(chan bool, 3)
	web.open(80, liar(t, func(_ net.Conn, r *bufio.Reader) {
		began <- true
		_, _ = r.ReadByte() // until the proxy hangs up
		gone <- true
	}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	for range 2 {
		go func() {
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://80-web.localhost/", nil)
			_, err := c.Do(req)
			done <- err
		}()
		<-began
	}
	if res, _ := get(t, c, "GET", "http://3000-web.localhost/"); res.StatusCode != http.StatusOK {
		t.Errorf("the port beside it: %s", res.Status)
	}
	cancel()
	for range 2 {
		<-gone
		if err := <-done; err == nil {
			t.Error("an answer from a silent port")
		}
	}
}

// A dial that hangs ends at the deadline.
func TestDialDeadline(t *testing.T) {
	web := &hanging{newIsland("s1")}
	p := &proxy.Proxy{Finder: sea{"web": web}, DialTimeout: time.Millisecond}
	t.Cleanup(func() { p.Close() })
	if res, _ := get(t, browser(t, serve(t, p)), "GET", "http://80-web.localhost/"); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s", res.Status)
	}
}

type hanging struct{ *island }

func (h *hanging) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A client that takes nothing of an answer is not kept for ever, however much the
// sandbox has to say.
func TestClientThatDoesNotRead(t *testing.T) {
	web := newIsland("s1")
	ended := make(chan error, 1)
	web.open(80, liar(t, func(c net.Conn, _ *bufio.Reader) {
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		for err == nil {
			_, err = c.Write(make([]byte, 1<<16))
		}
		ended <- err
	}))
	p := &proxy.Proxy{Finder: sea{"web": web}, Stall: 100 * time.Millisecond}
	t.Cleanup(func() { p.Close() })
	c, err := net.Dial("tcp", serve(t, p))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: 80-web.localhost\r\n\r\n")
	<-ended // else the test's own deadline
}
