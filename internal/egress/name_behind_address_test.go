package egress

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/atoll-sandbox/atoll"
)

// handshake performs TLS with a server name and reports whether the server answered it.
func handshake(c net.Conn, name string) bool {
	return tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake() == nil //nolint:gosec // the name is the test
}

// tunnel opens a tunnel through the proxy.
func (w *world) tunnel(target string) net.Conn {
	w.t.Helper()
	c := w.proxy()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	if line, err := bufio.NewReaderSize(c, 39).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		w.t.Fatalf("CONNECT %s: %q, %v", target, line, err)
	}
	return c
}

// An allowed address must not open the names behind it.
func TestAttackNamesBehindAddress(t *testing.T) {
	for what, c := range map[string]struct {
		n     atoll.Network
		named bool // whether the name is reached
	}{
		"only the address":        {atoll.Network{Allow: []string{private}}, false},
		"a range":                 {atoll.Network{Allow: []string{"10.0.0.0/8"}}, false},
		"nat":                     {atoll.Network{Mode: atoll.NetworkNAT, Allow: []string{private}}, false},
		"the name, another port":  {atoll.Network{Mode: atoll.NetworkNAT, Allow: []string{private, "secret.corp:9"}}, false},
		"the name is denied":      {atoll.Network{Allow: []string{private, "secret.corp"}, Deny: []string{"secret.corp"}}, false},
		"one path of the name":    {atoll.Network{Allow: []string{private, "http://secret.corp/open/"}}, false},
		"the name is allowed too": {atoll.Network{Allow: []string{private, "secret.corp"}}, true},
	} {
		w := newWorld(t, c.n)
		w.names["secret.corp"] = []string{private}
		w.web(private + ":80")
		w.webTLS(private + ":443")
		if got := get(w.client("direct", nil), "http://"+private+"/x"); !strings.HasPrefix(got, "GET ") {
			t.Errorf("%s: the address itself: %q", what, got)
		}
		if !handshake(w.to(private+":443"), "") || !handshake(w.tunnel(private+":443"), "") {
			t.Errorf("%s: TLS to the address itself is refused", what)
		}
		for _, way := range ways {
			if got := get(w.client(way, nil), "http://secret.corp/x"); strings.HasPrefix(got, "GET ") != c.named {
				t.Errorf("%s: the name (%s): %q", what, way, got)
			}
		}
		request := "GET /x HTTP/1.1\r\nHost: secret.corp\r\nConnection: close\r\n\r\n"
		for way, conn := range map[string]net.Conn{"direct": w.to(private + ":80"), "tunnel": w.tunnel(private + ":80")} {
			if got := say(t, conn, request); strings.Contains(got, "GET secret.corp/x") != c.named || strings.Contains(got, "403") == c.named {
				t.Errorf("%s: its Host (%s): %q", what, way, got)
			}
		}
		for way, conn := range map[string]net.Conn{"direct": w.to(private + ":443"), "tunnel": w.tunnel(private + ":443")} {
			if handshake(conn, "secret.corp") != c.named {
				t.Errorf("%s: its name in TLS (%s): %v", what, way, !c.named)
			}
		}
	}
}

