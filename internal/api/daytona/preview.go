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

// Where programs send the token of a preview: the port key of the sandbox.
const (
	PreviewHeader = "X-Daytona-Preview-Token"
	PreviewParam  = "DAYTONA_SANDBOX_AUTH_KEY"
)

// Times that signed URLs of ports are valid, in seconds.
const (
	signedSeconds    = 60
	maxSignedSeconds = int(atoll.MaxRouteLink / time.Second)
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

// getPreview answers with the URL of a port, and with the token that programs send, unless the ports are
// public.
func (s *Server) getPreview(c *call, sb *fleet.Sandbox) error {
	_, url, err := s.portURL(c, sb)
	if err != nil {
		return err
	}
	token, err := sb.PortKey(c.r.Context())
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]string{"sandboxId": sb.ID(), "url": url, "token": token})
}

// signPreview answers with a URL of one port that needs no token, and expires. By the token in its host name
// it can be ended earlier.
func (s *Server) signPreview(c *call, sb *fleet.Sandbox) error {
	port, _, err := s.portURL(c, sb)
	if err != nil {
		return err
	}
	seconds, err := c.readNumber("expiresInSeconds", signedSeconds, 1, maxSignedSeconds)
	if err != nil {
		return err
	}
	l, err := s.opts.Routes.CreateHostLink(c.r.Context(), c.a, sb.ID(), port, time.Now().Add(time.Duration(seconds)*time.Second))
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"sandboxId": sb.ID(), "port": port, "token": l.Secret, "url": l.URL})
}

// expirePreview ends a signed URL.
func (s *Server) expirePreview(c *call, sb *fleet.Sandbox) error {
	ctx := c.r.Context()
	missing := &Error{Status: http.StatusNotFound, Message: "signed preview token not found"}
	port, err := parseNumber("port", c.r.PathValue("port"), 0, 1, 65535)
	if err != nil {
		return err
	}
	token := c.r.PathValue("token")
	of, err := s.opts.Fleet.FindRouteLinkHost(ctx, token, port)
	if err != nil {
		return err
	}
	id, ok := fleet.RouteLinkID(token)
	if !ok || of != sb.ID() {
		return missing
	}
	err = c.a.RevokeRouteLink(ctx, id)
	if errors.Is(err, atoll.ErrNotFound) {
		return missing
	}
	return c.writeEmpty(http.StatusOK, err)
}
