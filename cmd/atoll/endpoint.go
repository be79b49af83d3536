package main

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

// endpoint is a server and what is shown to it.
type endpoint struct {
	Host      string `json:"host"`
	Token     string `json:"-"`
	TokenFile string `json:"token_file,omitempty"`
	CA        string `json:"ca,omitempty"` // PEM file of certificates to trust besides the system's
	origin    string
}

// secret returns the token; empty if none is needed.
func (e endpoint) secret() (string, error) {
	if e.TokenFile == "" {
		return e.Token, nil
	}
	b, err := readSmall(e.TokenFile)
	if err != nil {
		return "", fmt.Errorf("token_file of %s: %w", e.origin, err)
	}
	t, err := parseToken(string(b))
	if err != nil {
		return "", fmt.Errorf("%w: token_file %s: %s", atoll.ErrInvalid, e.TokenFile, bare(err))
	}
	return t, nil
}

// check refuses to send a token where everybody on the way can read it.
func (e endpoint) check() error {
	u, err := url.Parse(e.Host)
	if err != nil {
		return err
	}
	if u.Scheme == "http" && (e.Token != "" || e.TokenFile != "") && !loopback(u.Hostname()) {
		return fmt.Errorf("%w: %s (%s) is not encrypted: the token could be read on the way; use https://, or a tunnel to a port of this machine", atoll.ErrDenied, e.Host, e.origin)
	}
	return nil
}

// parseHost reads https://HOST[:PORT][/PATH], http://… or unix:///PATH. A bare
// HOST[:PORT] means https, on this machine http; a bare path a unix socket.
func parseHost(text string) (string, error) {
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
		if u, err := url.Parse(full); err == nil && loopback(u.Hostname()) {
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

// loopback reports whether a host is this machine, reached without a wire.
func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// parseToken checks that a text could be a token. Its errors don't show it.
func parseToken(text string) (string, error) {
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
	return parsePath(text)
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
