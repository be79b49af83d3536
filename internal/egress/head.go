package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// Limits of the head of a request.
const (
	maxHead   = 64 << 10
	maxFields = 256
)

// head is the head of an HTTP/1 request. It is parsed strictly: a request that two parsers could
// understand differently is refused.
type head struct {
	method string
	target string
	minor  int // minor version of HTTP/1
	fields http.Header
	host   string // value of the Host field
	length int64  // length of the body; -1: chunked
}

// badRequest is the description of a malformed request.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// readHead reads the bytes of a head including its empty line.
func readHead(r *bufio.Reader) ([]byte, error) {
	var b []byte
	for {
		line, err := r.ReadSlice('\n')
		b = append(b, line...)
		if len(b) > maxHead {
			return nil, badRequest(fmt.Sprintf("the head has more than %d bytes", maxHead))
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return b, err
		}
		if bytes.HasSuffix(b, []byte("\r\n\r\n")) || bytes.HasSuffix(b, []byte("\n\n")) || bytes.Equal(b, []byte("\r\n")) {
			return b, nil
		}
	}
}

// parseHead parses a head.
func parseHead(b []byte) (*head, error) {
	text, ok := strings.CutSuffix(string(b), "\r\n\r\n")
	if !ok {
		return nil, badRequest("lines must end in CR LF")
	}
	lines := strings.Split(text, "\r\n")
	if len(lines)-1 > maxFields {
		return nil, badRequest(fmt.Sprintf("more than %d fields", maxFields))
	}
	h := &head{fields: make(http.Header)}
	parts := strings.Split(lines[0], " ")
	if len(parts) != 3 || len(parts[0]) > 32 || !httpguts.ValidHeaderFieldName(parts[0]) || parts[1] == "" {
		return nil, badRequest("the request line is not METHOD TARGET HTTP/1.1")
	}
	h.method, h.target = parts[0], parts[1]
	switch parts[2] {
	case "HTTP/1.1":
		h.minor = 1
	case "HTTP/1.0":
	default:
		return nil, badRequest("the version is not HTTP/1.1 or HTTP/1.0")
	}
	for i := range len(h.target) {
		if c := h.target[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`\#<>`, c) >= 0 {
			return nil, badRequest("the target has characters that are invalid in a URL")
		}
	}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !httpguts.ValidHeaderFieldName(name) {
			return nil, badRequest("a field is not NAME: VALUE")
		}
		if value = strings.Trim(value, " \t"); !httpguts.ValidHeaderFieldValue(value) {
			return nil, badRequest("the value of a field has control characters")
		}
		h.fields.Add(name, value)
	}
	return h, h.parseFraming()
}

// parseFraming parses the fields that determine how the message is read.
func (h *head) parseFraming() error {
	hosts := h.fields["Host"]
	switch {
	case len(hosts) == 1 && hosts[0] != "":
		h.host = hosts[0]
	case len(hosts) > 0:
		return badRequest("Host must occur once and not be empty")
	case h.minor == 1:
		return badRequest("Host is missing")
	}
	length, coding := h.fields["Content-Length"], h.fields["Transfer-Encoding"]
	switch {
	case len(length) > 1 || len(coding) > 1:
		return badRequest("the length of the body is given twice")
	case len(length) == 1 && len(coding) == 1:
		return badRequest("both Content-Length and Transfer-Encoding")
	case len(coding) == 1:
		if h.minor == 0 || !strings.EqualFold(coding[0], "chunked") {
			return badRequest("a transfer coding that is not chunked")
		}
		h.length = -1
	case len(length) == 1:
		n, err := strconv.ParseUint(length[0], 10, 63)
		if err != nil || length[0][0] == '+' {
			return badRequest("Content-Length is not a number")
		}
		h.length = int64(n)
	}
	for _, up := range h.fields["Upgrade"] {
		if !strings.EqualFold(up, "websocket") || len(h.fields["Upgrade"]) > 1 {
			h.fields.Del("Upgrade") // a server may ignore an upgrade; so the request continues without it
			break
		}
	}
	return nil
}

// isWebSocketUpgrade reports whether the request asks for a WebSocket.
func (h *head) isWebSocketUpgrade() bool {
	return h.method == http.MethodGet && h.length == 0 && h.fields.Get("Upgrade") != "" &&
		httpguts.HeaderValuesContainsToken(h.fields["Connection"], "upgrade")
}

// keepsAlive reports whether the connection stays open after the request.
func (h *head) keepsAlive() bool {
	all := append(h.fields["Connection"], h.fields["Proxy-Connection"]...)
	if h.minor == 0 {
		return httpguts.HeaderValuesContainsToken(all, "keep-alive")
	}
	return !httpguts.HeaderValuesContainsToken(all, "close")
}

// splitHostPort parses HOST[:PORT]. The port is 0 if there is none.
func splitHostPort(text string) (string, uint16, error) {
	var host, port string
	var ok bool
	if end := strings.LastIndexByte(text, ']'); end >= 0 {
		host = text[:end+1]
		port, ok = strings.CutPrefix(text[end+1:], ":")
		if !ok && end+1 < len(text) {
			return "", 0, badRequest("the host is not HOST or HOST:PORT")
		}
	} else {
		host, port, ok = strings.Cut(text, ":")
	}
	var n uint64
	if ok {
		var err error
		if n, err = strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", 0, badRequest("the port is not 1 to 65535")
		}
	}
	h, err := policy.CanonicalHost(host)
	if err != nil {
		return "", 0, badRequest(fmt.Sprintf("the host %q is invalid", truncate(host)))
	}
	return h, uint16(n), nil
}

// originURL returns the URL of a request on a connection to a host.
func (h *head) originURL(scheme, host string, port uint16) (*url.URL, error) {
	if h.host != "" {
		own, p, err := splitHostPort(h.host)
		if err != nil {
			return nil, err
		}
		if own != host || p != 0 && p != port {
			return nil, mismatch{own, p}
		}
	}
	u := &url.URL{Path: "*"}
	if h.target != "*" || h.method != http.MethodOptions {
		var err error
		if u, err = url.ParseRequestURI(h.target); err != nil || h.target[0] != '/' {
			return nil, badRequest("the target is not a path")
		}
	}
	u.Scheme, u.Host = scheme, net.JoinHostPort(host, strconv.Itoa(int(port)))
	return u, nil
}

// mismatch is the error of a request for another host than the connection's.
type mismatch struct {
	host string
	port uint16
}

func (e mismatch) Error() string {
	if e.port == 0 {
		return "the request is for " + e.host
	}
	return fmt.Sprintf("the request is for %s:%d", e.host, e.port)
}

// proxyURL returns the URL of a request to a proxy, with its host and port.
func (h *head) proxyURL() (*url.URL, string, uint16, error) {
	u, err := url.Parse(h.target)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Host == "" || u.Opaque != "" {
		return nil, "", 0, badRequest("a proxy request must be for http://HOST/PATH, or CONNECT HOST:PORT")
	}
	host, port, err := splitHostPort(u.Host)
	if err != nil {
		return nil, "", 0, err
	}
	if h.host != "" {
		if own, p, err := splitHostPort(h.host); err != nil || own != host || or80(p) != or80(port) {
			return nil, "", 0, badRequest("the Host is not that of the URL")
		}
	}
	port = or80(port)
	u.Host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	if u.Path == "" {
		u.Path = "/"
	}
	return u, host, port, nil
}

func or80(port uint16) uint16 {
	if port == 0 {
		return 80
	}
	return port
}
