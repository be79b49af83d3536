package policy

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

func TestHost(t *testing.T) {
	for text, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.Com.": "example.com", "bücher.example": "xn--bcher-kva.example", "1.2.3.4": "1.2.3.4", "1.2.3.4.": "1.2.3.4",
		"[::1]": "::1", "::ffff:1.2.3.4": "1.2.3.4", "a_b.example": "a_b.example", "ｅxample.com": "example.com", "ﬀ.example": "ff.example", "example。com": "example.com",
		"": "", ".": "", "a..b": "", "127.1": "", "2130706433": "", "0x7f000001": "", "0x7f.1": "", "0177.0.0.1": "", "1.2.3.4.5": "", "a%2eb": "", "a/b": "", "a@b": "", "a b": "",
		"a\x00b": "", "fe80::1%lo": "", "[fe80::1%25lo]": "", "[example.com]": "", "a:80": "", "１２７.1": "", "１２７.0.0.1": "", "１２７。0.0.１": "", "a.0x1f": "", "*.a": "",
		strings.Repeat("a", 64) + ".b": "", strings.Repeat("a.", 127) + "b": "",
	} {
		got, err := CanonicalHost(text)
		if want == "" && (err == nil || !errors.Is(err, atoll.ErrInvalid)) || want != "" && got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestCheckNamesEveryMistake(t *testing.T) {
	for _, bad := range []string{
		"", "a b", "example.com:0", "example.com:65536", "example.com:http", "ftp://example.com", "https://u@example.com/", "https://example.com/?q", "http://example.com/a/../b",
		"10.0.0.1/8", "*.1.2.3.4", "a.*.b", "*", "GET example.com", "get https://example.com/", "127.1", "::ffff:10.0.0.0/104", "example.com/path", "ⓗost.atoll.internal", "https://", "http:///x",
	} {
		err := Check(atoll.Network{Allow: []string{"example.com", bad}})
		if !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "allow[1]") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	err := Check(atoll.Network{
		Mode: "x", Allow: []string{""}, Deny: []string{"", "a b"}, Rate: -1,
		Headers: []atoll.Header{{Host: "a", Name: "A B"}, {Host: "a", Name: "Host", Value: "secret-1"}, {Host: "a", Name: "X", Value: "secret-2\r\nY: 1"}},
	})
	for _, want := range []string{"mode", "allow[0]", "deny[0]", "deny[1]", "rate", "headers[0]", "headers[1]", "headers[2]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error tells the value: %v", err)
	}
	narrow := atoll.Network{Allow: []string{"https://example.com/a/"}}
	if err := Check(narrow); !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "inspect") {
		t.Errorf("a path of https: %v", err)
	}
	if narrow.Inspect = true; Check(narrow) != nil {
		t.Errorf("with inspect: %v", Check(narrow))
	}
}

func TestNameAddressMistakes(t *testing.T) {
	for bad, want := range map[string]string{
		"a.corp=": "ADDRESS or ADDRESS/BITS", "a.corp=b.corp": "ADDRESS or ADDRESS/BITS", "a.corp=10.1.2.3:443": "a port belongs to the name", "a.corp=10.0.0.1/8": "must begin at 10.0.0.0/8",
		"a.corp=0.0.0.0/0": "private addresses", "a.corp=8.0.0.0/8": "private addresses", "10.1.2.3=10.1.2.4": "only a name", "10.0.0.0/8=10.1.2.4": "only a name", "a.corp=fe80::1%lo": "ADDRESS",
		"host.atoll.internal=10.1.2.3": "its own addresses", "https://a.corp=10.1.2.3": "NAME:PORT=ADDRESS", "=10.1.2.3": "must be a name", "*=10.1.2.3": "must be a name", "a.corp=10.1.2.3=10.1.2.4": "ADDRESS",
	} {
		err := Check(atoll.Network{Allow: []string{bad}})
		if !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", bad, err, want)
		}
	}
	for what, n := range map[string]atoll.Network{
		"deny": {Deny: []string{"a.corp=10.1.2.3"}}, "headers": {Headers: []atoll.Header{{Host: "a.corp=10.1.2.3", Name: "X"}}},
	} {
		if err := Check(n); !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "=ADDRESS") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Private says of every rule that lets a non-public address through that it does.
