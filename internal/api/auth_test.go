package api

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Whoever shows no good token is answered the same, everywhere, for whatever
// reason; only the two health checks are open.
func TestStrangers(t *testing.T) {
	s := newSite(t, Options{Limits: Limits{WrongTokens: -1}})
	good := s.token
	s.token = ""
	paths := []string{
		"/", "/v1/info", "/v1/sandboxes", "/v1/sandboxes/nope", "/v1/nope", "/v1/events", "/v1/tokens", "/metrics", "/openapi.json", "/openapi.yaml",
		"/v1/sandboxes?token=" + good, "/v1/sandboxes?access_token=" + good, "/docs", "/schemas/Info.json", "/debug/pprof/",
	}
	var want string
	for _, path := range paths {
		for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + good, good, "Bearer " + good + "x", "Bearer " + strings.ToUpper(good), "Bearer " + good + " " + good} {
			for _, method := range []string{"GET", "POST", "DELETE", "BREW"} {
				var headers []string
				if auth != "" {
					headers = append(headers, "Authorization: "+auth)
				}
				a := s.do(method, path, "", headers...)
				if a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") != `Bearer realm="atoll"` {
					t.Fatalf("%s %s with %q: %d %s", method, path, auth, a.status, a.body)
				}
				body := strings.Replace(a.body, a.header.Get("X-Request-Id"), "ID", 1)
				if want == "" {
					want = body
				}
				if body != want {
					t.Fatalf("%s %s with %q: %s, elsewhere %s", method, path, auth, body, want)
				}
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := s.do("GET", path, ""); a.status != http.StatusOK || a.body != "ok\n" {
			t.Errorf("%s: %d %q", path, a.status, a.body)
		}
	}
	s.token = good
	s.want(http.StatusOK, nil, "GET", "/v1/info", "", "Authorization: bearer "+good)
}

// A token that is revoked or expired is a wrong one at once.
func TestTokensEnd(t *testing.T) {
	s := newSite(t, Options{})
	var tok, soon atoll.Token
	s.want(http.StatusCreated, &tok, "POST", "/v1/tokens", `{"name":"ci","owner":{"app":"a","user":"b"},"scopes":["read"]}`)
	s.want(http.StatusCreated, &soon, "POST", "/v1/tokens", `{"scopes":["read"],"expires":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`)
	if tok.Secret == "" || tok.Owner != (atoll.Owner{App: "a", User: "b"}) {
		t.Fatalf("made %+v", tok)
	}
	admin := s.token
	s.token = tok.Secret
	var who atoll.Server
	s.want(http.StatusOK, &who, "GET", "/v1/info", "")
	if who.Owner != tok.Owner || len(who.Scopes) != 1 || who.Token != tok.ID || who.Version != "test" {
		t.Errorf("info says %+v", who)
	}
	if a := s.do("POST", "/v1/sandboxes", `{}`); a.status != http.StatusForbidden {
		t.Errorf("create with read only: %d %s", a.status, a.body)
	} else if p := a.problem(t); p.Kind != "denied" {
		t.Errorf("kind %q", p.Kind)
	}
	s.token = admin
	s.want(http.StatusNoContent, nil, "DELETE", "/v1/tokens/"+tok.ID, "")
	s.token = tok.Secret
	s.want(http.StatusUnauthorized, nil, "GET", "/v1/info", "")
	s.token = soon.Secret
	s.want(http.StatusOK, nil, "GET", "/v1/info", "")
	s.clock.Store(int64(2 * time.Hour))
	s.want(http.StatusUnauthorized, nil, "GET", "/v1/info", "")
}

