package gate

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

	"github.com/atoll-sandbox/atoll/internal/gate/policy"
)

// Bounds of a request's head.
const (
	maxHead   = 64 << 10
	maxFields = 256
)

// head is that of an HTTP/1 request. It is read by the letter: what two readers
// could understand in two ways is refused.
type head struct {
	method string
	target string
	minor  int // of HTTP/1
	fields http.Header
	host   string // of the Host field, as it stands
	length int64  // of the body; -1: in chunks
}

// badRequest says what is wrong with a request.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// readHead reads the bytes of a head, to the end of its empty line.
func readHead(r *bufio.Reader) ([]byte, error) {
	var b []byte
	for {
		line, err := r.ReadSlice('\n')
		b = append(b, line...)
		if len(b) > maxHead {
			return nil, badRequest(fmt.Sprintf("a head of more than %d bytes", maxHead))
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

// parseHead reads a head.
func parseHead(b []byte) (*head, error) {
	text, ok := strings.CutSuffix(string(b), "\r\n\r\n")
	if !ok {
		return nil, badRequest("lines end in CR LF")
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
			return nil, badRequest("the target holds what no URL does")
		}
	}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !httpguts.ValidHeaderFieldName(name) {
			return nil, badRequest("a field is not NAME: VALUE")
		}
		if value = strings.Trim(value, " \t"); !httpguts.ValidHeaderFieldValue(value) {
			return nil, badRequest("the value of a field holds control characters")
		}
		h.fields.Add(name, value)
	}
	return h, h.settle()
}

// settle reads the fields that say how the message is to be read.
func (h *head) settle() error {
	hosts := h.fields["Host"]
	switch {
	case len(hosts) == 1 && hosts[0] != "":
		h.host = hosts[0]
	case len(hosts) > 0:
		return badRequest("the Host is empty or not the only one")
	case h.minor == 1:
		return badRequest("no Host")
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
			h.fields.Del("Upgrade") // a server may refuse to change the protocol; so it goes on in this one
			break
		}
	}
	return nil
}

// upgrade reports whether a WebSocket is asked for.
func (h *head) upgrade() bool {
	return h.method == http.MethodGet && h.length == 0 && h.fields.Get("Upgrade") != "" &&
		httpguts.HeaderValuesContainsToken(h.fields["Connection"], "upgrade")
}

// keeps reports whether the connection goes on after the request.
func (h *head) keeps() bool {
	all := append(h.fields["Connection"], h.fields["Proxy-Connection"]...)
	if h.minor == 0 {
		return httpguts.HeaderValuesContainsToken(all, "keep-alive")
	}
	return !httpguts.HeaderValuesContainsToken(all, "close")
}

// place reads HOST[:PORT]; the port is 0 where there is none.
func place(text string) (string, uint16, error) {
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
	h, err := policy.Host(host)
	if err != nil {
		return "", 0, badRequest(fmt.Sprintf("the host %q is none", clip(host)))
	}
	return h, uint16(n), nil
}

// direct returns the URL of a request on a connection to a host.
func (h *head) direct(scheme, host string, port uint16) (*url.URL, error) {
	if h.host != "" {
		own, p, err := place(h.host)
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

// mismatch is a request for another host than the connection is to.
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

// absolute returns the URL of a request to a proxy, and its host and port.
func (h *head) absolute() (*url.URL, string, uint16, error) {
	u, err := url.Parse(h.target)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Host == "" || u.Opaque != "" {
		return nil, "", 0, badRequest("a proxy is asked for http://HOST/PATH, or CONNECT HOST:PORT")
	}
	host, port, err := place(u.Host)
	if err != nil {
		return nil, "", 0, err
	}
	if h.host != "" {
		if own, p, err := place(h.host); err != nil || own != host || or80(p) != or80(port) {
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
