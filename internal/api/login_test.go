package api

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
	"github.com/atoll-sandbox/atoll/internal/testing/issuertest"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// loginSite is a server with a login provider.
type loginSite struct {
	*site

	issuer *issuertest.Issuer
	log    *lockedBuffer
}

func newLoginSite(t *testing.T) *loginSite {
	t.Helper()
	s := &loginSite{issuer: issuertest.New(t), log: new(lockedBuffer)}
	s.issuer.SetUser(map[string]any{"sub": "alice", "groups": []string{"developers"}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	providers := map[string]*identity.Provider{"company": {Issuer: s.issuer.URL, ClientID: issuertest.ClientID, Rules: []identity.Rule{
		{Group: "developers", Grant: identity.Grant{Owner: "company/{sub}", Role: atoll.RoleUser}},
	}}}
	now := func() time.Time {
		if s.site == nil {
			return time.Now()
		}
		return time.Now().Add(time.Duration(s.clock.Load()))
	}
	s.site = newFleet(t, Options{
		Log:      slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Limits:   Limits{WrongTokens: -1},
		Identity: identity.New(identity.Options{Providers: providers, URL: "http://" + l.Addr().String(), Now: now}),
	})
	s.serve(l)
	s.url = "http://" + l.Addr().String()
	s.issuer.Now = now
	s.client = http.DefaultClient
	return s
}

// browser is a browser that follows no redirect by itself.
type browser struct {
	*http.Client

	s *loginSite
}

func (s *loginSite) newBrowser() *browser {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &browser{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, s}
}

func (b *browser) send(method, target string, header ...string) answer {
	b.s.t.Helper()
	if strings.HasPrefix(target, "/") {
		target = b.s.url + target
	}
	r, err := http.NewRequestWithContext(b.s.t.Context(), method, target, nil)
	if err != nil {
		b.s.t.Fatal(err)
	}
	for _, h := range header {
		k, v, _ := strings.Cut(h, ": ")
		if k == "Host" {
			r.Host = v
		}
		r.Header.Set(k, v)
	}
	resp, err := b.Do(r)
	if err != nil {
		b.s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// begin begins a login and returns the address to which the provider sends the browser back.
func (b *browser) begin(header ...string) (callback string) {
	b.s.t.Helper()
	a := b.send("GET", "/login/company", header...)
	if a.status != http.StatusFound {
		b.s.t.Fatalf("begin: %d %s", a.status, a.body)
	}
	a = b.send("GET", a.header.Get("Location"))
	if a.status != http.StatusFound {
		b.s.t.Fatalf("provider: %d %s", a.status, a.body)
	}
	return a.header.Get("Location")
}

// open opens an address and returns where the browser is sent.
func (b *browser) open(target string) string {
	b.s.t.Helper()
	a := b.send("GET", target)
	if a.status != http.StatusFound {
		b.s.t.Fatalf("%s: %d %s", target, a.status, a.body)
	}
	return a.header.Get("Location")
}

// claim takes the token as the console does.
func (b *browser) claim() (answer, wire.ExchangedToken) {
	b.s.t.Helper()
	a := b.send("POST", "/login/claim", "Origin: "+b.s.url)
	var t wire.ExchangedToken
	if a.status == http.StatusOK {
		if err := json.Unmarshal([]byte(a.body), &t); err != nil {
			b.s.t.Fatal(err)
		}
	}
	return a, t
}

const (
	loggedIn     = "/ui/#login"
	loginDenied  = "/ui/#login-denied"
	loginOffline = "/ui/#login-unavailable"
)

// who returns the owner of a token; empty: it is not valid.
func (s *loginSite) who(token string) string {
	s.t.Helper()
	s.token = token
	defer func() { s.token = "" }()
	a := s.do("GET", "/v1/info", "")
	if a.status != http.StatusOK {
		return ""
	}
	var info atoll.Server
	if err := json.Unmarshal([]byte(a.body), &info); err != nil {
		s.t.Fatal(err)
	}
	return info.Owner.String()
}

func TestLoginInConsole(t *testing.T) {
	s := newLoginSite(t)
	var list wire.List[atoll.LoginProvider]
	s.want(http.StatusOK, &list, "GET", "/login", "")
	if len(list.Items) != 1 || list.Items[0].Name != "company" || !list.Items[0].Browser {
		t.Errorf("providers: %+v", list)
	}
	b := s.newBrowser()
	callback := b.begin()
	if to := b.open(callback); to != loggedIn {
		t.Fatalf("sent to %s", to)
	}
	a, tok := b.claim()
	if a.status != http.StatusOK || a.header.Get("Cache-Control") != "no-store" || tok.Scope != "read run" || tok.ExpiresIn != int64((12*time.Hour).Seconds()) {
		t.Fatalf("claim: %d %+v", a.status, tok)
	}
	if got := s.who(tok.AccessToken); got != "company/alice" {
		t.Errorf("owner %q", got)
	}
	if a, _ := b.claim(); a.status != http.StatusForbidden {
		t.Errorf("claimed twice: %d", a.status)
	}
	all, err := s.fleet.Account(fleet.LocalCaller()).Tokens(t.Context())
	if err != nil || len(all) != 1 || all[0].Provider != "company" || all[0].Subject != "alice" {
		t.Errorf("tokens: %+v %v", all, err)
	}
	audit, err := s.fleet.Account(fleet.LocalCaller()).Audit(t.Context(), fleet.AuditFilter{AllOwners: true, Action: "login"})
	if err != nil || len(audit) != 2 || audit[1].Owner.String() != "company/alice" || audit[1].Outcome != "ok" || !strings.Contains(audit[1].Detail, "provider company, subject alice") {
		t.Errorf("audit: %+v %v", audit, err)
	}
	code, _ := url.Parse(callback)
	for _, secret := range []string{tok.AccessToken, code.Query().Get("code"), code.Query().Get("state"), "eyJ"} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log has a secret:\n%s", s.log)
		}
	}
	s.clock.Store(int64(13 * time.Hour))
	if got := s.who(tok.AccessToken); got != "" {
		t.Errorf("the token is valid after its lifetime: %s", got)
	}
}

// Attacks on a login in a browser: none leads to a token.
func TestLoginAttacks(t *testing.T) {
	for law, attack := range map[string]func(s *loginSite, victim, attacker *browser){
		"StateReplay": func(s *loginSite, victim, _ *browser) {
			callback := victim.begin()
			victim.open(callback)
			victim.claim()
			if to := victim.open(callback); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
		},
		"ForgedState": func(s *loginSite, victim, _ *browser) {
			u, _ := url.Parse(victim.begin())
			q := u.Query()
			q.Set("state", strings.Repeat("A", 26))
			u.RawQuery = q.Encode()
			if to := victim.open(u.String()); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
		},
		"NoState": func(s *loginSite, victim, _ *browser) {
			victim.begin()
			if to := victim.open("/login/company/callback?code=x"); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
		},
		"LoginCSRF": func(s *loginSite, victim, attacker *browser) { // the victim would work in the attacker's account
			if to := victim.open(attacker.begin()); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
		},
		"LoginCSRFDuringLogin": func(s *loginSite, victim, attacker *browser) {
			victim.begin()
			if to := victim.open(attacker.begin()); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
		},
		"CodeInjection": func(s *loginSite, victim, attacker *browser) { // a stolen code in the attacker's own login
			stolen, _ := url.Parse(victim.begin())
			own, _ := url.Parse(attacker.begin())
			q := own.Query()
			q.Set("code", stolen.Query().Get("code"))
			own.RawQuery = q.Encode()
			if to := attacker.open(own.String()); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
		},
		"NonceReplay": func(s *loginSite, victim, _ *browser) { // the provider's token is of another login
			s.issuer.SetUser(map[string]any{"sub": "alice", "groups": "developers", "nonce": "of-another-login"})
			if to := victim.open(victim.begin()); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
		},
		"NoNonce": func(s *loginSite, victim, _ *browser) {
			s.issuer.SetUser(map[string]any{"sub": "alice", "groups": "developers", "nonce": ""})
			if to := victim.open(victim.begin()); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
		},
		"OtherIssuerAnswers": func(s *loginSite, victim, _ *browser) { // mix-up (RFC 9207)
			if to := victim.open(victim.begin() + "&iss=https%3A%2F%2Fevil.test"); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
		},
		"SessionFixation": func(s *loginSite, victim, attacker *browser) { // the attacker has planted its cookie
			callback := attacker.begin()
			u, _ := url.Parse(s.url)
			planted := attacker.Jar.Cookies(u)
			victim.Jar.SetCookies(u, planted)
			if to := victim.open(callback); to != loggedIn {
				s.t.Fatalf("sent to %s", to)
			}
			attacker.Jar.SetCookies(u, planted)
			if a, _ := attacker.claim(); a.status != http.StatusForbidden {
				s.t.Errorf("the attacker got the token: %d", a.status)
			}
		},
		"ClaimFromAnotherSite": func(s *loginSite, victim, _ *browser) {
			victim.open(victim.begin())
			for _, header := range []string{"Origin: https://evil.test", "Origin: null", "Accept: */*", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Sec-Fetch-Site: none"} {
				if a := victim.send("POST", "/login/claim", header); a.status != http.StatusForbidden {
					s.t.Errorf("%s: %d %s", header, a.status, a.body)
				}
			}
			if a := victim.send("GET", "/login/claim"); a.status == http.StatusOK {
				s.t.Errorf("GET: %d", a.status)
			}
		},
		"LateCallback": func(s *loginSite, victim, _ *browser) {
			callback := victim.begin()
			s.clock.Store(int64(11 * time.Minute))
			if to := victim.open(callback); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
		},
		"LateClaim": func(s *loginSite, victim, _ *browser) {
			victim.open(victim.begin())
			s.clock.Store(int64(3 * time.Minute))
			if a, _ := victim.claim(); a.status != http.StatusForbidden {
				s.t.Errorf("claim: %d", a.status)
			}
		},
		"UnknownGroup": func(s *loginSite, victim, _ *browser) {
			s.issuer.SetUser(map[string]any{"sub": "alice", "groups": []string{"visitors"}})
			if to := victim.open(victim.begin()); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
			if a, _ := victim.claim(); a.status != http.StatusForbidden {
				s.t.Errorf("claim: %d", a.status)
			}
		},
		"UserRefuses": func(s *loginSite, victim, _ *browser) {
			u, _ := url.Parse(victim.begin())
			q := u.Query()
			q.Del("code")
			q.Set("error", "access_denied")
			q.Set("error_description", "<script>")
			u.RawQuery = q.Encode()
			if to := victim.open(u.String()); to != loginDenied {
				s.t.Errorf("sent to %s", to)
			}
		},
		"ProviderDownAtBegin": func(s *loginSite, victim, _ *browser) {
			victim.begin()
			s.issuer.SetDown(true)
			s.clock.Store(int64(11 * time.Second)) // until then its discovery document counts
			if to := victim.open("/login/company"); to != loginOffline {
				s.t.Errorf("sent to %s", to)
			}
		},
		"ProviderDown": func(s *loginSite, victim, _ *browser) {
			callback := victim.begin()
			s.issuer.SetDown(true)
			if to := victim.open(callback); to != loginOffline {
				s.t.Errorf("sent to %s", to)
			}
		},
	} {
		t.Run(law, func(t *testing.T) {
			s := newLoginSite(t)
			attack(s, s.newBrowser(), s.newBrowser())
			all, err := s.fleet.Account(fleet.LocalCaller()).Tokens(t.Context())
			if want := map[bool]int{true: 1}[law == "StateReplay"]; err != nil || len(all) != want {
				t.Errorf("%d tokens were given, want %d: %+v %v", len(all), want, all, err)
			}
		})
	}
}

// Nothing in a request chooses where a browser is sent: not parameters, not the host name.
func TestLoginRedirectsAreFixed(t *testing.T) {
	s := newLoginSite(t)
	b := s.newBrowser()
	a := b.send("GET", "/login/company?next=https://evil.test&return_to=//evil.test&redirect_uri=https://evil.test", "X-Forwarded-Host: evil.test", "X-Forwarded-Proto: https", "Forwarded: host=evil.test")
	to, err := url.Parse(a.header.Get("Location"))
	if err != nil || !strings.HasPrefix(to.String(), s.issuer.URL+"/authorize?") {
		t.Fatalf("sent to %s", to)
	}
	q := to.Query()
	if q.Get("redirect_uri") != s.url+"/login/company/callback" || q.Get("code_challenge_method") != "S256" || len(q.Get("state")) < 26 || len(q.Get("nonce")) < 26 || q.Get("state") == q.Get("nonce") {
		t.Errorf("asked for %v", q)
	}
	if a := b.send("GET", "/login/company", "Host: evil.test"); a.status != http.StatusMisdirectedRequest {
		t.Errorf("another host name: %d %s", a.status, a.header.Get("Location"))
	}
	c := a.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=600"} {
		if !strings.Contains(c, want) {
			t.Errorf("cookie %s: no %s", c, want)
		}
	}
	if to := b.open(b.begin() + "&next=https://evil.test&return_to=//evil.test"); to != loggedIn {
		t.Errorf("sent to %s", to)
	}
	for _, path := range []string{"/login/other", "/login/company/callback/x", "/login/%2e%2e/ui", "/login//evil.test", "/login/claim", "/login/"} {
		if a := b.send("GET", path); a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d %s", path, a.status, a.header.Get("Location"))
		}
	}
}

