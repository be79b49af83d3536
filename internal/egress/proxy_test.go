package egress

import (
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

type urlType = url.URL

func mustURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

func trust(srv *httptest.Server) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return pool
}

const (
	public  = "93.184.216.34"
	public2 = "151.101.1.1"
	private = "10.1.2.3"
)

var ways = []string{"direct", "proxy", "socks"}

func TestReachesWhatIsAllowed(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			w := newWorld(t, atoll.Network{Allow: []string{"example.com", "*.wild.test:443", public2, "10.0.0.0/8:80"}})
			w.names["example.com"], w.names["a.wild.test"] = []string{public}, []string{public}
			srv := w.webTLS(public+":443", public2+":443")
			w.web(public+":80", public+":8080", public2+":80", private+":80")
			c := w.client(way, trust(srv))
			for url, want := range map[string]string{
				"http://example.com/x?q=1": "GET example.com/x?q=1",
				"http://example.com:8080/": "GET example.com:8080/",
				"https://example.com/":     "GET example.com/",
				"http://" + public2 + "/":  "GET " + public2 + "/",
				"http://" + private + "/":  "GET " + private + "/",
				"http://EXAMPLE.com./y":    "GET EXAMPLE.com./y",
			} {
				if got := get(c, url); !strings.HasPrefix(got, want) {
					t.Errorf("%s: %q, want %q; %+v", url, got, want, w.last())
				}
			}
			if way != "socks" {
				return
			}
			if got := w.last(); !got.Allowed || got.Received == 0 || got.Sent == 0 {
				t.Errorf("the journal: %+v", got)
			}
		})
	}
}

func TestRefusesTheRest(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			strict := newWorld(t, atoll.Network{Allow: []string{"example.com:80", "*.wild.test"}, Deny: []string{"bad.wild.test", public2}})
			open := newWorld(t, atoll.Network{Mode: atoll.NetworkOpen})
			attacks := []string{
				"http://other.test/", "http://example.com:8080/", "https://example.com/", "http://wild.test/", "http://bad.wild.test/",
				"http://" + public + "/", "http://" + private + "/", "http://[::ffff:10.1.2.3]/", "http://evil-example.com/", "http://example.com.evil.test/",
				"http://far.wild.test/", "http://denied.wild.test/",
			}
			for i, w := range []*world{strict, open} {
				for _, name := range []string{"other.test", "example.com", "wild.test", "bad.wild.test", "evil-example.com", "example.com.evil.test"} {
					w.names[name] = []string{public}
				}
				w.names["far.wild.test"], w.names["denied.wild.test"] = []string{private}, []string{public2}
				srv := w.webTLS(public + ":443")
				w.web(public+":80", public+":8080", private+":80", public2+":80")
				c := w.client(way, trust(srv))
				for _, url := range attacks {
					got := get(c, url)
					if worked := strings.HasPrefix(got, "GET "); worked != (i == 1) {
						t.Errorf("%s (open: %v): %q; %+v", url, i == 1, got, w.last())
					}
					if i == 0 && way == "proxy" && !strings.Contains(got, "403") && !strings.Contains(got, "Forbidden") {
						t.Errorf("%s: no clear word: %q", url, got)
					}
				}
			}
			if got := strict.dials(); got != "" {
				t.Errorf("connected to %s", got)
			}
		})
	}
}

func TestNATReachesThePublicInternetOnly(t *testing.T) {
	w := newWorld(t, atoll.Network{Mode: atoll.NetworkNAT, Deny: []string{"*.denied.test"}})
	for name, a := range map[string]string{
		"a.test": public, "a.denied.test": public, "lan.test": private, "meta.test": "169.254.169.254", "own.test": "127.0.0.1", "mapped.test": "::ffff:127.0.0.1",
		"six.test": "2606:2800:220:1::1", "nat64.test": "64:ff9b::a01:203", "nat64ok.test": "64:ff9b::5db8:d822", "ula.test": "fd00::1", "to4.test": "2002:a01:203::1",
	} {
		w.names[name] = []string{a}
	}
	for _, a := range []string{public, private, "169.254.169.254", "127.0.0.1", "[2606:2800:220:1::1]", "[64:ff9b::a01:203]", "[64:ff9b::5db8:d822]", "[fd00::1]", "[2002:a01:203::1]", "[::ffff:127.0.0.1]"} {
		w.web(a + ":80")
	}
	c := w.client("direct", nil)
	for url, works := range map[string]bool{
		"http://a.test/": true, "http://six.test/": true, "http://nat64ok.test/": true, "http://" + public + "/": true,
		"http://a.denied.test/": false, "http://lan.test/": false, "http://meta.test/": false, "http://own.test/": false, "http://mapped.test/": false,
		"http://nat64.test/": false, "http://ula.test/": false, "http://to4.test/": false, "http://169.254.169.254/": false, "http://10.1.2.3/": false,
		"http://[fd00::1]/": false, "http://[64:ff9b::a01:203]/": false, "http://host.atoll.internal/": false,
	} {
		if got := get(c, url); strings.HasPrefix(got, "GET ") != works {
			t.Errorf("%s: %q; %+v", url, got, w.last())
		}
	}
}

