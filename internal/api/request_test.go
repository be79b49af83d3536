package api

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newLocal starts a server on a unix socket, where no token is needed.
func newLocal(t testing.TB, opts Options) *site {
	t.Helper()
	s := newFleet(t, opts)
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(l)
	s.url = "http://atoll"
	s.client = &http.Client{Transport: &http.Transport{DialContext: dialUnix(path)}}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

func TestBadRequests(t *testing.T) {
	s := newLocal(t, Options{})
	deep := strings.Repeat(`{"labels":`, 40) + "1" + strings.Repeat("}", 40)
	for _, c := range []struct {
		law                string
		method, path, body string
		headers            []string
		status             int
		says               string // in the problem
	}{
		{law: "UnknownPath", method: "GET", path: "/nope", status: 404, says: "/openapi.json"},
		{law: "UnknownPathBelow", method: "GET", path: "/v1/sandboxes/x/y/z", status: 404},
		{law: "Root", method: "GET", path: "/", status: 404},
		{law: "Method", method: "PUT", path: "/v1/sandboxes", body: "{}", status: 405, says: "GET, HEAD, POST"},
		{law: "StrangeMethod", method: "BREW", path: "/v1/sandboxes", status: 405},
		{law: "Options", method: "OPTIONS", path: "/v1/sandboxes", status: 405},
		{law: "SlashAtTheEnd", method: "GET", path: "/v1/sandboxes/", status: 404},
		{law: "EmptyPart", method: "GET", path: "/v1//sandboxes", status: 404},
		{law: "Dots", method: "GET", path: "/v1/sandboxes/../tokens", status: 404},
		{law: "EncodedDots", method: "GET", path: "/v1/sandboxes/%2e%2e/tokens", status: 404},
		{law: "EncodedSlashes", method: "GET", path: "/v1/sandboxes/a%2f..%2fb", status: 404},
		{law: "NULInPath", method: "GET", path: "/v1/sandboxes/a%00b", status: 400, says: "NUL"},
		{law: "InvalidUTF8InPath", method: "GET", path: "/v1/sandboxes/a%ffb", status: 400, says: "UTF-8"},
		{law: "InvalidUTF8InQuery", method: "GET", path: "/v1/sandboxes?name=%ff", status: 400, says: "UTF-8"},
		{law: "NULInQuery", method: "GET", path: "/v1/sandboxes?name=%00", status: 400, says: "NUL"},
		{law: "BadEscapeInQuery", method: "GET", path: "/v1/sandboxes?name=%zz", status: 400},
		{law: "SemicolonInQuery", method: "GET", path: "/v1/sandboxes?a=1;b=2", status: 400},
		{law: "DuplicateQuery", method: "GET", path: "/v1/sandboxes?name=a&name=b", status: 400, says: "query.name"},
		{law: "UnknownQuery", method: "GET", path: "/v1/sandboxes?nmae=a", status: 422, says: "query.nmae"},
		{law: "UnknownQueryOfAStream", method: "GET", path: "/v1/events?folow=false", status: 422, says: "query.folow"},
		{law: "QueryOfTheWrongType", method: "GET", path: "/v1/sandboxes?all=perhaps", status: 422, says: "query.all"},
		{law: "QueryOutOfRange", method: "GET", path: "/v1/audit?limit=99999999999999999999", status: 422, says: "query.limit"},
		{law: "QueryOfNoState", method: "GET", path: "/v1/sandboxes?state=running&state=runing", status: 422, says: "query.state"},
		{law: "LongURL", method: "GET", path: "/v1/sandboxes?name=" + strings.Repeat("a", 20_000), status: 414},
		{law: "LongHeader", method: "GET", path: "/v1/sandboxes", headers: []string{"X-Long: " + strings.Repeat("a", 40_000)}, status: 431},
		{law: "NoJSON", method: "POST", path: "/v1/sandboxes", body: "hello", status: 400, says: "not JSON"},
		{law: "HalfJSON", method: "POST", path: "/v1/sandboxes", body: `{"name":"a`, status: 400, says: "ends unexpectedly after 10 bytes"},
		{law: "TrailingGarbage", method: "POST", path: "/v1/sandboxes", body: `{"name":"a"} {}`, status: 400, says: "unexpected data after"},
		{law: "TwoTimesTheSame", method: "POST", path: "/v1/sandboxes", body: `{"limits":{"cpu":1,"cpu":2}}`, status: 400, says: "body.limits.cpu"},
		{law: "DeepJSON", method: "POST", path: "/v1/sandboxes", body: deep, status: 400, says: "deep"},
		{law: "InvalidUTF8", method: "POST", path: "/v1/sandboxes", body: "{\"name\":\"a\xff\"}", status: 400, says: "UTF-8"},
		{law: "NoObject", method: "POST", path: "/v1/sandboxes", body: `[1]`, status: 422, says: "body"},
		{law: "Null", method: "POST", path: "/v1/sandboxes", body: `null`, status: 422, says: "body"},
		{law: "NoBody", method: "POST", path: "/v1/sandboxes", status: 400, says: "body"},
		{law: "UnknownField", method: "POST", path: "/v1/sandboxes", body: `{"nmae":"a"}`, status: 422, says: "nmae"},
		{law: "WrongCase", method: "POST", path: "/v1/sandboxes", body: `{"Name":"a"}`, status: 422, says: "Name"},
		{law: "WrongType", method: "POST", path: "/v1/sandboxes", body: `{"limits":{"memory":"much"}}`, status: 422, says: "body.limits.memory"},
		{law: "Fraction", method: "POST", path: "/v1/sandboxes", body: `{"limits":{"memory":1.5}}`, status: 422, says: "body.limits.memory"},
		{law: "HugeNumber", method: "POST", path: "/v1/sandboxes", body: `{"limits":{"memory":99999999999999999999}}`, status: 422, says: "limits.memory"},
		{law: "HugeExponent", method: "POST", path: "/v1/sandboxes", body: `{"limits":{"cpu":1e999}}`, status: 400, says: "limits.cpu"},
		{law: "EndlessNumber", method: "POST", path: "/v1/sandboxes", body: `{"limits":{"cpu":1.` + strings.Repeat("1", 200) + `}}`, status: 400, says: "digits"},
		{law: "BadName", method: "POST", path: "/v1/sandboxes", body: `{"name":"../x"}`, status: 422, says: "name"},
		{law: "WrongContentType", method: "POST", path: "/v1/sandboxes", body: `{}`, headers: []string{"Content-Type: text/plain"}, status: 415},
		{law: "FormContentType", method: "POST", path: "/v1/sandboxes", body: `{}`, headers: []string{"Content-Type: application/x-www-form-urlencoded"}, status: 415},
		{law: "NoContentType", method: "POST", path: "/v1/sandboxes", body: `{}`, headers: []string{"Content-Type: "}, status: 415},
		{law: "OtherCharset", method: "POST", path: "/v1/sandboxes", body: `{}`, headers: []string{"Content-Type: application/json; charset=utf-16"}, status: 415},
		{law: "CompressedBody", method: "POST", path: "/v1/sandboxes", body: `{}`, headers: []string{"Content-Encoding: gzip"}, status: 415},
		{law: "LargeBody", method: "POST", path: "/v1/sandboxes", body: `{"image":"` + strings.Repeat("a", 2<<20) + `"}`, status: 413},
		{law: "NoSnapshotNamed", method: "POST", path: "/v1/sandboxes/x/restore", body: `{}`, status: 422, says: "snapshot"},
		{law: "BadOwner", method: "PUT", path: "/v1/quotas/a/-b", body: `{}`, status: 422, says: "user"},
		{law: "BadScopes", method: "POST", path: "/v1/tokens", body: `{"scopes":["root"]}`, status: 422, says: "scopes"},
		{law: "OtherPoolNamed", method: "PUT", path: "/v1/pools/a", body: `{"name":"b","size":-1}`, status: 422, says: "body.size"},
		{law: "BadEventID", method: "GET", path: "/v1/events", headers: []string{"Last-Event-ID: x"}, status: 422, says: "Last-Event-ID"},
		{law: "BadTime", method: "GET", path: "/v1/events?since=yesterday", status: 422, says: "query.since"},
	} {
		t.Run(c.law, func(t *testing.T) {
			s := *s
			s.t = t
			a := s.do(c.method, c.path, c.body, c.headers...)
			if a.status != c.status {
				t.Fatalf("%d %s, want %d", a.status, a.body, c.status)
			}
			p := a.problem(t)
			if !strings.Contains(a.body, c.says) {
				t.Errorf("%s does not say %q", a.body, c.says)
			}
			if c.status == 405 && a.header.Get("Allow") == "" {
				t.Errorf("405 without Allow")
			}
			for _, inner := range []string{"server.go", "goroutine", "json: ", "huma", "Go struct", "Go value"} {
				if strings.Contains(a.body, inner) {
					t.Errorf("%s shows internals: %q", p.Detail, inner)
				}
			}
		})
	}
}

// All mistakes are told at once: those of the types and those that only the
// configuration knows of, each with its place.
func TestAllMistakesAtOnce(t *testing.T) {
	s := newLocal(t, Options{})
	p := s.do("POST", "/v1/sandboxes", `{
		"name": "-", "dir": "here", "nmae": 1, "limits": {"memory": "much"}, "env": ["X"],
		"mounts": [{"source": "a", "target": "/etc"}], "lifecycle": {"policy": "forever"}}`).problem(t)
	var all []string
	for _, d := range p.Errors {
		all = append(all, d.Location+": "+d.Message)
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{
		"body.name: ", "body.dir: ", "body.nmae: ", "body.limits.memory: ", "body.env[0]: ",
		"body.mounts[0].source: ", "body.mounts[0].target: ", "body.lifecycle.policy: ",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want %q once in\n%s", want, text)
		}
	}
}

// What a caller sends is not echoed where it may be a secret.
func TestProblemsDontEchoSecrets(t *testing.T) {
	s := newLocal(t, Options{})
	for _, body := range []string{
		`{"secrets":{"K":"hunter2","=":"hunter2"}}`, `{"secrets":{"K":["hunter2"]}}`, `{"env":[["hunter2"]]}`, `{"secrets":"hunter2"}`, `{"a":"hunter2"`,
	} {
		if a := s.do("POST", "/v1/sandboxes", body); strings.Contains(a.body, "hunter2") || a.status < 400 {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

// A request that is not HTTP at all ends in a 400 or a closed connection, never
// in silence.
func TestBrokenHTTP(t *testing.T) {
	s := newFleet(t, Options{Limits: Limits{HeaderTime: 200 * time.Millisecond, Stall: 200 * time.Millisecond, BodyTime: 300 * time.Millisecond}})
	l, err := ListenTCP(t.Context(), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(l)
	for _, c := range []struct{ law, send, want string }{
		{"Garbage", "hello\r\n\r\n", "HTTP/1.1 400"},
		{"NoHost", "GET /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
		{"TwoHosts", "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "HTTP/1.1 400"},
		{"HTTP2Preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""},
		{"OldHTTP", "GET /healthz HTTP/1.0\r\n\r\n", "HTTP/1.0 200"},
		{"NoVersion", "GET /healthz\r\n\r\n", "HTTP/1.1 400"},
		{"FoldedHeader", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nA: b\r\n c\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 400"},
		{"TwoLengths", "POST /v1/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "HTTP/1.1 400"},
		{"LengthAndChunks", "POST /v1/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 4"},
		{"StrangeTransferEncoding", "POST /v1/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501"},
		{"AbsoluteURL", "GET http://example.com/v1/info HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 421"},
		{"Star", "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 4"},
		{"Connect", "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\nConnection: close\r\n\r\n", "HTTP/1.1 4"},
		{"SlowHeaders", "GET /healthz HTTP/1.1\r\nHost: 127", ""},
		{"HugeHeaders", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nA: " + strings.Repeat("a", 2<<20), "HTTP/1.1 431"},
	} {
		t.Run(c.law, func(t *testing.T) {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = fmt.Fprint(conn, c.send) }() // the server may hang up before the end
			line, err := bufio.NewReader(conn).ReadString('\n')
			if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
				t.Fatal("silence")
			}
			if !strings.HasPrefix(line, c.want) {
				t.Errorf("answered %q, want %q", line, c.want)
			}
		})
	}
}
