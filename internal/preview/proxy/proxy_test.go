package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// newProxy serves a proxy over one island, "web", whose port 3000 is the site.
func newProxy(t testing.TB, p *proxy.Proxy) (*island, *http.Client) {
	t.Helper()
	web := newIsland("s1")
	web.open(3000, serve(t, site()))
	p.Finder = sea{"web": web}
	t.Cleanup(func() { p.Close() })
	return web, browser(t, serve(t, p))
}

func TestNames(t *testing.T) {
	n := proxy.Names{Domains: []string{"localhost", "sandbox.example.com"}}
	for host, want := range map[string]proxy.Name{
		"web.localhost":                   {"web", 0, "localhost"},
		"WEB.LocalHost.:8080":             {"web", 0, "localhost"},
		"3000-web.localhost":              {"web", 3000, "localhost"},
		"65535-my-web.localhost":          {"my-web", 65535, "localhost"},
		"0-3000-web.localhost":            {"3000-web", 0, "localhost"},
		"8080-3000-web.localhost":         {"3000-web", 8080, "localhost"},
		"3000-web.sandbox.example.com:80": {"web", 3000, "sandbox.example.com"},
		"0a1b.localhost":                  {"0a1b", 0, "localhost"},
	} {
		if got, ok := n.Parse(host); !ok || got != want {
			t.Errorf("%q is %+v, %v; want %+v", host, got, ok, want)
		}
	}
	for _, host := range []string{
		"", "localhost", ".localhost", "localhost:80", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80", "a.b.localhost", "weblocalhost", "web.localhost.evil.com",
		"web.localhost:", "web.localhost:x", "web.localhost:+1", "web.localhost:99999", "web.localhost:80:80", "web_.localhost", "web .localhost", "wéb.localhost", "xn--wb-bja.localhost",
		"65536-web.localhost", "03000-web.localhost", "3000--web.localhost", "3000-.localhost", "-web.localhost", "web-.localhost", "web@evil.com", "evil.com#.localhost",
		"web.localhost..", "web.localhost\x00", strings.Repeat("a", 64) + ".localhost", "sandbox.example.com", "99999999999999999999-web.localhost",
	} {
		if got, ok := n.Parse(host); ok {
			t.Errorf("%q passes for %+v", host, got)
		}
	}
}