func TestHostOfTheGate(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{HostName + ":4873"}})
	w.web("127.0.0.1:4873", "127.0.0.1:80")
	for _, way := range ways {
		c := w.client(way, nil)
		if got := get(c, "http://"+HostName+":4873/x"); !strings.HasPrefix(got, "GET ") {
			t.Errorf("%s: %s", way, got)
		}
		if got := get(c, "http://"+HostName+"/x"); strings.HasPrefix(got, "GET ") {
			t.Errorf("%s: another port: %s", way, got)
		}
		if got := get(c, "http://127.0.0.1:4873/x"); strings.HasPrefix(got, "GET ") {
			t.Errorf("%s: its address: %s", way, got)
		}
	}
}

func TestPathsAndMethods(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{"http://example.com/api/", "GET http://read.test/"}, Deny: []string{"http://example.com/api/admin"}})
	w.names["example.com"], w.names["read.test"] = []string{public}, []string{public}
	w.web(public + ":80")
	for _, way := range ways {
		c := w.client(way, nil)
		for url, works := range map[string]bool{
			"http://example.com/api/x": true, "http://example.com/": false, "http://example.com/api/admin/x": false, "http://example.com/api/%61dmin": false,
			"http://example.com/api/../x": false, "http://example.com/api/%2e%2e/x": false, "http://example.com/api//admin": false, "http://example.com/api/ADMIN": false,
			"http://example.com/api/..;/x": false, "http://read.test/": true,
		} {
			if got := get(c, url); strings.HasPrefix(got, "GET ") != works {
				t.Errorf("%s %s: %q", way, url, got)
			}
		}
		resp, err := c.Post("http://read.test/", "text/plain", strings.NewReader("x")) //nolint:noctx // it has a timeout
		if err != nil || resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s POST: %v %v", way, resp, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
	// What is not HTTP can't be looked at.
	conn, err := w.dialName("example.com", "80")
	if err != nil {
		t.Fatal(err)
	}
	if got := say(t, conn, "\x00\x01\x02 whatever"); strings.Contains(got, "HTTP/1.1 2") {
		t.Errorf("another protocol: %q", got)
	}
}

func TestOtherProtocols(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{"example.com"}})
	w.names["example.com"] = []string{public}
	w.listen(public+":22", func(c net.Conn) { // the server speaks first
		_, _ = io.WriteString(c, "SSH-2.0-x\r\n")
		b, _ := io.ReadAll(c)
		_, _ = c.Write(append([]byte("got "), b...))
	})
	w.listen(public+":9418", func(c net.Conn) { // the program speaks first, and closes its half
		b, _ := io.ReadAll(c)
		_, _ = c.Write(append([]byte("got "), b...))
	})
	ssh, err := w.dialName("example.com", "22")
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 11)
	if _, err := io.ReadFull(ssh, b); err != nil || string(b) != "SSH-2.0-x\r\n" {
		t.Errorf("%q, %v", b, err)
	}
	if got := say(t, ssh, "SSH-2.0-me\r\n"); got != "got SSH-2.0-me\r\n" {
		t.Errorf("%q", got)
	}
	for _, text := range []string{"003agit-upload-pack /x\x00host=h\x00", "hello", "", "PRI * HTTP/2.0\r\n\r\n"} {
		c, err := w.dialName("example.com", "9418")
		if err != nil {
			t.Fatal(err)
		}
		if got := say(t, c, text); got != "got "+text {
			t.Errorf("%q: %q; %+v", text, got, w.last())
		}
	}
	if c := w.last(); c.Protocol != "tcp" || c.Address != public+":9418" || c.Host != "example.com" {
		t.Errorf("%+v", c)
	}
}
