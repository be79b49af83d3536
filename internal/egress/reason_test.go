package egress

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// TestCONNECTShowsReasonInStatusLine: programs show of a refused CONNECT its status line at most.
func TestCONNECTShowsReasonInStatusLine(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{"lan.test:443"}})
	w.names["lan.test"] = []string{private}
	for target, want := range map[string]string{
		"no.test:443":  `the rule "no.test:443" would allow it`,
		"lan.test:443": `the rule "lan.test:443=` + private + `" would allow it`,
	} {
		status, rest, _ := strings.Cut(say(t, w.proxy(), "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n"), "\r\n")
		if !strings.HasPrefix(status, "HTTP/1.1 403 Forbidden: ") || !strings.Contains(status, want) || !strings.Contains(rest, want) {
			t.Errorf("%s: %q, then %q", target, status, rest)
		}
	}
	if got := formatPhrase("a\r\nX: y\u00e9" + strings.Repeat("z", 2*maxReason)); strings.ContainsAny(got, "\r\n\u00e9") || len(got) > maxReason {
		t.Errorf("a text that breaks the status line: %q", got)
	}
}

// TestRefusedTLSShowsReason: where the program trusts the sandbox's authority, a refused TLS connection
// answers its first request with the reason, over HTTP/1.1 and HTTP/2. Nothing leaves the sandbox.
func TestRefusedTLSShowsReason(t *testing.T) {
	w, _, pool := inspected(t, atoll.Network{Allow: []string{"example.com:80", "lan.test", "https://example.com:8443/api/"}, Deny: []string{"lan.test:8443"}})
	w.names["lan.test"] = []string{private}
	for _, h2 := range []bool{false, true} {
		c := w.client("direct", pool)
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = h2
		for url, want := range map[string]string{
			"https://example.com/x":  `the rule "example.com:443" would allow it`,
			"https://lan.test/x":     `the rule "lan.test:443=` + private + `" would allow it`,
			"https://lan.test:8443/": `is denied by "lan.test:8443"`,
		} {
			resp, err := c.Get(url)
			if err != nil {
				t.Errorf("%s: %v", url, err)
				continue
			}
			b, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusForbidden || !strings.Contains(string(b), want) || (resp.ProtoMajor == 2) != h2 {
				t.Errorf("%s (HTTP/2: %v): %s %q, %v", url, h2, resp.Status, b, err)
			}
		}
	}
	// A program that asks for another name gets no certificate for it, and one that does not trust the
	// authority gets an error.
	conn, err := w.dialName("example.com", "443")
	if err != nil {
		t.Fatal(err)
	}
	if err := tls.Client(conn, &tls.Config{ServerName: "other.test", RootCAs: pool}).HandshakeContext(t.Context()); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("another name: %v", err)
	}
	if got := w.dials(); got != "" {
		t.Errorf("connected to %s", got)
	}
}

// TestRefusalHasRuleAlone: the log and the notice of a refusal have the rule that would allow it as a value,
// for commands that print how to allow it; adding it allows the connection.
func TestRefusalHasRuleAlone(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{"lan.test"}})
	w.names["lan.test"], w.names["no.test"] = []string{private}, []string{public}
	w.web(public+":80", private+":80")
	var told []string
	w.s.notify = func(c atoll.Connection) { told = append(told, c.Suggestion) }
	for host, rule := range map[string]string{"no.test": "no.test:80", "lan.test": "lan.test:80=" + private} {
		told = nil
		if got := get(w.client("proxy", nil), "http://"+host+"/"); !strings.HasPrefix(got, "403") {
			t.Errorf("%s: %q", host, got)
		}
		if len(told) != 1 || told[0] != rule || w.last().Suggestion != rule {
			t.Errorf("%s: told %q, logged %+v", host, told, w.last())
		}
		if c, err := w.s.evaluate(t.Context(), host+":80"); err != nil || c.Suggestion != rule {
			t.Errorf("check of %s: %+v, %v", host, c, err)
		}
	}
	if err := w.s.setRules(atoll.Network{Allow: []string{"no.test:80", "lan.test:80=" + private}}); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"no.test", "lan.test"} {
		if got := get(w.client("proxy", nil), "http://"+host+"/"); !strings.HasPrefix(got, "GET ") {
			t.Errorf("%s with its rule: %q", host, got)
		}
	}
}

// TestConnectionEndsWithItsEntry: a connection is aborted at the end of the entry that allowed it; one that a
// later entry allows goes on until the end of that one.
func TestConnectionEndsWithItsEntry(t *testing.T) {
	w := newWorld(t, atoll.Network{})
	w.names["first.test"], w.names["second.test"] = []string{public}, []string{public}
	w.listen(public+":22", func(c net.Conn) {
		_, _ = io.WriteString(c, "SSH-2.0-x\r\n")
		_, _ = io.ReadAll(c)
	})
	now := time.Now()
	err := w.s.setRules(atoll.Network{
		Allow: []string{"first.test", "second.test"},
		Until: map[string]time.Time{"first.test": now.Add(500 * time.Millisecond), "second.test": now.Add(time.Second)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first.test", "second.test"} {
		c, err := w.dialName(name, "22")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) || string(got) != "SSH-2.0-x\r\n" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if c, err := w.s.evaluate(t.Context(), name+":22"); err != nil || c.Allowed {
			t.Errorf("%s after its end: %+v, %v", name, c, err)
		}
	}
}
