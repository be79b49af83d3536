package api

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// isLogin reports whether a request is for the routes of logins, which need no token.
func isLogin(r *http.Request) bool {
	return r.URL.Path == "/login" || strings.HasPrefix(r.URL.Path, "/login/")
}

// registerLogins registers the routes of logins. They are not in the OpenAPI document, whose operations all need a
// token; docs/login.md describes them.
func (s *Server) registerLogins(mux *http.ServeMux) {
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /login":                     s.listLogins,
		"GET /login/{provider}":          s.beginLogin,
		"GET /login/{provider}/callback": s.finishLogin,
		"POST /login/claim":              s.claimLogin,
		"POST /login/token":              s.exchangeToken,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Referrer-Policy", "no-referrer") // the address of a callback has a code
			if err := serve(w, r); err != nil {
				s.writeProblem(w, r, err)
			}
		})
	}
}

// serveLogin dispatches a request for the routes of logins.
func (s *Server) serveLogin(w http.ResponseWriter, r *http.Request, c *call) error {
	if err := checkEncoding(r); err != nil {
		return err
	}
	h, pattern := s.mux.Handler(r)
	if pattern == "" {
		return s.routeError(h, r)
	}
	c.pattern = pattern
	s.mux.ServeHTTP(w, r)
	return nil
}

func (s *Server) listLogins(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, wire.List[atoll.LoginProvider]{Items: s.opts.Identity.Logins()})
}

// loginCookie returns the cookie that binds a login to a browser. It is sent when the provider sends the browser
// back, but with no request that another site makes. An empty secret removes it.
func (s *Server) loginCookie(secret string) *http.Cookie {
	c := &http.Cookie{Name: "atoll-login", Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int((10 * time.Minute).Seconds())}
	if s.opts.Identity.SecureURL() {
		c.Name, c.Secure = "__Host-atoll-login", true // a browser takes it from no other host
	}
	if secret == "" {
		c.MaxAge = -1
	}
	return c
}

// readLoginCookie returns the secret of the browser; empty: it has none, or two.
func (s *Server) readLoginCookie(r *http.Request) string {
	if list := r.CookiesNamed(s.loginCookie("").Name); len(list) == 1 {
		return list[0].Value
	}
	return ""
}

// beginLogin sends a browser to the page of a provider.
func (s *Server) beginLogin(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("provider")
	if !slices.ContainsFunc(s.opts.Identity.Logins(), func(p atoll.LoginProvider) bool { return p.Name == name && p.Browser }) {
		return &atoll.Error{Op: "login", Err: fmt.Errorf("%w: no login provider has this name", atoll.ErrNotFound)}
	}
	if err := s.callers.recordWrongToken(r); err != nil {
		return err
	}
	l, err := s.fleet.BeginLogin(r.Context(), name)
	if err != nil {
		return err
	}
	to, err := s.opts.Identity.LoginURL(r.Context(), name, l)
	if err != nil {
		return s.refuseLogin(w, r, name, err)
	}
	http.SetCookie(w, s.loginCookie(l.Browser))
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
	return nil
}

// finishLogin takes the answer of a provider, which a browser brings, and sends the browser to the console. The page
// claims the token, so that it is in no address. Nothing in the request chooses where the browser goes.
func (s *Server) finishLogin(w http.ResponseWriter, r *http.Request) error {
	name, q := r.PathValue("provider"), r.URL.Query()
	l, err := s.fleet.TakeLogin(r.Context(), s.readLoginCookie(r), name, q.Get("state"))
	if err != nil {
		return s.refuseLogin(w, r, name, err)
	}
	http.SetCookie(w, s.loginCookie(""))
	if code := q.Get("error"); code != "" {
		return s.refuseLogin(w, r, name, fmt.Errorf("%w: the provider refused: %q", atoll.ErrDenied, code[:min(len(code), 64)]))
	}
	id, err := s.opts.Identity.RedeemCode(r.Context(), l, q.Get("code"), q.Get("iss"))
	if err != nil {
		return s.refuseLogin(w, r, name, err)
	}
	browser, err := s.fleet.FinishLogin(r.Context(), id)
	if err != nil {
		return s.refuseLogin(w, r, name, err)
	}
	w.Header().Del("Set-Cookie")
	http.SetCookie(w, s.loginCookie(browser))
	s.redirectToConsole(w, "login")
	return nil
}