func TestPrivateIsNoLessThanTheRules(t *testing.T) {
	for _, entry := range []string{
		"10.0.0.0/8", "[10.0.0.0/8]:80", "10.1.2.3", "[fd00::/8]:80", "http://10.1.2.3/", "GET http://10.1.2.3/", "[::ffff:10.1.2.3]:80", "0.0.0.0/0", "8.0.0.0/5", "::/0",
		"host.atoll.internal", "HOST.ATOLL.INTERNAL.:80", "169.254.0.0/16", "100.100.100.200", "168.63.129.16", "example.com", "*.atoll.internal", "64:ff9b::a01:203", "64:ff9b::/96",
		"example.com=10.1.2.3", "example.com:80=127.0.0.1", "*.com=10.0.0.0/8", "example.com=fd00::/8", "example.com=[fd00::1]", "example.com=::ffff:10.1.2.3", "example.com=64:ff9b::a01:203", "example.com=8.8.8.8",
	} {
		n := atoll.Network{Allow: []string{entry}}
		r, err := New(n)
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		for _, host := range []string{"10.1.2.3", "fd00::1", "169.254.169.254", "100.100.100.200", "168.63.129.16", "127.0.0.1", "64:ff9b::a01:203", HostName, "example.com"} {
			for _, a := range []string{"10.1.2.3", "fd00::1", "169.254.169.254", "100.100.100.200", "168.63.129.16", "127.0.0.1", "::1", "64:ff9b::a01:203"} {
				if r.CheckAddress(host, netip.MustParseAddr(a), 80).Allowed && n.PrivateRule() == "" {
					t.Errorf("%q lets %s lead to %s, and is not private", entry, host, a)
				}
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	n := atoll.Network{Allow: []string{"api.test", "*.api.test"}, Inspect: true, Headers: []atoll.Header{
		{Host: "api.test", Name: "A", Value: "secret-a"}, {Host: "http://api.test", Name: "B", Value: "secret-b"}, {Host: "GET https://api.test/v1/", Name: "C", Value: "secret-c"},
	}}
	r, err := New(n)
	if err != nil {
		t.Fatal(err)
	}
	names := func(scheme, host, method, path string, port uint16) string {
		var s string
		for _, h := range r.Headers(scheme, host, port, method, path) {
			s += h.Name
		}
		return s
	}
	for _, c := range []struct {
		scheme, host, method, path, want string
		port                             uint16
	}{
		{HTTPS, "api.test", "GET", "/v1/x", "AC", 443},
		{HTTPS, "api.test", "POST", "/v1/x", "A", 443},
		{HTTPS, "api.test", "GET", "/v1/../x", "A", 443},
		{HTTP, "api.test", "GET", "/", "B", 80},
		{HTTPS, "a.api.test", "GET", "/", "", 443},
		{HTTPS, "evil.test", "GET", "/", "", 443},
	} {
		if got := names(c.scheme, c.host, c.method, c.path, c.port); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if got := r.Redact("a secret-a, secret-b"); got != "a ***, ***" {
		t.Errorf("%q", got)
	}
}

func TestDenyWins(t *testing.T) {
	r, err := New(atoll.Network{Mode: atoll.NetworkOpen, Allow: []string{"a.test", "10.0.0.0/8"}, Deny: []string{"a.test:22", "10.1.0.0/16", "https://b.test/admin"}})
	if err != nil {
		t.Fatal(err)
	}
	for what, v := range map[string]Verdict{
		"a port": r.CheckConnect("a.test", 22), "an address": r.CheckAddress("10.1.2.3", netip.MustParseAddr("10.1.2.3"), 80), "one of a name": r.CheckAddress("x.test", netip.MustParseAddr("10.1.2.3"), 80),
		"a path that can't be seen": r.CheckOpaque(HTTPS, "b.test", 443), "another protocol on its port": r.CheckOpaque(Other, "b.test", 443), "the path": r.CheckRequest(HTTPS, "b.test", 443, "GET", "/ADMIN/x"),
		"metadata, unnamed": r.CheckAddress("169.254.169.254", netip.MustParseAddr("169.254.169.254"), 80),
	} {
		if v.Allowed {
			t.Errorf("%s is allowed: %+v", what, v)
		}
	}
	for what, v := range map[string]Verdict{
		"another port": r.CheckConnect("a.test", 80), "another address": r.CheckAddress("10.2.2.3", netip.MustParseAddr("10.2.2.3"), 80), "another path": r.CheckRequest(HTTPS, "b.test", 443, "GET", "/x"),
	} {
		if !v.Allowed {
			t.Errorf("%s: %+v", what, v)
		}
	}
}

func FuzzPolicy(f *testing.F) {
	for _, s := range []string{"example.com", "*.a:443", "GET https://x/y/", "10.0.0.0/8:80", "[2001:db8::/32]:443", "http://[::1]:80/", "ａ.b", "127.1"} {
		f.Add(s, "example.com", "/x")
	}
	f.Fuzz(func(t *testing.T, entry, host, path string) {
		n := atoll.Network{Allow: []string{entry}}
		r, err := New(n)
		if err != nil {
			if !errors.Is(err, atoll.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		h, err := CanonicalHost(host)
		if err != nil {
			return
		}
		if again, err := CanonicalHost(h); err != nil || again != h {
			t.Fatalf("%q is %q, and that is %q, %v", host, h, again, err)
		}
		v := r.CheckRequest(HTTP, h, 80, "GET", path)
		if v.Allowed && (!r.CheckConnect(h, 80).Allowed || !r.Name(h).Allowed) {
			t.Fatalf("%q allows a request to %q, but no connection", entry, h)
		}
		for _, a := range []string{"127.0.0.1", "10.1.2.3", "169.254.169.254", "fd00::1", "::1"} {
			if r.CheckAddress(h, netip.MustParseAddr(a), 80).Allowed && n.PrivateRule() == "" {
				t.Fatalf("%q lets %q lead to %s, and is not private", entry, h, a)
			}
		}
	})
}

// A denial names a rule, and that rule allows it.
func TestDenialNamesTheRuleThatAllows(t *testing.T) {
	private := netip.MustParseAddr("10.1.2.3")
	for what, c := range map[string]struct {
		n     atoll.Network
		check func(r *Rules) Verdict
		want  string
	}{
		"a name":           {atoll.Network{}, func(r *Rules) Verdict { return r.Name("a.test") }, "a.test"},
		"a port":           {atoll.Network{Allow: []string{"a.test:80"}}, func(r *Rules) Verdict { return r.CheckConnect("a.test", 443) }, "a.test:443"},
		"an address":       {atoll.Network{Mode: atoll.NetworkNAT}, func(r *Rules) Verdict { return r.CheckConnect("10.1.2.3", 80) }, "10.1.2.3:80"},
		"an IPv6 address":  {atoll.Network{}, func(r *Rules) Verdict { return r.CheckConnect("fd00::1", 80) }, "[fd00::1]:80"},
		"a private name":   {atoll.Network{Allow: []string{"a.test"}}, func(r *Rules) Verdict { return r.CheckAddress("a.test", private, 443) }, "a.test:443=10.1.2.3"},
		"the host":         {atoll.Network{Mode: atoll.NetworkNAT}, func(r *Rules) Verdict { return r.CheckConnect(HostName, 80) }, HostName + ":80"},
		"a path":           {atoll.Network{Allow: []string{"http://a.test/a/"}}, func(r *Rules) Verdict { return r.CheckRequest(HTTP, "a.test", 80, "POST", "/b") }, "POST http://a.test:80/b"},
		"TLS with a path":  {atoll.Network{Allow: []string{"https://a.test/a/"}}, func(r *Rules) Verdict { return r.CheckOpaque(HTTPS, "a.test", 443) }, "a.test:443"},
		"another protocol": {atoll.Network{Allow: []string{"http://a.test:9"}}, func(r *Rules) Verdict { return r.CheckOpaque(Other, "a.test", 9) }, "a.test:9"},
	} {
		r, err := New(c.n)
		if err != nil {
			t.Fatal(err)
		}
		v := c.check(r)
		if v.Allowed || !strings.HasSuffix(v.Reason, `; the rule "`+c.want+`" would allow it`) {
			t.Errorf("%s: %+v, want %q", what, v, c.want)
		}
		c.n.Allow = append(c.n.Allow, c.want)
		if r, err = New(c.n); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if v := c.check(r); !v.Allowed {
			t.Errorf("%s: with that rule: %+v", what, v)
		}
	}
	r, err := New(atoll.Network{Mode: atoll.NetworkNAT, Deny: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Name("a.test"); v.Allowed || strings.Contains(v.Reason, "would allow") {
		t.Errorf("a denied name: %+v", v)
	}
}

// Paths that a server may take for a denied one are denied; paths that it may take for another one are
// not allowed by a prefix.
func TestAttackPathSpellings(t *testing.T) {
	r, err := New(atoll.Network{Allow: []string{"a.test", "http://b.test/api/"}, Deny: []string{"http://a.test/admin", "http://a.test/x%20y/"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/admin", "/admin/", "/admin/x", "/admin;x", "/admin;x/y", "/admin;", "/;x/admin", "/a/../admin", "//admin", "/./admin", "/%2e/admin", "/a/%2e%2e/admin", "/a/%2E%2e/admin", "/a/.%2e/admin",
		"/a%2f..%2fadmin", "/%2fadmin", "/%2Fadmin", "/admin%2fx", "/admin%3bx", "/%61dmin", "/%61%64%6D%69n", "/%61%64%6d%69n", "/ADMIN", "/Admin;x", "/a\\..\\admin", "/a%5c..%5cadmin", "/%5Cadmin",
		"/%252e%252e/admin", "/%25%36%31dmin", "/admin%00", "/admin%00.html", "/a/..;/admin", "/a/..;x=1/admin", "/a;b/..;/admin", "/a/.;/../admin", "/admin%20", "/admin%09", "/admin.", "/admin..", "/admin%2e",
		"/%c0%ae%c0%ae/admin", "/%c0%afadmin", "/%u0061dmin", "/admin%0a", "/admin%0d%0a", "/admin%23", "/admin%3f", "/admin%3Fx", "/admi%EF%BD%8E", "/%EF%BC%8Fadmin", "/admin::$DATA", "/x%20y/z", "/x+y;/%2e", "/X%20Y",
	} {
		if v := r.CheckRequest(HTTP, "a.test", 80, "GET", path); v.Allowed {
			t.Errorf("%s is not denied", path)
		}
	}
	for _, path := range []string{"/", "/adminx", "/x/admin-y", "/a;x/b", "/a.b/c..d", "/b%20c", "/%C3%BCber", "/a~b/c+d", "/admins", "/xadmin"} {
		if v := r.CheckRequest(HTTP, "a.test", 80, "GET", path); !v.Allowed {
			t.Errorf("%s: %+v", path, v)
		}
	}
	for path, allowed := range map[string]bool{
		"/api/": true, "/api/x": true, "/api/x;y=1/z": true, "/api/x%20y": true, "/api/a..b": true,
		"/api": false, "/apix": false, "/API/x": false, "/api/..": false, "/api/../admin": false, "/api/..;/admin": false, "/api/..;x/admin": false, "/api/%2e%2e/admin": false, "/api/%2E%2E/admin": false,
		"/api/.%2e/admin": false, "/api/..%2fadmin": false, "/api/%2e%2e%2fadmin": false, "/api/..%5cadmin": false, "/api//../admin": false, "/api/%252e%252e/admin": false, "/api/;/../admin": false,
		"/api/%c0%ae%c0%ae/admin": false, "/api/..%00/admin": false, "/api/..%20/admin": false, "/api/.. /admin": false, "/api/%EF%BC%8E%EF%BC%8E/admin": false, "/api/..%3b/admin": false, "/api/...;/admin": false,
		"/api/..%09/admin": false, "/api/x%23/../admin": false, "/api/..%3f/admin": false, "/api/x%0d%0aHost:": false,
	} {
		if v := r.CheckRequest(HTTP, "b.test", 80, "GET", path); v.Allowed != allowed {
			t.Errorf("%s: allowed is %v", path, v.Allowed)
		}
	}
}

// A header that could be for https is refused without inspection: it would silently not be sent.
func TestHeadersOfHTTPSNeedInspect(t *testing.T) {
	for host, needs := range map[string]bool{
		"api.test": true, "api.test:443": true, "api.test:8443": true, "*.api.test": true, "https://api.test/": true, "GET https://api.test/": true,
		"http://api.test": false, "GET http://api.test/": false, "http://api.test:8080": false, "api.test:80": false,
	} {
		n := atoll.Network{Allow: []string{"api.test"}, Headers: []atoll.Header{{Host: host, Name: "Authorization", Value: "secret-x"}}}
		err := Check(n)
		if needs != errors.Is(err, atoll.ErrInvalid) || needs && (!strings.Contains(err.Error(), "need inspect") || strings.Contains(err.Error(), "secret-x")) {
			t.Errorf("%s: %v", host, err)
		}
		if n.Inspect = true; Check(n) != nil {
			t.Errorf("%s with inspect: %v", host, Check(n))
		}
	}
}

// TestEntriesEnd: from its end on an entry of Allow allows nothing, in each check.
func TestEntriesEnd(t *testing.T) {
	end := time.Now().Add(time.Hour)
	r, err := New(atoll.Network{
		Allow: []string{"example.com", "other.com", "10.0.0.7", "lan.corp=10.0.0.8"},
		Until: map[string]time.Time{"example.com": end, "10.0.0.7": end, "lan.corp=10.0.0.8": end},
	})
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]func() bool{
		"name":     func() bool { return r.Name("example.com").Allowed },
		"connect":  func() bool { return r.CheckConnect("example.com", 443).Allowed },
		"opaque":   func() bool { return r.CheckOpaque(HTTPS, "example.com", 443).Allowed },
		"request":  func() bool { return r.CheckRequest(HTTP, "example.com", 80, "GET", "/").Allowed },
		"listed":   func() bool { return r.Lists("example.com", 443) },
		"address":  func() bool { return r.CheckAddress("10.0.0.7", netip.MustParseAddr("10.0.0.7"), 80).Allowed },
		"leads to": func() bool { return r.CheckAddress("lan.corp", netip.MustParseAddr("10.0.0.8"), 80).Allowed },
		"assigned": func() bool { return len(r.Addresses("lan.corp", 80)) == 1 },
	}
	for _, c := range []struct {
		now  time.Time
		want bool
	}{{end.Add(-time.Nanosecond), true}, {end, false}, {end.Add(time.Hour), false}} {
		r.now = func() time.Time { return c.now }
		for name, allowed := range checks {
			if allowed() != c.want {
				t.Errorf("%s %s before the end: allowed is %v", name, end.Sub(c.now), !c.want)
			}
		}
		if !r.Name("other.com").Allowed {
			t.Error("an entry without an end has ended")
		}
	}
}