// The cookie of a server that browsers reach by https can't be set by other hosts of its domain.
func TestLoginCookieIsOfHost(t *testing.T) {
	s := newFleet(t, Options{Identity: identity.New(identity.Options{URL: "https://atoll.test/base"})})
	c := s.server.loginCookie("x")
	if c.Name != "__Host-atoll-login" || !c.Secure || c.Path != "/" || c.Domain != "" || !c.HttpOnly {
		t.Errorf("%s", c)
	}
}

func (s *loginSite) exchange(token string, more ...string) (answer, wire.ExchangedToken, wire.OAuthError) {
	s.t.Helper()
	form := url.Values{"grant_type": {wire.GrantTokenExchange}, "subject_token": {token}, "subject_token_type": {wire.TokenTypeJWT}}
	for _, m := range more {
		k, v, _ := strings.Cut(m, "=")
		form.Set(k, v)
	}
	a := s.do("POST", "/login/token", form.Encode(), "Content-Type: application/x-www-form-urlencoded")
	var t wire.ExchangedToken
	var e wire.OAuthError
	var into any = &e
	if a.status == http.StatusOK {
		into = &t
	}
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
	return a, t, e
}

func TestTokenExchange(t *testing.T) {
	s := newLoginSite(t)
	developer := map[string]any{"groups": "developers"}
	token := s.issuer.Sign(developer)
	a, tok, e := s.exchange(token)
	if a.status != http.StatusOK || tok.TokenType != "Bearer" || tok.IssuedType != wire.TokenTypeAccessToken || s.who(tok.AccessToken) != "company/alice" {
		t.Fatalf("%d %+v %+v", a.status, tok, e)
	}
	_, less, _ := s.exchange(token, "scope=read")
	if less.Scope != "read" {
		t.Errorf("scope=read: %+v", less)
	}
	for _, k := range []struct {
		law, token string
		more       []string
		want       string
	}{
		{"MoreScopes", token, []string{"scope=read admin"}, "invalid_grant"},
		{"UnknownScope", token, []string{"scope=root"}, "invalid_scope"},
		{"OtherGrant", token, []string{"grant_type=password"}, "unsupported_grant_type"},
		{"OtherType", token, []string{"subject_token_type=urn:ietf:params:oauth:token-type:saml2"}, "invalid_request"},
		{"Actor", token, []string{"actor_token=x"}, "invalid_request"},
		{"NoToken", "", nil, "invalid_request"},
		{"TokenOfAtoll", tok.AccessToken, nil, "invalid_grant"},
		{"WrongAudience", s.issuer.Sign(map[string]any{"groups": "developers", "aud": "other"}), nil, "invalid_grant"},
		{"WrongIssuer", s.issuer.Sign(map[string]any{"groups": "developers", "iss": "https://evil.test"}), nil, "invalid_grant"},
		{"UnknownGroup", s.issuer.Sign(map[string]any{"groups": "visitors"}), nil, "invalid_grant"},
		{"Expired", s.issuer.Sign(map[string]any{"groups": "developers", "exp": time.Now().Add(-time.Hour).Unix()}), nil, "invalid_grant"},
	} {
		if a, _, e := s.exchange(k.token, k.more...); a.status != http.StatusBadRequest || e.Code != k.want || strings.Contains(a.body, "eyJ") {
			t.Errorf("%s: %d %s, want %s", k.law, a.status, a.body, k.want)
		}
	}
	s.want(http.StatusUnsupportedMediaType, nil, "POST", "/login/token", `{"grant_type":"x"}`)
	s.want(http.StatusForbidden, nil, "POST", "/login/token", "grant_type=x", "Content-Type: application/x-www-form-urlencoded", "Origin: https://evil.test")

	s.issuer.SetDown(true)
	s.clock.Store(int64(2 * time.Hour))
	if a, _, _ := s.exchange(s.issuer.Sign(developer)); a.status != http.StatusServiceUnavailable || strings.Contains(a.body, s.issuer.URL) {
		t.Errorf("provider down: %d %s", a.status, a.body)
	}
	if s.who(tok.AccessToken) != "company/alice" {
		t.Error("a session ended with its provider")
	}
	if strings.Contains(s.log.String(), "eyJ") || strings.Contains(s.log.String(), tok.AccessToken) {
		t.Errorf("the log has a secret:\n%s", s.log)
	}
	refused, err := s.fleet.Account(fleet.LocalCaller()).Audit(t.Context(), fleet.AuditFilter{AllOwners: true, Action: "login"})
	if err != nil || refused[0].Outcome != "unavailable" || refused[1].Outcome != "denied" || strings.Contains(refused[1].Detail, "eyJ") {
		t.Errorf("audit: %+v %v", refused, err)
	}
}