// redirectToConsole sends a browser to the console, with a word for the page.
func (s *Server) redirectToConsole(w http.ResponseWriter, word string) {
	w.Header().Set("Location", strings.TrimSuffix(s.opts.Identity.BasePath(), "/")+consolePath+"#"+word)
	w.WriteHeader(http.StatusFound)
}

// refuseLogin records a refused login and sends the browser to the console, which shows the kind of the reason.
func (s *Server) refuseLogin(w http.ResponseWriter, r *http.Request, provider string, reason error) error {
	if err := s.recordRefusal(r, provider, reason); err != nil {
		return err
	}
	word := wire.ReasonOf(reason).Kind
	if !slices.Contains([]string{"denied", "unavailable"}, word) {
		return reason
	}
	s.redirectToConsole(w, "login-"+word)
	return nil
}

// recordRefusal counts, logs and audits a refused login. It returns an error for an address with too many.
func (s *Server) recordRefusal(r *http.Request, provider string, reason error) error {
	s.metrics.authFailures.Inc()
	if err := s.callers.recordWrongToken(r); err != nil {
		return err
	}
	s.fleet.RecordRefusedLogin(provider, reason)
	s.log.WarnContext(r.Context(), "login refused", "id", callOf(r.Context()).id, "provider", provider, "err", reason)
	return nil
}

// claimLogin answers the console with the token of the login that its browser has finished, once.
func (s *Server) claimLogin(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") != "same-origin" {
		return &requestError{status: http.StatusForbidden, kind: "denied", detail: "only the console may take the token of a login"}
	}
	t, err := s.fleet.ClaimLogin(r.Context(), s.readLoginCookie(r))
	http.SetCookie(w, s.loginCookie(""))
	if err != nil {
		if refused := s.recordRefusal(r, "", err); refused != nil {
			return refused
		}
		return err
	}
	return writeJSON(w, http.StatusOK, exchangedToken(t))
}

func exchangedToken(t atoll.Token) wire.ExchangedToken {
	scopes := make([]string, len(t.Scopes))
	for i, s := range t.Scopes {
		scopes[i] = string(s)
	}
	return wire.ExchangedToken{
		AccessToken: t.Secret, IssuedType: wire.TokenTypeAccessToken, TokenType: "Bearer",
		ExpiresIn: int64(t.Expires.Sub(t.Created).Seconds()), Scope: strings.Join(scopes, " "),
	}
}

// maxExchange limits the body of a token exchange.
const maxExchange = 64 << 10

// exchangeToken gives a token of atoll for one of a provider, as RFC 8693 describes it.
func (s *Server) exchangeToken(w http.ResponseWriter, r *http.Request) error {
	form, err := s.readForm(w, r)
	if err != nil {
		return err
	}
	if code, text := checkExchange(form); code != "" {
		return writeJSON(w, http.StatusBadRequest, wire.OAuthError{Code: code, Description: text})
	}
	var scopes []atoll.Scope
	for word := range strings.FieldsSeq(form.Get("scope")) {
		scopes = append(scopes, atoll.Scope(word))
	}
	if err := atoll.CheckScopes(scopes); len(scopes) > 0 && err != nil {
		return writeJSON(w, http.StatusBadRequest, wire.OAuthError{Code: "invalid_scope", Description: "scope: " + err.Error()})
	}
	id, err := s.opts.Identity.VerifyToken(r.Context(), form.Get("subject_token"))
	var t atoll.Token
	if err == nil {
		t, err = s.fleet.OpenSession(r.Context(), id, scopes)
	}
	if err == nil {
		return writeJSON(w, http.StatusOK, exchangedToken(t))
	}
	if refused := s.recordRefusal(r, id.Provider, err); refused != nil {
		return refused
	}
	if errors.Is(err, atoll.ErrDenied) {
		return writeJSON(w, http.StatusBadRequest, wire.OAuthError{Code: "invalid_grant", Description: err.Error()})
	}
	return hideProviderError(err)
}

