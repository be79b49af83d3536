package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

type localKey struct{}

type pipeKey struct{}

// isPipe reports whether a request came through [Pipe].
func isPipe(ctx context.Context) bool {
	pipe, _ := ctx.Value(pipeKey{}).(bool)
	return pipe
}

// isLocal reports whether a request came over a Unix socket or through [Pipe].
func isLocal(ctx context.Context) bool {
	local, _ := ctx.Value(localKey{}).(bool)
	return local
}

// isPublic reports whether a request needs no token: health checks, the console page and logins.
func isPublic(r *http.Request) bool {
	return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || isConsole(r) || isLogin(r) || isIssuer(r)
}

// bearerProtocol, followed by a token, is a subprotocol that a WebSocket request may list besides
// its own, as web pages can set no other header. It is never selected.
const bearerProtocol = "bearer.atoll."

// webSocketTokens returns the tokens among the subprotocols of a WebSocket request.
func webSocketTokens(r *http.Request) (shown []string) {
	if !hasHeaderToken(r.Header, "Upgrade", "websocket") {
		return nil
	}
	for _, v := range r.Header.Values("Sec-WebSocket-Protocol") {
		for word := range strings.SplitSeq(v, ",") {
			if secret, ok := strings.CutPrefix(strings.TrimSpace(word), bearerProtocol); ok {
				shown = append(shown, "Bearer "+secret)
			}
		}
	}
	return shown
}

// authenticateCall identifies the caller of a request by its token, or without one by the client certificate of its
// connection. On a local socket, a request without a token is the local user's.
func (s *Server) authenticateCall(r *http.Request, c *call) error {
	shown := r.Header.Values("Authorization")
	if key := r.Header.Values("X-Api-Key"); len(shown) == 0 && len(key) == 1 && dialectOf(r) != "" { // as Anthropic's clients send it
		shown = []string{"Bearer " + key[0]}
	}
	if len(shown) == 0 {
		shown = webSocketTokens(r)
	}
	if len(shown) == 0 && c.local {
		c.caller = fleet.LocalCaller()
		c.account = s.fleet.Account(c.caller)
		return nil
	}
	if len(shown) == 1 {
		scheme, secret, _ := strings.Cut(shown[0], " ")
		secret = strings.TrimSpace(secret)
		if strings.EqualFold(scheme, "Bearer") && secret != "" {
			caller, err := s.authenticateSecret(r, secret)
			if err == nil {
				c.caller, c.account = caller, s.fleet.Account(caller)
				return nil
			}
			if !errors.Is(err, atoll.ErrDenied) {
				return err
			}
		}
	}
	if len(shown) == 0 {
		caller, err := s.authenticateCertificate(r)
		if err == nil {
			c.caller, c.account = caller, s.fleet.Account(caller)
			return nil
		}
		if !errors.Is(err, atoll.ErrDenied) {
			return err
		}
	}
	s.metrics.authFailures.Inc()
	if err := s.callers.recordWrongToken(r); err != nil {
		return err
	}
	return &requestError{
		status: http.StatusUnauthorized, kind: "denied", header: http.Header{"Www-Authenticate": {`Bearer realm="atoll"`}},
		detail: "a valid token is needed: Authorization: Bearer TOKEN; 'atoll token create' creates one",
	}
}

// checkOrigin refuses requests that web pages of other origins make a browser send, including
// those through a host name that was pointed at this server.
func (s *Server) checkOrigin(r *http.Request) error {
	own := s.isOwnHost(r.Host)
	if !own && isLoopback(r) {
		return &requestError{
			status: http.StatusMisdirectedRequest, kind: "denied",
			detail: fmt.Sprintf("host %q: not a host name of this server; add it to the server's configuration", r.Host),
		}
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	for _, origin := range origins {
		if slices.Contains(s.opts.Origins, origin) {
			continue
		}
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !own || !strings.EqualFold(u.Host, r.Host) {
			return &requestError{
				status: http.StatusForbidden, kind: "denied",
				detail: fmt.Sprintf("origin %q: web pages of this origin may not call the server", origin),
			}
		}
	}
	return nil
}

// isOwnHost reports whether a Host header can't be controlled by others: an address, localhost, or
// a name in the options. Browsers always send one; a request without one is no browser's.
func (s *Server) isOwnHost(host string) bool {
	if host == "" {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if net.ParseIP(name) != nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	return slices.ContainsFunc(s.opts.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// isLoopback reports whether a request came to a loopback address.
func isLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}