// Who has lost its token can't get another one with the same token of the provider.
func TestRevokedLogin(t *testing.T) {
	s := newLoginSite(t)
	admin := s.fleet.Account(fleet.LocalCaller())
	token := s.issuer.Sign(map[string]any{"groups": "developers"})
	_, tok, _ := s.exchange(token)
	var made atoll.Token
	s.token = tok.AccessToken
	s.want(http.StatusCreated, &made, "POST", "/v1/tokens", `{"scopes":["run"]}`)
	s.token = ""
	if made.Expires.IsZero() || time.Until(made.Expires) > 12*time.Hour {
		t.Errorf("a token of a session expires %v", made.Expires)
	}
	list, err := admin.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.RevokeToken(t.Context(), list[0].ID); err != nil {
		t.Fatal(err)
	}
	if got := s.who(tok.AccessToken) + s.who(made.Secret) + s.who(token); got != "" {
		t.Errorf("after the revocation: %s", got)
	}
	if a, _, e := s.exchange(token); a.status != http.StatusBadRequest || !strings.Contains(e.Description, "revoked") {
		t.Errorf("exchanged again: %d %s", a.status, a.body)
	}
	if _, again, _ := s.exchange(s.issuer.Sign(map[string]any{"groups": "developers", "jti": "2"})); s.who(again.AccessToken) != "company/alice" {
		t.Error("a new login gave nothing")
	}
}