// hideProviderError returns an error that tells a stranger no addresses behind the server. The log has the cause.
func hideProviderError(err error) error {
	if errors.Is(err, atoll.ErrUnavailable) {
		return &atoll.Error{Op: "login", Err: fmt.Errorf("%w: the login provider does not answer; the server's log has the reason", atoll.ErrUnavailable)}
	}
	return err
}

func (s *Server) readForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, newRequestError(http.StatusUnsupportedMediaType, "Content-Type %q: must be application/x-www-form-urlencoded", r.Header.Get("Content-Type"))
	}
	if b, ok := r.Body.(*requestBody); ok && s.limits.BodyTime > 0 {
		b.end = time.Now().Add(s.limits.BodyTime)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxExchange)
	if err := r.ParseForm(); err != nil {
		return nil, bodyError(err)
	}
	return r.PostForm, nil
}

// checkExchange reports what is wrong with a token exchange, as a code of RFC 6749 and a text.
func checkExchange(form url.Values) (code, text string) {
	for name, values := range form {
		if len(values) > 1 {
			return "invalid_request", fmt.Sprintf("%q occurs %d times", name, len(values))
		}
	}
	switch {
	case form.Get("grant_type") != wire.GrantTokenExchange:
		return "unsupported_grant_type", "grant_type must be " + wire.GrantTokenExchange
	case form.Get("subject_token") == "":
		return "invalid_request", "subject_token must be a token of a login provider"
	case !slices.Contains([]string{wire.TokenTypeIDToken, wire.TokenTypeJWT}, form.Get("subject_token_type")):
		return "invalid_request", "subject_token_type must be " + wire.TokenTypeIDToken + " or " + wire.TokenTypeJWT
	case !slices.Contains([]string{"", wire.TokenTypeAccessToken}, form.Get("requested_token_type")):
		return "invalid_request", "requested_token_type must be absent or " + wire.TokenTypeAccessToken
	case form.Has("actor_token"):
		return "invalid_request", "actor_token is not supported"
	}
	return "", ""
}

// authenticateIdentity identifies the caller of a request by a token of a provider.
func (s *Server) authenticateIdentity(r *http.Request, secret string) (fleet.Caller, error) {
	id, err := s.opts.Identity.VerifyToken(r.Context(), secret)
	if err == nil {
		return s.fleet.AuthenticateIdentity(r.Context(), id)
	}
	if errors.Is(err, atoll.ErrUnavailable) { // perhaps to a stranger, whose token nobody can check
		if err := s.callers.recordWrongToken(r); err != nil {
			return fleet.Caller{}, err
		}
		s.log.WarnContext(r.Context(), "login provider", "id", callOf(r.Context()).id, "err", err)
	}
	return fleet.Caller{}, hideProviderError(err)
}

// authenticateCertificate identifies the caller of a request by the client certificate of its connection, which TLS
// has verified. Without one the error is ErrDenied.
func (s *Server) authenticateCertificate(r *http.Request) (fleet.Caller, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.PeerCertificates) == 0 {
		return fleet.Caller{}, atoll.ErrDenied
	}
	id, err := s.opts.Identity.VerifyCertificate(r.TLS.PeerCertificates[0])
	if err != nil {
		return fleet.Caller{}, err
	}
	return s.fleet.AuthenticateIdentity(r.Context(), id)
}

// authenticateSecret identifies the caller of a request by the secret of its header: a token of atoll, or one of a
// login provider.
func (s *Server) authenticateSecret(r *http.Request, secret string) (fleet.Caller, error) {
	if identity.LooksLikeToken(secret) {
		return s.authenticateIdentity(r, secret)
	}
	return s.fleet.Authenticate(r.Context(), secret)
}