// What Host makes, Parse reads.
func FuzzNames(f *testing.F) {
	f.Add("web", 0)
	f.Add("3000-web", 0)
	f.Add("1-2-3", 65535)
	f.Fuzz(func(t *testing.T, project string, port int) {
		var n proxy.Names
		host, err := n.HostName(project, port)
		if err != nil {
			return
		}
		if got, ok := n.Parse(host); !ok || got.Project != project || got.Port != port {
			t.Errorf("Host(%q, %d) is %q, which is %+v, %v", project, port, host, got, ok)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("3000-web.localhost:80")
	f.Fuzz(func(t *testing.T, host string) {
		var n proxy.Names
		name, ok := n.Parse(host)
		if !ok {
			return
		}
		if name.Port < 0 || name.Port > 65535 || strings.ContainsAny(name.Project, "./\\:@ \x00\r\n") || name.Project == "" {
			t.Errorf("%q is %+v", host, name)
		}
	})
}

func TestDomainsAreChecked(t *testing.T) {
	for _, d := range []string{"", ".", "Example.com", "example.com.", "*.example.com", "exa mple.com", "10.0.0.1", "-a.com", strings.Repeat("a.", 120) + "com"} {
		if err := (proxy.Names{Domains: []string{d}}).Check(); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("domain %q: %v", d, err)
		}
	}
	if err := (proxy.Names{Domains: []string{"localhost", "local", "sandbox.example.com"}}).Check(); err != nil {
		t.Error(err)
	}
}

func TestMainPortIsTheFirstOpened(t *testing.T) {
	web, c := newProxy(t, &proxy.Proxy{})
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the other") }))
	t.Cleanup(other.Close)
	ask := func() string {
		t.Helper()
		res, body := get(t, c, "GET", "http://web.localhost/")
		if res.StatusCode != http.StatusOK {
			return res.Header.Get("Atoll-Reason")
		}
		if body == "the other" {
			return "other"
		}
		return "site"
	}
	if got := ask(); got != "site" {
		t.Fatalf("one port open: %s", got)
	}
	web.open(80, other.Listener.Addr().String())
	if got := ask(); got != "site" {
		t.Errorf("a smaller port was opened later: %s", got)
	}
	web.close(3000)
	until(t, func() bool { return ask() == "other" })
	web.open(3000, "127.0.0.1:1")
	if got := ask(); got != "other" {
		t.Errorf("the first one was opened again: %s", got)
	}
	web.close(80)
	web.close(3000)
	until(t, func() bool { return ask() == "no_port" })
	web.main = 9000
	until(t, func() bool { return ask() == "port_closed" })
	web.open(9000, other.Listener.Addr().String())
	if got := ask(); got != "other" {
		t.Errorf("the configured one: %s", got)
	}
}

// until waits for the effect of a notice, at most until the test's deadline.
func until(t testing.TB, ok func() bool) {
	t.Helper()
	for !ok() {
		if t.Context().Err() != nil {
			t.Fatal("it did not come")
		}
		runtime.Gosched()
	}
}

// mute is a target that tells nothing by itself.
type mute struct{ proxy.Target }

func TestPortsWithoutNotifier(t *testing.T) {
	web := newIsland("s1")
	p := &proxy.Proxy{Finder: sea{"web": mute{web}}}
	t.Cleanup(func() { p.Close() })
	c := browser(t, serve(t, p))
	if res, _ := get(t, c, "GET", "http://web.localhost/"); res.Header.Get("Atoll-Reason") != "no_port" {
		t.Errorf("nothing open: %s", res.Status)
	}
	web.open(3000, serve(t, site()))
	if res, _ := get(t, c, "GET", "http://web.localhost/"); res.StatusCode != http.StatusOK {
		t.Errorf("opened: %s", res.Status)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	web, c := newProxy(t, &proxy.Proxy{})
	for range 20 {
		get(t, c, "GET", "http://3000-web.localhost/")
	}
	web.mu.Lock()
	defer web.mu.Unlock()
	if web.dials != 1 || web.asked != 0 {
		t.Errorf("20 requests dialled %d times and asked for ports %d times; want 1 and 0", web.dials, web.asked)
	}
}

// A sandbox that takes another's name gets none of its connections.
func TestConnectionsBelongToTheirSandbox(t *testing.T) {
	one, two := newIsland("s1"), newIsland("s2")
	for _, s := range []*island{one, two} {
		s.open(80, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s.id) })))
	}
	all := sea{"web": one}
	p := &proxy.Proxy{Finder: all}
	t.Cleanup(func() { p.Close() })
	c := browser(t, serve(t, p))
	if _, body := get(t, c, "GET", "http://80-web.localhost/"); body != "s1" {
		t.Fatal(body)
	}
	all["web"] = two
	if _, body := get(t, c, "GET", "http://80-web.localhost/"); body != "s2" {
		t.Errorf("the new sandbox's name leads to %s", body)
	}
}

func TestWebSocket(t *testing.T) {
	_, c := newProxy(t, &proxy.Proxy{})
	ws, _, err := websocket.Dial(t.Context(), "ws://web.localhost/ws", &websocket.DialOptions{HTTPClient: c, HTTPHeader: http.Header{"Origin": {"http://3000-web.localhost"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	for _, text := range []string{"", "ahoy", strings.Repeat("x", 30000)} {
		if err := ws.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, b, err := ws.Read(t.Context()); err != nil || string(b) != text {
			t.Fatalf("echo of %d bytes: %d, %v", len(text), len(b), err)
		}
	}
	if err := ws.Close(websocket.StatusNormalClosure, "bye"); err != nil {
		t.Error(err)
	}
}

// Events arrive when they are sent, not when there are enough of them.
func TestEventsAreFlushed(t *testing.T) {
	web, c := newProxy(t, &proxy.Proxy{})
	next := make(chan string)
	web.open(80, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		w.(http.Flusher).Flush()
		for text := range next {
			fmt.Fprint(w, text)
			w.(http.Flusher).Flush()
		}
	})))
	for _, kind := range []string{"text/event-stream", "application/octet-stream"} {
		next = make(chan string)
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://80-web.localhost/?type="+kind, nil)
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(res.Body)
		for i := range 5 {
			next <- fmt.Sprintf("data: %d\n", i) // the next one is only sent when this one was read
			if line, err := r.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("%s: %q, %v", kind, line, err)
			}
		}
		close(next)
		res.Body.Close()
	}
}