// A browser that a foreign page uses, or a foreign name that points here, is
// refused before anybody looks at the token.
func TestBrowsers(t *testing.T) {
	s := newSite(t, Options{Hosts: []string{"atoll.example"}, Origins: []string{"https://console.example"}})
	own := strings.TrimPrefix(s.url, "http://")
	port := own[strings.LastIndex(own, ":"):]
	for _, c := range []struct {
		law, host, origin string
		status            int
	}{
		{"NoOrigin", own, "", 200},
		{"OwnOrigin", own, "http://" + own, 200},
		{"OwnName", "atoll.example" + port, "http://atoll.example" + port, 200},
		{"Localhost", "localhost" + port, "http://localhost" + port, 200},
		{"AllowedOrigin", own, "https://console.example", 200},
		{"ForeignOrigin", own, "https://evil.example", 403},
		{"NullOrigin", own, "null", 403},
		{"OtherPort", own, "http://127.0.0.1:1", 403},
		{"OtherLocalName", own, "http://localhost" + port, 403},
		{"Rebinding", "evil.example" + port, "http://evil.example" + port, 421},
		{"RebindingWithoutOrigin", "evil.example" + port, "", 421},
		{"RebindingWithADot", "evil.example." + port, "", 421},
		{"NameThatLooksOwn", "127.0.0.1.evil.example" + port, "", 421},
	} {
		t.Run(c.law, func(t *testing.T) {
			s := *s
			s.t = t
			headers := []string{"Host: " + c.host}
			if c.origin != "" {
				headers = append(headers, "Origin: "+c.origin)
			}
			if a := s.do("GET", "/v1/info", "", headers...); a.status != c.status {
				t.Errorf("%d %s, want %d", a.status, a.body, c.status)
			}
		})
	}
}

// Who guesses tokens is slowed down; who has one is not held up by it, from the
// same address too.
func TestGuessing(t *testing.T) {
	s := newSite(t, Options{})
	good := s.token
	s.token = "wrong"
	var last answer
	for range 25 {
		last = s.do("GET", "/v1/info", "")
	}
	if last.status != http.StatusTooManyRequests || last.header.Get("Retry-After") == "" {
		t.Errorf("after many guesses: %d %s", last.status, last.body)
	}
	s.token = good
	s.want(http.StatusOK, nil, "GET", "/v1/info", "")
}

// Behind a trusted proxy the one who guesses is slowed down, and no other client of the proxy.
func TestGuessingBehindProxy(t *testing.T) {
	s := newSite(t, Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	s.token = "wrong"
	var last answer
	for range 25 {
		last = s.do("GET", "/v1/info", "", "X-Forwarded-For: 198.51.100.1")
	}
	if last.status != http.StatusTooManyRequests {
		t.Errorf("after many guesses: %d %s", last.status, last.body)
	}
	if a := s.do("GET", "/v1/info", "", "X-Forwarded-For: 198.51.100.2"); a.status != http.StatusUnauthorized {
		t.Errorf("another client: %d %s", a.status, a.body)
	}
	if a := s.do("GET", "/v1/info", "", "X-Forwarded-For: 198.51.100.2, 198.51.100.1"); a.status != http.StatusTooManyRequests {
		t.Errorf("with an address of its own invention: %d %s", a.status, a.body)
	}
}

// On a socket of this machine's people no token is needed; one that is shown
// counts, and a wrong one is wrong.
func TestLocalCallers(t *testing.T) {
	s := newLocal(t, Options{})
	var who atoll.Server
	s.want(http.StatusOK, &who, "GET", "/v1/info", "")
	if who.Owner != atoll.Local || len(who.Scopes) != 4 || who.Token != "" {
		t.Errorf("without a token: %+v", who)
	}
	s.token = s.newToken(atoll.Owner{App: "a", User: "b"}, atoll.ScopeRead)
	s.want(http.StatusOK, &who, "GET", "/v1/info", "")
	if who.Owner.App != "a" || len(who.Scopes) != 1 || who.Token == "" {
		t.Errorf("with one: %+v", who)
	}
	s.want(http.StatusUnauthorized, nil, "GET", "/v1/info", "", "Authorization: Bearer wrong")
	s.want(http.StatusOK, nil, "GET", "/v1/info", "", "Origin: https://evil.example") // no browser reaches a unix socket
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/info", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header["Authorization"] = []string{"Bearer " + s.token, "Bearer " + s.token}
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("two tokens: %s", resp.Status)
	}
}

// What no server serves needs a token too: Handler trusts nobody.
func TestHandlerRequiresTokens(t *testing.T) {
	s := newFleet(t, Options{})
	w := &statusRecorder{header: make(http.Header)}
	r, err := http.NewRequestWithContext(t.Context(), "GET", "/v1/info", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.server.Handler().ServeHTTP(w, r)
	if w.status != http.StatusUnauthorized {
		t.Errorf("status %d", w.status)
	}
}
