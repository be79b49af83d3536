package server

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

// isPipe reports whether a request came from this process.
func isPipe(ctx context.Context) bool {
	pipe, _ := ctx.Value(pipeKey{}).(bool)
	return pipe
}

// isLocal reports whether a request came over a unix socket or from this
// process.
func isLocal(ctx context.Context) bool {
	local, _ := ctx.Value(localKey{}).(bool)
	return local
}

// open reports whether a request needs no token: whether the server is well may
// be asked by all, and the page is the same for all.
func open(r *http.Request) bool {
	return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || isPage(r)
}

// bearerProtocol, with a token behind it, is a subprotocol that a WebSocket may
// ask for beside its own: pages can send no other header. It is never chosen.
const bearerProtocol = "bearer.atoll."

// shownIn returns the token that a WebSocket's request shows among its
// subprotocols.
func shownIn(r *http.Request) (shown []string) {
	if !hasToken(r.Header, "Upgrade", "websocket") {
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

// authenticate finds out who calls. Without a token that is nobody, but on a
// local socket the people of this machine.
func (s *Server) authenticate(r *http.Request, c *call) error {
	shown := r.Header.Values("Authorization")
	if key := r.Header.Values("X-Api-Key"); len(shown) == 0 && len(key) == 1 && dialectOf(r) != "" { // as Anthropic's clients show it
		shown = []string{"Bearer " + key[0]}
	}
	if len(shown) == 0 {
		shown = shownIn(r)
	}
	if len(shown) == 0 && c.local {
		c.caller = fleet.LocalCaller()
		c.account = s.fleet.For(c.caller)
		return nil
	}
	if len(shown) == 1 {
		scheme, secret, _ := strings.Cut(shown[0], " ")
		secret = strings.TrimSpace(secret)
		if strings.EqualFold(scheme, "Bearer") && secret != "" {
			caller, err := s.fleet.Authenticate(r.Context(), secret)
			if err == nil {
				c.caller, c.account = caller, s.fleet.For(caller)
				return nil
			}
			if !errors.Is(err, atoll.ErrDenied) {
				return err
			}
		}
	}
	s.metrics.strangers.Inc()
	if err := s.callers.guessed(r); err != nil {
		return err
	}
	return &refusal{
		status: http.StatusUnauthorized, kind: "denied", header: http.Header{"Www-Authenticate": {`Bearer realm="atoll"`}},
		detail: "a good token is needed: Authorization: Bearer TOKEN; 'atoll token create' makes one",
	}
}

// checkOrigin refuses what a web page of somebody else makes a browser send,
// also through a name that was made to point here.
func (s *Server) checkOrigin(r *http.Request) error {
	own := s.ownHost(r.Host)
	if !own && onLoopback(r) {
		return &refusal{status: http.StatusMisdirectedRequest, kind: "denied",
			detail: fmt.Sprintf("host %q: this server is not called so, unless its configuration says it is", r.Host)}
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
			return &refusal{status: http.StatusForbidden, kind: "denied",
				detail: fmt.Sprintf("origin %q: web pages from there may not call this server", origin)}
		}
	}
	return nil
}

// ownHost reports whether a Host header is one that nobody else can make point
// here: an address, localhost, or a name that the options have. Browsers always
// send one; who sends none is no browser.
func (s *Server) ownHost(host string) bool {
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

// onLoopback reports whether a request came to an address of this machine only.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}
