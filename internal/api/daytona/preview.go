package daytona

import (
	"errors"
	"net/http"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerPreviews registers the routes of URLs of ports.
func (s *Server) registerPreviews() {
	s.addSandbox("GET", "/ports/{port}/preview-url", s.getPreview)
	s.addSandbox("GET", "/ports/{port}/signed-preview-url", s.signPreview)
	s.addSandbox("POST", "/ports/{port}/signed-preview-url/{token}/expire", s.expirePreview)
}

// Times that links to ports are valid.
const (
	previewTime    = 24 * time.Hour
	signedSeconds  = 60
	maxSignedLinks = int(atoll.MaxRouteLink / time.Second)
)

// portURL returns the URL of a port of a sandbox.
func (s *Server) portURL(c *call, sb *fleet.Sandbox) (port int, url string, err error) {
	if port, err = parseNumber("port", c.r.PathValue("port"), 0, 1, 65535); err != nil {
		return 0, "", err
	}
	if s.opts.Routes == nil {
		return 0, "", unsupportedError("previews of a server without a proxy ('atoll serve --proxy ADDRESS' has one)")
	}
	_, url, err = s.opts.Routes.Address.ForRemote().URL(sb.ID(), port)
	return port, url, err
}

// getPreview answers with the URL of a port, and with the token of a link to it. The token is empty if the
// proxy is open to all programs of this machine, and to no others.
func (s *Server) getPreview(c *call, sb *fleet.Sandbox) error {
	port, url, err := s.portURL(c, sb)
	if err != nil {
		return err
	}
	token := ""
	if s.opts.Routes.Access != nil {
		l, err := s.opts.Routes.CreateLink(c.r.Context(), c.a, sb.ID(), port, time.Now().Add(previewTime))
		if err != nil {
			return err
		}
		token = l.Secret
	}
	return c.writeJSON(http.StatusOK, map[string]string{"sandboxId": sb.ID(), "url": url, "token": token})
}

// signPreview answers with a URL of a port that has its token, and expires. The token is the id of the link,
// by which it can be ended earlier.
func (s *Server) signPreview(c *call, sb *fleet.Sandbox) error {
	port, _, err := s.portURL(c, sb)
	if err != nil {
		return err
	}
	seconds, err := c.readNumber("expiresInSeconds", signedSeconds, 1, maxSignedLinks)
	if err != nil {
		return err
	}
	l, err := s.opts.Routes.CreateLink(c.r.Context(), c.a, sb.ID(), port, time.Now().Add(time.Duration(seconds)*time.Second))
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"sandboxId": sb.ID(), "port": port, "token": l.ID, "url": l.URL})
}

// expirePreview ends a signed URL.
func (s *Server) expirePreview(c *call, sb *fleet.Sandbox) error {
	ctx := c.r.Context()
	links, err := c.a.RouteLinks(ctx)
	if err != nil {
		return err
	}
	token := c.r.PathValue("token")
	missing := &Error{Status: http.StatusNotFound, Message: "signed preview token not found"}
	for _, l := range links {
		if l.ID == token && l.Sandbox == sb.ID() {
			err := c.a.RevokeRouteLink(ctx, l.ID)
			if errors.Is(err, atoll.ErrNotFound) {
				return missing
			}
			return c.writeEmpty(http.StatusOK, err)
		}
	}
	return missing
}
