package gate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

// kind is what the first bytes of a connection look like.
type kind int

const (
	unclear kind = iota // more is needed
	isTLS
	isHTTP
	isOther
	isOdd // neither HTTP nor safely anything else
)

// maxLine is how long the first line of a request may be.
const maxLine = 16 << 10

// methods that begin a request and hardly anything else: a connection that
// begins with one is HTTP or nothing.
var methods = []string{
	"GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "PATCH ", "CONNECT ", "TRACE ", "PROPFIND ", "REPORT ", "MKCOL ",
}

// classify looks at the first bytes that a program has sent.
func classify(b []byte) kind {
	if len(b) == 0 {
		return unclear
	}
	if b[0] == recordHandshake {
		return classifyTLS(b)
	}
	if b[0] == '\r' || b[0] == '\n' || b[0] == ' ' || b[0] == '\t' {
		return isOdd // some servers skip it and read a request
	}
	line, _, whole := bytes.Cut(b, []byte("\n"))
	if i := slices.IndexFunc(line, func(c byte) bool { return (c < ' ' || c > '~') && c != '\t' && c != '\r' }); i >= 0 && !begun(line[:i]) {
		return isOther
	}
	if !whole {
		if len(b) > maxLine {
			return isOdd
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
	case strings.Contains(upper, "HTTP/") || begun([]byte(upper)):
		return isOdd
	}
	return isOther
}

// begun reports whether a line begins as a request does.
func begun(line []byte) bool {
	for _, m := range methods {
		if len(line) >= len(m) && bytes.EqualFold(line[:len(m)], []byte(m)) {
			return true
		}
	}
	return false
}

// TLS, as far as a first message is read.
const (
	recordHandshake = 0x16
	clientHello     = 1
	extServerName   = 0
	maxRecord       = 1<<14 + 256
	maxHello        = 64 << 10
)

// classifyTLS tells whether a handshake record begins here.
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
	errShort = errors.New("more of the TLS greeting is needed")
	errHello = errors.New("not a TLS greeting")
)

// parseHello returns the server's name of a TLS greeting, which may lie in
// several records; "": it has none. errShort: it is not whole yet.
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

// reader takes a message apart; what is too short is empty and sets bad.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// vector takes what follows a length of some bytes.
func (r *reader) vector(size int) []byte {
	n := 0
	for _, c := range r.take(size) {
		n = n<<8 | int(c)
	}
	return r.take(n)
}

func helloName(body []byte) (string, error) {
	r := reader{b: body}
	r.take(2 + 32) // version, random
	r.vector(1)    // session
	r.vector(2)    // ciphers
	r.vector(1)    // compression
	if r.bad {
		return "", errHello
	}
	if len(r.b) == 0 {
		return "", nil // no extensions
	}
	ext := reader{b: r.vector(2)}
	if r.bad || len(r.b) != 0 {
		return "", errHello
	}
	name, seen := "", false
	for len(ext.b) > 0 {
		kind := ext.take(2)
		data := ext.vector(2)
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

// serverName reads the one name of the extension.
func serverName(data []byte) (string, error) {
	outer := reader{b: data}
	list := reader{b: outer.vector(2)}
	kind := list.take(1)
	name := list.vector(2)
	if outer.bad || list.bad || len(outer.b) != 0 || len(list.b) != 0 || kind[0] != 0 || len(name) == 0 {
		return "", errHello
	}
	return string(name), nil
}