// A token of the provider is accepted as it is, with the rights of the rules and the end of its own.
func TestTokenOfProvider(t *testing.T) {
	s := newLoginSite(t)
	admin := s.fleet.Account(fleet.LocalCaller())
	token := s.issuer.Sign(map[string]any{"groups": "developers"})
	for range 2 {
		if s.who(token) != "company/alice" {
			t.Fatal("it is not accepted")
		}
	}
	list, err := admin.Tokens(t.Context())
	if err != nil || len(list) != 1 || list[0].Provider != "company" || list[0].Expires.IsZero() {
		t.Fatalf("tokens: %+v %v", list, err)
	}
	s.token = token
	var made atoll.Token
	s.want(http.StatusCreated, &made, "POST", "/v1/tokens", `{"scopes":["run"]}`)
	if made.Expires.After(list[0].Expires) || made.Expires.IsZero() {
		t.Errorf("a token made with it outlives it: %v", made.Expires)
	}
	s.want(http.StatusForbidden, nil, "POST", "/v1/tokens", `{"role":"admin"}`)
	for law, other := range map[string]string{
		"UnknownGroup": s.issuer.Sign(map[string]any{"groups": "visitors"}),
		"AnyAudience":  s.issuer.Sign(map[string]any{"groups": "developers", "aud": "other"}),
		"Garbage":      "eyJhbGciOiJub25lIn0.e30.",
	} {
		if got := s.who(other); got != "" {
			t.Errorf("%s: %s", law, got)
		}
	}
	// A stream that it has opened ends with it.
	s.token = token
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.client.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("events: %v", err)
	}
	defer resp.Body.Close()
	if err := admin.RevokeToken(t.Context(), list[0].ID); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // it ends, with whatever error
	if got := s.who(token) + s.who(made.Secret); got != "" {
		t.Errorf("after the revocation: %s", got)
	}
	fresh := s.issuer.Sign(map[string]any{"groups": "developers", "jti": "2"})
	if s.who(fresh) == "" {
		t.Error("a new one is not accepted")
	}
	s.clock.Store(int64(61 * time.Minute))
	if got := s.who(fresh); got != "" {
		t.Errorf("after it has expired: %s", got)
	}
}