// zeros is a body of many bytes that are nowhere.
type zeros struct{ left int64 }

func (z *zeros) Read(b []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), z.left)
	clear(b[:n])
	z.left -= n
	return int(n), nil
}

func TestUploadIsStreamed(t *testing.T) {
	size := int64(2 << 30)
	if testing.Short() || !testenv.All() {
		size = 64 << 20
	}
	_, c := newProxy(t, &proxy.Proxy{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, body := send(t, c, "POST", "http://web.localhost/upload", &zeros{size})
	runtime.ReadMemStats(&after)
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(body, fmt.Sprint(size, " ")) || !strings.HasSuffix(body, "<nil>") {
		t.Fatalf("%s: %s", res.Status, body)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("%d bytes through the proxy allocated %d", size, grown)
	}
}

func TestTrailersBothDirections(t *testing.T) {
	_, c := newProxy(t, &proxy.Proxy{})
	req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://web.localhost/trailer", io.NopCloser(strings.NewReader("body")))
	req.Trailer = http.Header{"Ask": {"why"}}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != "body|why" || res.Trailer.Get("Sum") != "42" {
		t.Errorf("%q with trailer %v", body, res.Trailer)
	}
}

// A body that waits for leave is asked for only when the program inside wants it.
func TestExpectContinue(t *testing.T) {
	web, c := newProxy(t, &proxy.Proxy{})
	web.open(80, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.Header().Set("Connection", "close")
			http.Error(w, "too big", http.StatusRequestEntityTooLarge)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})))
	c.Transport.(*http.Transport).ExpectContinueTimeout = 1 << 40 // for ever: the answer decides
	for path, want := range map[string]int{"/yes": 200, "/no": 413} {
		body := &zeros{1 << 20}
		asked := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { asked = true }})
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://80-web.localhost"+path, body)
		req.Header.Set("Expect", "100-continue")
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want || asked != (want == 200) {
			t.Errorf("%s: %s, leave was given: %v", path, res.Status, asked)
		}
	}
}

func TestEarlyHintsKeepOnlyLinks(t *testing.T) {
	_, c := newProxy(t, &proxy.Proxy{})
	var early textproto.MIMEHeader
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		early = h
		return nil
	}})
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://web.localhost/hints", nil)
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if early.Get("Link") == "" || early.Get("Set-Cookie") != "" || res.StatusCode != http.StatusOK {
		t.Errorf("hints %v, then %s", early, res.Status)
	}
}

func TestHTTP2(t *testing.T) {
	web, _ := newProxy(t, &proxy.Proxy{})
	inside := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.Header.Get("Te"), body)
		w.Header().Set("Grpc-Status", "0")
	})}
	inside.Protocols.SetUnencryptedHTTP2(true)
	inside.Protocols.SetHTTP1(true)
	web.open(50051, serveWith(t, inside))
	p := &proxy.Proxy{Finder: sea{"web": web}}
	t.Cleanup(func() { p.Close() })
	ts := httptest.NewUnstartedServer(p)
	ts.EnableHTTP2 = true
	ts.StartTLS()
	t.Cleanup(ts.Close)
	c := browser(t, ts.Listener.Addr().String())
	tr := c.Transport.(*http.Transport)
	tr.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	tr.ForceAttemptHTTP2 = true
	res, body := get(t, c, "GET", "https://web.localhost/")
	if h := ears(t, body); res.ProtoMajor != 2 || h.Header.Get("X-Forwarded-Proto") != "https" {
		t.Errorf("%s: %+v", res.Proto, h)
	}
	res, body = send(t, c, "POST", "https://50051-web.localhost/call", strings.NewReader("ahoy"), "Content-Type: application/grpc", "Te: trailers")
	if body != "HTTP/2.0 trailers ahoy" || res.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("gRPC: %q, trailer %v", body, res.Trailer)
	}
	if res, body = send(t, c, "POST", "https://50051-web.localhost/", strings.NewReader("x")); body != "HTTP/1.1  x" {
		t.Errorf("what is no gRPC: %s %q", res.Status, body)
	}
}