// Replaced rules end a connection to an address that asks for a name which is no longer allowed.
func TestReplacedRulesEndNamesBehindAddress(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{private, "secret.corp"}})
	w.webTLS(private + ":443")
	c := tls.Client(w.to(private+":443"), &tls.Config{ServerName: "secret.corp", InsecureSkipVerify: true}) //nolint:gosec // the name is the test
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := w.s.setRules(atoll.Network{Allow: []string{private}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || timedOut(err) {
		t.Errorf("it goes on: %v", err)
	}
}

// A rule NAME=ADDRESS allows a name to lead to private addresses, and nothing else on them.
func TestNamesOfPrivateAddresses(t *testing.T) {
	w := newWorld(t, atoll.Network{Mode: atoll.NetworkNAT, Allow: []string{"registry.corp=10.1.2.3", "port.corp:80=10.1.2.3", "*.lan=10.0.0.0/8"}})
	for _, name := range []string{"a.lan", "other.corp"} {
		w.names[name] = []string{private}
	}
	w.names["far.lan"], w.names["registry.corp"] = []string{"192.168.1.1"}, []string{"192.168.1.1"}
	w.web(private+":80", private+":8080", "192.168.1.1:80")
	w.webTLS(private + ":443")
	for _, way := range ways {
		c := w.client(way, nil)
		for url, works := range map[string]bool{
			"http://registry.corp/": true, "http://port.corp/": true, "http://a.lan/": true, "http://registry.corp:8080/": true,
			"http://port.corp:8080/": false, "http://far.lan/": false, "http://other.corp/": false, "http://" + private + "/": false, "http://x.registry.corp/": false,
		} {
			if got := get(c, url); strings.HasPrefix(got, "GET ") != works {
				t.Errorf("%s %s: %q", way, url, got)
			}
		}
	}
	tls, err := w.dialName("registry.corp", "443")
	if err != nil || !handshake(tls, "registry.corp") {
		t.Errorf("TLS: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.asked {
		if name == "registry.corp" || name == "port.corp" && !strings.Contains(strings.Join(w.dialed, " "), ":8080") {
			t.Errorf("%s was resolved", name)
		}
	}
}

// A refused program sees the rule that would allow its connection; so do the log and subscribers.
func TestDenialsSayTheRule(t *testing.T) {
	const rule = `the rule "registry.corp:80=10.1.2.3" would allow it`
	for _, way := range ways {
		w := newWorld(t, atoll.Network{Allow: []string{"registry.corp"}})
		w.names["registry.corp"] = []string{private}
		notes := make(chan atoll.Connection, 10)
		w.s.notify = func(c atoll.Connection) { notes <- c }
		if got := get(w.client(way, nil), "http://registry.corp/"); way != "socks" && !strings.Contains(got, rule) {
			t.Errorf("%s: the program sees %q", way, got)
		}
		w.served.Wait()
		if c := w.last(); c.Allowed || !strings.Contains(c.Reason, rule) {
			t.Errorf("%s: the log has %+v", way, c)
		}
		if c := <-notes; !strings.Contains(c.Reason, rule) {
			t.Errorf("%s: subscribers get %+v", way, c)
		}
		tls, err := w.dialName("registry.corp", "443")
		if err != nil || handshake(tls, "registry.corp") {
			t.Errorf("%s: TLS: %v", way, err)
		}
	}
	w := newWorld(t, atoll.Network{})
	_, m := w.resolve("example.org.", dnsmessage.TypeA)
	if len(m.Additionals) != 1 {
		t.Fatalf("%+v", m)
	}
	if got := string(m.Additionals[0].Body.(*dnsmessage.OPTResource).Options[0].Data); !strings.Contains(got, `the rule "example.org" would allow it`) {
		t.Errorf("DNS: %q", got)
	}
}

// A check resolves the name as a connection would, and connects to nothing.
func TestCheckResolves(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{"a.test", "private.test", "mixed.test", "gone.test", "mapped.test=10.1.2.3", "port.test:9=10.1.2.3", "*.lan=10.0.0.0/8", "10.9.9.9"}, Deny: []string{public2}})
	w.names["a.test"], w.names["private.test"], w.names["mixed.test"] = []string{public}, []string{private}, []string{public2, public}
	w.names["port.test"] = []string{private}
	w.names["x.lan"], w.names["y.lan"] = []string{private}, []string{"192.168.1.1"}
	for target, want := range map[string]atoll.Connection{
		"a.test:443":           {Allowed: true, Rule: "a.test", Address: public + ":443"},
		"https://a.test/x":     {Allowed: true, Rule: "a.test", Address: public + ":443"},
		"private.test:443":     {Rule: "private.test", Address: private + ":443", Reason: `the rule "private.test:443=10.1.2.3" would allow it`},
		"http://private.test/": {Rule: "private.test", Address: private + ":80", Reason: `the rule "private.test:80=10.1.2.3" would allow it`},
		"mixed.test:80":        {Allowed: true, Rule: "mixed.test", Address: public + ":80"},
		"gone.test:80":         {Rule: "gone.test", Reason: "gone.test does not resolve here"},
		"mapped.test:80":       {Allowed: true, Rule: "mapped.test=10.1.2.3", Address: private + ":80"},
		"x.lan:80":             {Allowed: true, Rule: "*.lan=10.0.0.0/8", Address: private + ":80"},
		"y.lan:80":             {Rule: "*.lan=10.0.0.0/8", Address: "192.168.1.1:80", Reason: `the rule "y.lan:80=192.168.1.1" would allow it`},
		"10.9.9.9:80":          {Allowed: true, Rule: "10.9.9.9", Address: "10.9.9.9:80"},
		"other.test:80":        {Reason: `the rule "other.test:80" would allow it`},
		"port.test":            {Allowed: true, Rule: "port.test:9=10.1.2.3", Address: private},
		"private.test":         {Rule: "private.test", Address: private, Reason: `the rule "private.test:443=10.1.2.3" would allow it`},
		"a.test":               {Allowed: true, Rule: "a.test", Address: public},
	} {
		c, err := w.s.evaluate(t.Context(), target)
		if err != nil || c.Allowed != want.Allowed || c.Rule != want.Rule || c.Address != want.Address || !strings.HasSuffix(c.Reason, want.Reason) {
			t.Errorf("%s: %+v, %v", target, c, err)
		}
	}
	if got := w.dials(); got != "" {
		t.Errorf("connected to %s", got)
	}
}