// A client certificate gives what the configuration says, and nothing if it says nothing.
func TestClientCertificate(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	files := &TLSFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "ca"), ClientOptional: true}
	cert, key := a.issue("server")
	write(t, files.Cert, cert)
	write(t, files.Key, key)
	write(t, files.ClientCA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
	s := newFleet(t, Options{Identity: identity.New(identity.Options{Certificates: map[string]*identity.Certificate{
		"build": {CommonName: "build", Grant: identity.Grant{Owner: "ci/build", Role: atoll.RoleUser}},
	}})})
	l, err := ListenTCP(t.Context(), "127.0.0.1:0", files)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(l)
	s.url = "https://" + l.Addr().String()
	as := func(by *authority, names ...string) {
		t.Helper()
		c := &tls.Config{RootCAs: a.pool()}
		for _, name := range names {
			cert, key := by.issue(name)
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = append(c.Certificates, pair)
		}
		s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: c}}
		t.Cleanup(s.client.CloseIdleConnections)
	}
	as(a)
	s.want(http.StatusUnauthorized, nil, "GET", "/v1/info", "")
	as(a, "stranger")
	s.want(http.StatusUnauthorized, nil, "GET", "/v1/info", "")
	as(a, "build")
	var info atoll.Server
	s.want(http.StatusOK, &info, "GET", "/v1/info", "")
	if info.Owner.String() != "ci/build" || info.Token == "" {
		t.Fatalf("%+v", info)
	}
	var made atoll.Token
	s.want(http.StatusCreated, &made, "POST", "/v1/tokens", `{"scopes":["run"]}`)
	if made.Expires.IsZero() || made.Expires.After(a.cert.NotAfter.Add(time.Minute)) {
		t.Errorf("a token made with it outlives it: %v", made.Expires)
	}
	s.token = s.newToken(atoll.Owner{App: "app", User: "alice"}, atoll.ScopeRead)
	if s.want(http.StatusOK, &info, "GET", "/v1/info", ""); info.Owner.String() != "app/alice" {
		t.Errorf("with a token: %+v", info)
	}
	s.token = "atoll_wrong"
	s.want(http.StatusUnauthorized, nil, "GET", "/v1/info", "") // the certificate does not help a wrong token
	s.token = ""
	if s.want(http.StatusOK, &info, "GET", "/v1/info", ""); info.Owner.String() != "ci/build" {
		t.Fatalf("%+v", info)
	}
	if err := s.fleet.Account(fleet.LocalCaller()).RevokeToken(t.Context(), info.Token); err != nil {
		t.Fatal(err)
	}
	s.want(http.StatusUnauthorized, nil, "GET", "/v1/info", "")
	as(newAuthority(t), "build")
	if resp, err := s.client.Get(s.url + "/v1/info"); err == nil {
		_ = resp.Body.Close()
		t.Error("a certificate of another authority was accepted")
	}
}

// While a provider does not answer, nobody can check its tokens: strangers who show invented ones are slowed and fill no
// log, as those with wrong tokens.
func TestInventedTokensWithoutProvider(t *testing.T) {
	s := newLoginSite(t)
	s.server.callers.limits.WrongTokens = 2
	s.issuer.SetDown(true)
	s.token = s.issuer.Sign(map[string]any{"groups": "developers"})
	statuses := make(map[int]int)
	for range 20 { // the limiter may grant one more in a second
		statuses[s.do("GET", "/v1/sandboxes", "").status]++
	}
	if statuses[http.StatusServiceUnavailable] < 2 || statuses[http.StatusTooManyRequests] == 0 || len(statuses) != 2 {
		t.Errorf("answers: %v", statuses)
	}
	if n := strings.Count(s.log.String(), `msg="login provider"`); n != statuses[http.StatusServiceUnavailable] {
		t.Errorf("%d lines of the log for %v", n, statuses)
	}
}
