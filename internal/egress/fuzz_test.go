package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// hello returns a TLS greeting for a name.
func hello(tb testing.TB, name string) []byte {
	tb.Helper()
	a, b := net.Pipe()
	go tls.Client(a, &tls.Config{ServerName: name, InsecureSkipVerify: name == ""}).Handshake() //nolint:gosec,errcheck // only its greeting counts
	defer a.Close()
	defer b.Close()
	var out []byte
	buf := make([]byte, 4096)
	for {
		n, err := b.Read(buf)
		out = append(out, buf[:n]...)
		if _, perr := parseHello(out); !errors.Is(perr, errShort) || err != nil {
			return out
		}
	}
}

func TestHelloName(t *testing.T) {
	for _, name := range []string{"example.com", ""} {
		b := hello(t, name)
		if got, err := parseHello(b); got != name || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
		for i := range b {
			if _, err := parseHello(b[:i]); !errors.Is(err, errShort) {
				t.Errorf("cut at %d: %v", i, err)
				break
			}
		}
	}
	// The greeting in records of a byte each.
	b := hello(t, "example.com")
	var split []byte
	for _, c := range b[5:] {
		split = append(split, recordHandshake, 3, 1, 0, 1, c)
	}
	if got, err := parseHello(split); got != "example.com" || err != nil {
		t.Errorf("in pieces: %q, %v", got, err)
	}
	// Two names.
	twice := bytes.Replace(b, []byte("example.com"), []byte("example.org"), 1)
	if got, err := parseHello(twice); got != "example.org" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzHello(f *testing.F) {
	f.Add(hello(f, "example.com"))
	f.Add(hello(f, ""))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = parseHello(b) // it returns
		_ = classify(b)
	})
}

func FuzzHead(f *testing.F) {
	f.Add("GET /x?y HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
	f.Add("POST http://example.com:80/ HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n")
	f.Add("GET / HTTP/1.0\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := readHead(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return
		}
		h, err := parseHead(b)
		if err != nil {
			return
		}
		for name, values := range h.fields {
			if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
				t.Fatalf("%q: %q", name, values)
			}
		}
		if h.length < -1 || h.length == -1 && h.fields.Get("Content-Length") != "" {
			t.Fatalf("%+v", h)
		}
		if u, err := h.originURL("http", "example.com", 80); err == nil {
			if u.Host != "example.com:80" || u.Scheme != "http" || u.Opaque != "" {
				t.Fatalf("%q goes to %v", text, u)
			}
			if ask := u.RequestURI(); strings.ContainsAny(ask, " \r\n") || ask[0] != '/' && ask != "*" {
				t.Fatalf("%q asks for %q", text, ask)
			}
		}
		if u, host, port, err := h.proxyURL(); err == nil {
			if again, err := policy.CanonicalHost(host); err != nil || again != host || port == 0 || u.User != nil {
				t.Fatalf("%q goes to %v", text, u)
			}
		}
	})
}

func FuzzSocks(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x00\x50"))
	f.Fuzz(func(t *testing.T, b []byte) {
		host, port, code := readSocks(bytes.NewReader(b), io.Discard)
		if (code == socksDone) != (host != "" && port != 0) {
			t.Fatalf("%q, %d, %d", host, port, code)
		}
	})
}

func FuzzDNS(f *testing.F) {
	f.Add(query("example.com."))
	f.Add(query("a.wild.test."))
	s, err := newServer(context.Background(), atoll.Network{Allow: []string{"example.com", "*.wild.test"}}, newNetwork(resolution{}), nil)
	if err != nil {
		f.Fatal(err)
	}
	s.resolver.limit.SetLimit(1e9)
	s.resolver.limit.SetBurst(1e9)
	f.Fuzz(func(t *testing.T, b []byte) {
		a := s.resolver.handleQuery(b)
		if a == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(a); err != nil || !m.Response {
			t.Fatalf("%x answers %x: %v", b, a, err)
		}
		for _, r := range m.Answers {
			ip, ok := r.Body.(*dnsmessage.AResource)
			host, err := policy.CanonicalHost(m.Questions[0].Name.String())
			if !ok || err != nil || ip.A[0] != 198 || host != "example.com" && !strings.HasSuffix(host, ".wild.test") {
				t.Fatalf("%x answers %+v", b, m)
			}
		}
	})
}

func FuzzControl(f *testing.F) {
	for _, s := range []string{`{"op":"log"}`, `{"op":"ask","target":"https://example.com/x"}`, `{"op":"set","network":{"allow":["a.test"]}}`, `{"op":"close"}`, `{"op":"set","network":{"mode":"nat"},"names":{"servers":[]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := newServer(t.Context(), atoll.Network{Allow: []string{"example.com"}}, newNetwork(resolution{Servers: []string{"127.0.0.1:1"}}), nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &controlServer{s: s, stop: make(chan struct{})}
		for range 2 {
			_ = c.handleQuestion(bytes.NewReader(b))
		}
		if s.rules.Load() == nil || len(s.net.names.Load().Servers) == 0 {
			t.Fatal("nothing is left")
		}
	})
}

func FuzzResolution(f *testing.F) {
	f.Add([]byte("nameserver 1.1.1.1\nnameserver ::1\n"), []byte("127.0.0.1 localhost\n"))
	f.Fuzz(func(t *testing.T, conf, hosts []byte) {
		r := parseResolution(conf, hosts)
		if len(r.Servers) == 0 || len(r.Servers) > 3 || len(r.Hosts) > maxHosts+1000 {
			t.Fatalf("%d servers, %d hosts", len(r.Servers), len(r.Hosts))
		}
	})
}
