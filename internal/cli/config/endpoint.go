package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/atoll-sandbox/atoll"
)

// Whether connections need a client certificate.
const (
	CertificateRequired = "required"
	CertificateOptional = "optional"
)

// Endpoint is a server and what is shown to it.
type Endpoint struct {
	Host      string `json:"host"`
	Token     string `json:"-"`
	TokenFile string `json:"token_file,omitempty"`
	CA        string `json:"ca,omitempty"`   // PEM file of certificates to trust besides the system's
	Cert      string `json:"cert,omitempty"` // PEM file of the client certificate
	Key       string `json:"key,omitempty"`  // PEM file of its key
	Origin    string
}

// Secret returns the token; empty if none is needed.
func (e Endpoint) Secret() (string, error) {
	if e.TokenFile == "" {
		return e.Token, nil
	}
	b, err := ReadSmallFile(e.TokenFile)
	if err != nil {
		return "", fmt.Errorf("token_file of %s: %w", e.Origin, err)
	}
	t, err := ParseToken(string(b))
	if err != nil {
		return "", fmt.Errorf("%w: token_file %s: %s", atoll.ErrInvalid, e.TokenFile, TextWithoutKind(err))
	}
	return t, nil
}

// Check refuses to send a token where everybody on the way can read it.
func (e Endpoint) Check() error {
	u, err := url.Parse(e.Host)
	if err != nil {
		return err
	}
	if u.Scheme == "http" && (e.Token != "" || e.TokenFile != "") && !IsLoopback(u.Hostname()) {
		return fmt.Errorf("%w: %s (%s) is not encrypted: the token could be read on the way; use https://, or a tunnel to a port of this machine", atoll.ErrDenied, e.Host, e.Origin)
	}
	return nil
}

// ParseHost reads https://HOST[:PORT][/PATH], http://… or unix:///PATH. A bare
// HOST[:PORT] means https, on this machine http; a bare path a unix socket.
func ParseHost(text string) (string, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok || strings.HasPrefix(text, "/") {
		path = "/" + strings.TrimLeft(path, "/")
		if !ok {
			path = text
		}
		if path == "/" || strings.IndexByte(path, 0) >= 0 {
			return "", errors.New("must name the socket: unix:///PATH")
		}
		return "unix://" + filepath.Clean(path), nil
	}
	full := text
	if !strings.Contains(text, "://") {
		full = "https://" + text
		if u, err := url.Parse(full); err == nil && IsLoopback(u.Hostname()) {
			full = "http://" + text
		}
	}
	u, err := url.Parse(full)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "" || strings.ContainsFunc(text, unicode.IsSpace),
		u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("must be https://HOST[:PORT], http://HOST[:PORT] or unix:///PATH")
	case u.User != nil:
		return "", errors.New("must not hold a user or password: give the token to 'atoll login' or $ATOLL_TOKEN")
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("must not hold '?' or '#'")
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// IsLoopback reports whether a host is this machine, reached without a wire.
func IsLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// ParseToken checks that a text could be a token. Its errors don't show it.
func ParseToken(text string) (string, error) {
	t := strings.TrimSpace(text)
	if t == "" {
		return "", errors.New("the token is empty")
	}
	for _, r := range t {
		if r <= ' ' || r > '~' {
			return "", errors.New("a token has no spaces and only plain letters, digits and signs")
		}
	}
	return t, nil
}

// parseFilePath reads the path of a file as a configuration file names it.
func parseFilePath(text string) (string, error) {
	if !filepath.IsAbs(text) && !strings.HasPrefix(text, "~/") {
		return "", errors.New("must be absolute, or begin with ~/")
	}
	return ParsePath(text)
}

// parseListen reads HOST:PORT to listen on; a bare :PORT is refused, since it
// means all the world.
func parseListen(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil || port == "" {
		return "", errors.New("must be HOST:PORT, like 127.0.0.1:8484")
	}
	if host == "" {
		return "", errors.New("must name the address: 127.0.0.1" + text + " for this machine only, 0.0.0.0" + text + " for every network")
	}
	return text, nil
}

// Target says where commands go: the name of a context, or the endpoint that
// --host or $ATOLL_HOST names. Neither means this machine.
func (c *Config) Target() (name string, e Endpoint, err error) {
	host, chosen := c.Settings["host"], c.Settings["context"]
	if host.Key != nil && chosen.Key != nil {
		switch {
		case Precedence(host) == Precedence(chosen):
			return "", e, fmt.Errorf("%w: %s and %s both say where to go: give one of them", atoll.ErrInvalid, host.Origin, chosen.Origin)
		case Precedence(host) > Precedence(chosen):
			chosen = Setting{}
		default:
			host = Setting{}
		}
	}
	token := Get[string](c, "token")
	if host.Key != nil {
		e = Endpoint{Host: Get[string](c, "host"), Token: token, Origin: host.Origin}
		return "", e, e.Check()
	}
	if chosen.Key == nil || chosen.Texts[0] == Local {
		return Local, e, nil
	}
	name = chosen.Texts[0]
	e, ok := c.Contexts[name]
	if !ok {
		return name, e, fmt.Errorf("%s: %w", chosen.Origin, c.UnknownContext(name))
	}
	if token != "" {
		e.Token, e.TokenFile = token, ""
	}
	return name, e, e.Check()
}

// Precedence orders the sources of a setting.
func Precedence(s Setting) int {
	switch {
	case strings.HasPrefix(s.Origin, "--"):
		return 2
	case strings.HasPrefix(s.Origin, "$"):
		return 1
	}
	return 0
}