// Programs inside that know localhost only see it, whatever the name outside.
func TestHostModes(t *testing.T) {
	names := proxy.Names{Domains: []string{"localhost", "sandbox.example.com"}}
	for _, c := range []struct {
		mode                proxy.HostMode
		outer, host, origin string
	}{
		{proxy.HostAuto, "web.localhost", "web.localhost", "http://web.localhost"},
		{proxy.HostAuto, "web.sandbox.example.com", "localhost:3000", "http://localhost:3000"},
		{proxy.HostKeep, "web.sandbox.example.com", "web.sandbox.example.com", "http://web.sandbox.example.com"},
		{proxy.HostLocal, "web.localhost", "localhost:3000", "http://localhost:3000"},
	} {
		_, b := newProxy(t, &proxy.Proxy{Names: names, Host: c.mode})
		_, body := get(t, b, "POST", "http://"+c.outer+"/", "Origin: http://"+c.outer, "Referer: http://"+c.outer+"/page")
		h := ears(t, body)
		if h.Host != c.host || h.Header.Get("Origin") != c.origin || h.Header.Get("Referer") != c.origin+"/page" || h.Header.Get("X-Forwarded-Host") != c.outer {
			t.Errorf("%q, %s: %+v", c.mode, c.outer, h)
		}
		res, _ := get(t, b, "GET", "http://"+c.outer+"/set?status=302&Location=http://localhost:3000/next%3Fa=b")
		if got := res.Header.Get("Location"); got != "http://"+c.outer+"/next?a=b" {
			t.Errorf("%q, %s: redirected to %s", c.mode, c.outer, got)
		}
	}
	_, b := newProxy(t, &proxy.Proxy{})
	for _, at := range []string{"http://localhost:4000/", "/relative", "https://example.com/", "//evil.com"} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://web.localhost/set?status=302", nil)
		q := req.URL.Query()
		q.Set("Location", at)
		req.URL.RawQuery = q.Encode()
		res, err := b.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get("Location"); got != at {
			t.Errorf("Location %q came as %q", at, got)
		}
	}
}

func TestForwardedHeadersAreReplaced(t *testing.T) {
	lies := []string{
		"X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil.com", "X-Forwarded-Port: 1", "X-Forwarded-Prefix: /x", "Forwarded: for=1.2.3.4", "X-Real-Ip: 1.2.3.4",
		"X_Forwarded_For: 1.2.3.4", "X-Forwarded_For: 1.2.3.4", "X_real-ip: 1.2.3.4",
	}
	_, c := newProxy(t, &proxy.Proxy{})
	_, body := get(t, c, "GET", "http://web.localhost/", lies...)
	h := ears(t, body)
	for name := range h.Header {
		switch name {
		case "Accept-Encoding", "User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto":
		default:
			t.Errorf("inside was heard %s: %s", name, h.Header.Get(name))
		}
	}
	if h.Header.Get("X-Forwarded-For") != "127.0.0.1" || h.Header.Get("X-Forwarded-Proto") != "http" {
		t.Errorf("%v", h.Header)
	}
	// A field that Connection names is removed before ours are added, not after.
	_, body = get(t, c, "GET", "http://web.localhost/", "Connection: X-Forwarded-For, X-Forwarded-Host, X-Secret", "X-Secret: 1")
	if h = ears(t, body); h.Header.Get("X-Forwarded-For") != "127.0.0.1" || h.Header.Get("X-Forwarded-Host") != "web.localhost" || h.Header.Get("X-Secret") != "" {
		t.Errorf("named by Connection: %v", h.Header)
	}
	_, c = newProxy(t, &proxy.Proxy{BehindProxy: true})
	_, body = get(t, c, "GET", "http://web.localhost/", lies...)
	if h = ears(t, body); h.Header.Get("X-Forwarded-For") != "1.2.3.4, 127.0.0.1" || h.Header.Get("X-Forwarded-Proto") != "https" || h.Header.Get("X-Forwarded-Host") != "web.localhost" {
		t.Errorf("behind the operator's own: %v", h.Header)
	}
}

