package egress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

// kind is the protocol that the first bytes of a connection indicate.
type kind int

const (
	unclear kind = iota // more bytes are needed
	isTLS
	isHTTP
	isOther
	isMalformed // neither HTTP nor safely anything else
)

// maxLine is the longest first line of a request in bytes.
const maxLine = 16 << 10

// methods are the beginnings of requests. A connection that begins with one must be HTTP.
var methods = []string{
	"GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "PATCH ", "CONNECT ", "TRACE ", "PROPFIND ", "REPORT ", "MKCOL ",
}

// classify determines the protocol from the first bytes of a program.
func classify(b []byte) kind {
	if len(b) == 0 {
		return unclear
	}
	if b[0] == recordHandshake {
		return classifyTLS(b)
	}
	if b[0] == '\r' || b[0] == '\n' || b[0] == ' ' || b[0] == '\t' {
		return isMalformed // some servers skip it and then read a request
	}
	line, _, whole := bytes.Cut(b, []byte("\n"))
	if i := slices.IndexFunc(line, func(c byte) bool { return (c < ' ' || c > '~') && c != '\t' && c != '\r' }); i >= 0 && !startsWithMethod(line[:i]) {
		return isOther
	}
	if !whole {
		if len(b) > maxLine {
			return isMalformed
		}
		return unclear
	}
	text := strings.TrimSuffix(string(line), "\r")
	upper := strings.ToUpper(text)
	switch {
	case text == "PRI * HTTP/2.0":
		return isOther
	case strings.HasSuffix(text, " HTTP/1.1") || strings.HasSuffix(text, " HTTP/1.0"):
		return isHTTP
	case strings.Contains(upper, "HTTP/") || startsWithMethod([]byte(upper)):
		return isMalformed
	}
	return isOther
}

// startsWithMethod reports whether a line begins like a request.
func startsWithMethod(line []byte) bool {
	for _, m := range methods {
		if len(line) >= len(m) && bytes.EqualFold(line[:len(m)], []byte(m)) {
			return true
		}
	}
	return false
}

// Constants of the first message of TLS.
const (
	recordHandshake = 0x16
	clientHello     = 1
	extServerName   = 0
	maxRecord       = 1<<14 + 256
	maxHello        = 64 << 10
)

// classifyTLS determines whether b begins with a ClientHello.
func classifyTLS(b []byte) kind {
	if len(b) < 6 {
		if len(b) > 1 && b[1] != 3 {
			return isOther
		}
		return unclear
	}
	if b[1] != 3 || b[5] != clientHello || binary.BigEndian.Uint16(b[3:]) > maxRecord {
		return isOther
	}
	return isTLS
}

var (
	errShort = errors.New("incomplete TLS ClientHello")
	errHello = errors.New("not a TLS ClientHello")
)

// parseHello returns the server name of a ClientHello, which may be split over several records; "":
// it has none. errShort: it is incomplete.
func parseHello(b []byte) (name string, err error) {
	var msg []byte
	for {
		if len(msg) >= 4 {
			n := 4 + (int(msg[1])<<16 | int(msg[2])<<8 | int(msg[3]))
			if msg[0] != clientHello || n > maxHello {
				return "", errHello
			}
			if len(msg) >= n {
				return helloName(msg[4:n])
			}
		}
		if len(b) < 5 {
			return "", errShort
		}
		size := int(binary.BigEndian.Uint16(b[3:]))
		if b[0] != recordHandshake || b[1] != 3 || size > maxRecord || size == 0 {
			return "", errHello
		}
		if len(b) < 5+size {
			return "", errShort
		}
		msg = append(msg, b[5:5+size]...)
		b = b[5+size:]
	}
}

// reader parses a message. Reading past the end returns nil and sets bad.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) readBytes(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// readVector reads a length of size bytes and then as many bytes.
func (r *reader) readVector(size int) []byte {
	n := 0
	for _, c := range r.readBytes(size) {
		n = n<<8 | int(c)
	}
	return r.readBytes(n)
}

func helloName(body []byte) (string, error) {
	r := reader{b: body}
	r.readBytes(2 + 32) // version, random
	r.readVector(1)     // session
	r.readVector(2)     // ciphers
	r.readVector(1)     // compression
	if r.bad {
		return "", errHello
	}
	if len(r.b) == 0 {
		return "", nil // no extensions
	}
	ext := reader{b: r.readVector(2)}
	if r.bad || len(r.b) != 0 {
		return "", errHello
	}
	name, seen := "", false
	for len(ext.b) > 0 {
		kind := ext.readBytes(2)
		data := ext.readVector(2)
		if ext.bad {
			return "", errHello
		}
		if binary.BigEndian.Uint16(kind) != extServerName {
			continue
		}
		if seen {
			return "", errHello // two names
		}
		seen = true
		one, err := serverName(data)
		if err != nil {
			return "", err
		}
		name = one
	}
	return name, nil
}

// serverName parses the server name extension.
func serverName(data []byte) (string, error) {
	outer := reader{b: data}
	list := reader{b: outer.readVector(2)}
	kind := list.readBytes(1)
	name := list.readVector(2)
	if outer.bad || list.bad || len(outer.b) != 0 || len(list.b) != 0 || kind[0] != 0 || len(name) == 0 {
		return "", errHello
	}
	return string(name), nil
}