func TestFaults(t *testing.T) {
	web, c := newProxy(t, &proxy.Proxy{MaxRequests: 1})
	ask := func(url string, fields ...string) (int, string, string) {
		res, body := get(t, c, "GET", url, fields...)
		return res.StatusCode, res.Header.Get("Atoll-Reason"), body
	}
	web.open(70, "127.0.0.1:1") // listens inside, and can't be connected to
	for _, f := range []struct {
		url, reason string
		status      int
	}{
		{"http://nobody.localhost/", "not_found", 404},
		{"http://evil.com/", "misdirected", 421},
		{"http://localhost/", "misdirected", 421},
		{"http://4000-web.localhost/", "port_closed", 503},
		{"http://70-web.localhost/", "bad_answer", 502},
	} {
		if status, reason, body := ask(f.url); status != f.status || reason != f.reason || strings.Contains(body, "<") {
			t.Errorf("%s: %d %s: %s", f.url, status, reason, body)
		}
		if _, _, body := ask(f.url, "Accept: text/html,*/*"); !strings.HasPrefix(body, "<!doctype html>") {
			t.Errorf("%s in a browser: %s", f.url, body)
		}
		if _, _, body := ask(f.url, "Accept: application/json"); !strings.Contains(body, `"reason":"`+f.reason+`"`) {
			t.Errorf("%s for a program: %s", f.url, body)
		}
		if res, body := get(t, c, "HEAD", f.url); res.StatusCode != f.status || body != "" {
			t.Errorf("HEAD %s: %s %q", f.url, res.Status, body)
		}
	}
	for state, want := range map[atoll.State]string{atoll.Stopped: "not_running", atoll.Paused: "not_running", atoll.Starting: "not_running", atoll.Failed: "not_running", atoll.Destroyed: "not_found"} {
		web.set(state)
		c.CloseIdleConnections()
		if _, reason, body := ask("http://4000-web.localhost/"); reason != want {
			t.Errorf("%s: %s: %s", state, reason, body)
		}
	}
	web.set(atoll.Running)
	web.failed = fmt.Errorf("%w: the wire is cut", atoll.ErrUnavailable)
	if status, reason, body := ask("http://4000-web.localhost/"); status != 502 || reason != "unavailable" || strings.Contains(body, "wire") {
		t.Errorf("%d %s: %s", status, reason, body)
	}
}

// What a stranger chose does not become part of a page.
func TestPagesAreEscaped(t *testing.T) {
	_, c := newProxy(t, &proxy.Proxy{})
	res, body := get(t, c, "GET", "http://web.localhost/", "Host: \"><script>alert(1)</script>", "Accept: text/html")
	if strings.Contains(body, "<script") || res.StatusCode == http.StatusOK {
		t.Errorf("%s: %s", res.Status, body)
	}
	// Links of a page lead to the port that the browser came by.
	if _, links := get(t, c, "GET", "http://4000-web.localhost:7080/", "Accept: text/html"); !strings.Contains(links, `href="//3000-web.localhost:7080"`) {
		t.Errorf("%s", links)
	}
	res, body = get(t, c, "GET", "http://4000-web.localhost/"+strings.Repeat("%3Cscript%3E", 5), "Accept: text/html")
	if strings.Contains(body, "<script") || res.Header.Get("Content-Security-Policy") == "" || strings.Contains(body, "http:") {
		t.Errorf("%v: %s", res.Header, body)
	}
}

func TestRequestLimit(t *testing.T) {
	web, c := newProxy(t, &proxy.Proxy{MaxRequests: 2})
	began, finish := make(chan bool), make(chan bool)
	web.open(80, serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- true
		<-finish
	})))
	done := make(chan int)
	for range 2 {
		go func() {
			res, err := c.Get("http://80-web.localhost/")
			if err == nil {
				res.Body.Close()
			}
			done <- 1
		}()
		<-began
	}
	if res, _ := get(t, c, "GET", "http://80-web.localhost/"); res.Header.Get("Atoll-Reason") != "too_many" {
		t.Errorf("the third: %s", res.Status)
	}
	close(finish)
	<-done
	<-done
	if res, _ := get(t, c, "GET", "http://3000-web.localhost/"); res.StatusCode != http.StatusOK {
		t.Errorf("after them: %s", res.Status)
	}
}

// Close ends streams, and leaves nothing.
func TestCloseEndsStreams(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	web := newIsland("s1")
	backend, p := httptest.NewServer(site()), &proxy.Proxy{Finder: sea{"web": web}}
	defer backend.Close()
	web.open(3000, backend.Listener.Addr().String())
	front := httptest.NewServer(p)
	defer front.Close()
	c := browser(t, front.Listener.Addr().String())
	defer c.CloseIdleConnections()
	ws, _, err := websocket.Dial(t.Context(), "ws://web.localhost/ws", &websocket.DialOptions{HTTPClient: c})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(t.Context()); err == nil {
		t.Error("the stream continues")
	}
	if res, _ := get(t, c, "GET", "http://web.localhost/"); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after Close: %s", res.Status)
	}
}

func TestServeRefusesOpenListener(t *testing.T) {
	listen := func(address string) net.Listener {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	p := &proxy.Proxy{Finder: sea{}}
	defer p.Close()
	if err := p.Serve(t.Context(), listen("0.0.0.0:0"), proxy.ServeOptions{}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("on all addresses, without links: %v", err)
	}
	front := &proxy.Proxy{Finder: sea{}, BehindProxy: true}
	defer front.Close()
	if err := front.Serve(t.Context(), listen("127.0.0.1:0"), proxy.ServeOptions{}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("behind another proxy, without links: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l := listen("127.0.0.1:0")
	done := make(chan error)
	go func() { done <- p.Serve(ctx, l, proxy.ServeOptions{}) }()
	c := browser(t, l.Addr().String())
	if res, _ := get(t, c, "GET", "http://web.localhost/"); res.StatusCode != http.StatusNotFound {
		t.Errorf("served: %s", res.Status)
	}
	// With TLS it speaks HTTP/2, and names are what they were.
	ts := httptest.NewTLSServer(nil)
	ts.Close()
	secure := listen("127.0.0.1:0")
	secured := make(chan error)
	go func() {
		secured <- p.Serve(ctx, secure, proxy.ServeOptions{TLS: &tls.Config{Certificates: ts.TLS.Certificates}})
	}()
	c2 := browser(t, secure.Addr().String())
	c2.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	c2.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	if res, _ := get(t, c2, "GET", "https://web.localhost/"); res.StatusCode != http.StatusNotFound || res.ProtoMajor != 2 {
		t.Errorf("served with TLS: %s %s", res.Proto, res.Status)
	}
	cancel()
	if err := <-secured; err != nil {
		t.Errorf("Serve ended with %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve ended with %v", err)
	}
	if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
		conn.Close()
		t.Error("the listener is still open")
	}
}

// A sandbox without real programs has no ports, and its page says so.
func TestSandboxWithoutPorts(t *testing.T) {
	sb, err := (&virtual.Driver{}).Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sb.Destroy(context.WithoutCancel(t.Context())) }()
	p := &proxy.Proxy{Finder: sea{"web": proxy.NewTarget(sb, 0)}}
	t.Cleanup(func() { p.Close() })
	c := browser(t, serve(t, p))
	for _, host := range []string{"web.localhost", "3000-web.localhost"} {
		if res, body := get(t, c, "GET", "http://"+host+"/"); res.StatusCode != http.StatusNotImplemented || res.Header.Get("Atoll-Reason") != "unsupported" {
			t.Errorf("%s: %s: %s", host, res.Status, body)
		}
	}
}
