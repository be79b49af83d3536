package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// A name that leads elsewhere at the second look must not lead there.
func TestAttackRebinding(t *testing.T) {
	run := func(n atoll.Network) string {
		w := newWorld(t, n)
		for range 50 {
			w.turns["evil.test"] = append(w.turns["evil.test"], []string{public}, []string{"169.254.169.254"}, []string{public, "10.1.2.3"})
		}
		w.web(public + ":80")
		w.web("169.254.169.254:80", "10.1.2.3:80")
		c := w.client("direct", nil)
		for range 12 {
			get(c, "http://evil.test/")
			c.CloseIdleConnections()
		}
		return w.dials()
	}
	if got := run(atoll.Network{Allow: []string{"evil.test"}}); strings.Contains(got, "169.254") || strings.Contains(got, "10.1") || !strings.Contains(got, public) {
		t.Errorf("dialled %s", got)
	}
	if got := run(atoll.Network{Allow: []string{"evil.test", "169.254.169.254"}}); !strings.Contains(got, "169.254.169.254") {
		t.Errorf("it does not work with a weaker policy either: dialled %s", got)
	}
}

// CONNECT and SOCKS must not be relays to what is not allowed.
func TestAttackRelay(t *testing.T) {
	requests := map[string]string{
		"connect to metadata": "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 169.254.169.254:80\r\n\r\nGET /key HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n\r\n",
		"mapped to IPv6":      "CONNECT [::ffff:169.254.169.254]:80 HTTP/1.1\r\nHost: [::ffff:169.254.169.254]:80\r\n\r\nGET /key HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n\r\n",
		"absolute form":       "GET http://169.254.169.254/key HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n\r\n",
		"socks":               "\x05\x01\x00\x05\x01\x00\x01\xa9\xfe\xa9\xfe\x00\x50GET /key HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n\r\n",
		"socks to a name":     "\x05\x01\x00\x05\x01\x00\x03\x0f169.254.169.254\x00\x50GET /key HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n\r\n",
		"socks to loopback":   "\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50GET /key HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
	}
	never := map[string]string{
		"as a number":          "CONNECT 2852039166:80 HTTP/1.1\r\nHost: 2852039166:80\r\n\r\n",
		"in octal":             "CONNECT 0251.0376.0251.0376:80 HTTP/1.1\r\nHost: 0251.0376.0251.0376:80\r\n\r\n",
		"in hex":               "CONNECT 0xa9fea9fe:80 HTTP/1.1\r\nHost: 0xa9fea9fe:80\r\n\r\n",
		"short":                "CONNECT 127.1:80 HTTP/1.1\r\nHost: 127.1:80\r\n\r\n",
		"a zone":               "CONNECT [fe80::1%25lo]:80 HTTP/1.1\r\nHost: [fe80::1%25lo]:80\r\n\r\n",
		"two hosts":            "CONNECT example.com:80@169.254.169.254:80 HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"a NUL":                "CONNECT example.com\x00.evil:80 HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"percent":              "GET http://169.254.169%2e254/key HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"another Host":         "GET http://example.com/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n",
		"user info":            "GET http://example.com@169.254.169.254/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"another port":         "CONNECT example.com:22 HTTP/1.1\r\nHost: example.com:22\r\n\r\n",
		"port 0":               "CONNECT example.com:0 HTTP/1.1\r\nHost: example.com:0\r\n\r\n",
		"a port that wraps":    "CONNECT example.com:65616 HTTP/1.1\r\nHost: example.com:65616\r\n\r\n",
		"a unix socket":        "GET unix:///run/x.sock HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"a file":               "GET file:///etc/passwd HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"socks bind":           "\x05\x01\x00\x05\x02\x00\x01\x5d\xb8\xd8\x22\x00\x50",
		"socks udp":            "\x05\x01\x00\x05\x03\x00\x01\x5d\xb8\xd8\x22\x00\x50",
		"socks to a socket":    "\x05\x01\x00\x05\x01\x00\x03\x0b/run/x.sock\x00\x50",
		"socks without a name": "\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50",
		"socks 4":              "\x04\x01\x00\x50\xa9\xfe\xa9\xfe\x00",
	}
	strict := atoll.Network{Allow: []string{"example.com:80"}}
	run := func(n atoll.Network, text string) (string, string) {
		w := newWorld(t, n)
		w.names["example.com"] = []string{public}
		w.web(public+":80", "169.254.169.254:80", "127.0.0.1:80", public+":22")
		return say(t, w.proxy(), text), w.dials()
	}
	for what, text := range requests {
		if got, dials := run(strict, text); strings.Contains(got, "GET ") || dials != "" {
			t.Errorf("%s: %q, dialled %q", what, got, dials)
		}
		if got, _ := run(atoll.Network{Allow: []string{"169.254.169.254", "127.0.0.1"}}, text); !strings.Contains(got, "/key") {
			t.Errorf("%s does not work with a weaker policy either: %q", what, got)
		}
	}
	for what, text := range never {
		for _, n := range []atoll.Network{strict, {Mode: atoll.NetworkNAT, Deny: []string{"example.com:22"}}} {
			if got, dials := run(n, text); strings.Contains(got, "GET ") || dials != "" {
				t.Errorf("%s: %q, dialled %q", what, got, dials)
			}
		}
	}
	if got, _ := run(strict, "GET http://example.com/ok HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "/ok") {
		t.Errorf("what is allowed: %q", got)
	}
}

// A connection to one host must not ask for another (domain fronting).
func TestAttackFronting(t *testing.T) {
	run := func(n atoll.Network, conn func(w *world) string) string {
		w := newWorld(t, n)
		w.names["example.com"], w.names["evil.test"] = []string{public}, []string{public}
		w.web(public+":80", public+":8080")
		w.webTLS(public+":443", public+":8443")
		return conn(w)
	}
	attack := map[string]func(host, port, asks string) func(w *world) string{
		"TLS": func(host, port, asks string) func(w *world) string {
			return func(w *world) string {
				c, err := w.dialName(host, port+"443")
				if err != nil {
					return err.Error()
				}
				tc := tls.Client(c, &tls.Config{ServerName: asks, InsecureSkipVerify: true}) //nolint:gosec // the name is the test
				if err := tc.Handshake(); err != nil {
					return err.Error()
				}
				return "through"
			}
		},
		"TLS in a tunnel": func(host, port, asks string) func(w *world) string {
			return func(w *world) string {
				c := w.proxy()
				fmt.Fprintf(c, "CONNECT %s:%s443 HTTP/1.1\r\nHost: %s:%s443\r\n\r\n", host, port, host, port)
				if line, err := bufio.NewReaderSize(c, 39).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
					return line
				}
				tc := tls.Client(c, &tls.Config{ServerName: asks, InsecureSkipVerify: true}) //nolint:gosec // as above
				if err := tc.Handshake(); err != nil {
					return err.Error()
				}
				return "through"
			}
		},
		"HTTP": func(host, port, asks string) func(w *world) string {
			return func(w *world) string {
				c, err := w.dialName(host, port+"80")
				if err != nil {
					return err.Error()
				}
				if got := say(t, c, "GET / HTTP/1.1\r\nHost: "+asks+"\r\nConnection: close\r\n\r\n"); strings.Contains(got, "GET "+asks) {
					return "through"
				}
				return "not"
			}
		},
		"the second request": func(host, port, asks string) func(w *world) string {
			return func(w *world) string {
				c, err := w.dialName(host, port+"80")
				if err != nil {
					return err.Error()
				}
				if got := say(t, c, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\nGET /2 HTTP/1.1\r\nHost: "+asks+"\r\nConnection: close\r\n\r\n"); strings.Contains(got, "GET "+asks+"/2") {
					return "through"
				}
				return "not"
			}
		},
	}
	for what, f := range attack {
		if got := run(atoll.Network{Allow: []string{"example.com"}}, f("example.com", "", "evil.test")); got == "through" {
			t.Errorf("%s: %s", what, got)
		}
		if got := run(atoll.Network{Allow: []string{"example.com"}}, f("example.com", "", "example.com")); got != "through" {
			t.Errorf("%s, without fronting: %s", what, got)
		}
	}
	// A slow greeting is looked at, too.
	if got := run(atoll.Network{Allow: []string{"example.com"}}, func(w *world) string {
		w.listen(public+":9000", func(c net.Conn) {
			fmt.Fprint(c, "hello\n")
			_, _ = io.Copy(c, c)
		})
		c, err := w.dialName("example.com", "9000")
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		if line, err := r.ReadString('\n'); line != "hello\n" {
			t.Fatalf("%q, %v", line, err)
		}
		return say(t, c, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	}); strings.Contains(got, "evil") {
		t.Errorf("slow: %q", got)
	}
}

// What two readers could understand in two ways never leaves.
func TestAttackSmuggling(t *testing.T) {
	const ok = "Host: example.com\r\n"
	attacks := map[string]string{
		"two lengths":         "POST / HTTP/1.1\r\n" + ok + "Content-Length: 0\r\nContent-Length: 30\r\n\r\n",
		"equal lengths":       "POST / HTTP/1.1\r\n" + ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"length and chunks":   "POST / HTTP/1.1\r\n" + ok + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two codings":         "POST / HTTP/1.1\r\n" + ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"a coding like it":    "POST / HTTP/1.1\r\n" + ok + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"a list of codings":   "POST / HTTP/1.1\r\n" + ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"a space before ':'":  "POST / HTTP/1.1\r\n" + ok + "Content-Length : 5\r\n\r\nhello",
		"a folded field":      "GET / HTTP/1.1\r\n" + ok + "X: a\r\n Host: evil.test\r\n\r\n",
		"a bare LF":           "GET / HTTP/1.1\r\n" + ok + "X: a\nHost: evil.test\r\n\r\n",
		"only LF":             "GET / HTTP/1.1\nHost: example.com\n\n",
		"a bare CR":           "GET / HTTP/1.1\r\n" + ok + "X: a\rHost: evil.test\r\n\r\n",
		"a NUL":               "GET / HTTP/1.1\r\n" + ok + "X: a\x00b\r\n\r\n",
		"two hosts":           "GET / HTTP/1.1\r\n" + ok + "Host: evil.test\r\n\r\n",
		"no host":             "GET / HTTP/1.1\r\n\r\n",
		"absolute, not equal": "GET http://evil.test/ HTTP/1.1\r\n" + ok + "\r\n",
		"a space in target":   "GET / HTTP/1.1 HTTP/1.1\r\n" + ok + "\r\n",
		"a tab":               "GET\t/\tHTTP/1.1\r\n" + ok + "\r\n",
		"an empty line first": "\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"signed length":       "POST / HTTP/1.1\r\n" + ok + "Content-Length: +5\r\n\r\nhello",
		"hex length":          "POST / HTTP/1.1\r\n" + ok + "Content-Length: 0x5\r\n\r\nhello",
		"an old version":      "GET / HTTP/0.9\r\n" + ok + "\r\n",
		"small letters":       "get / http/1.1\r\n" + ok + "\r\n",
		"chunks in 1.0":       "POST / HTTP/1.0\r\n" + ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	}
	w := newWorld(t, atoll.Network{Allow: []string{"example.com"}})
	w.names["example.com"] = []string{public}
	var mu sync.Mutex
	var raw bytes.Buffer
	w.listen(public+":80", func(c net.Conn) {
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf)
			mu.Lock()
			raw.Write(buf[:n])
			mu.Unlock()
			if err != nil {
				return
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	for what, text := range attacks {
		for _, way := range []string{"direct", "tunnel"} {
			c, err := w.dialName("example.com", "80")
			if way == "tunnel" {
				c = w.proxy()
				text = "CONNECT example.com:80 HTTP/1.1\r\nHost: example.com:80\r\n\r\n" + text
			}
			if err != nil {
				t.Fatal(err)
			}
			got := say(t, c, text)
			mu.Lock()
			sent := raw.String()
			raw.Reset()
			mu.Unlock()
			if strings.Contains(got, "200 OK") || sent != "" || !strings.Contains(got, "400") && !strings.Contains(got, "403") {
				t.Errorf("%s (%s): %q, sent %q", what, way, got, sent)
			}
		}
	}
	// A request hidden in a body stays in the body.
	c, err := w.dialName("example.com", "80")
	if err != nil {
		t.Fatal(err)
	}
	say(t, c, "POST / HTTP/1.1\r\n"+ok+"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n29;x=\"y\"\r\nGET /hidden HTTP/1.1\r\nHost: evil.test\r\n\r\n\r\n0\r\nX-Trailer: 1\r\n\r\n")
	mu.Lock()
	defer mu.Unlock()
	if got := raw.String(); strings.Count(got, "Host: ") != 2 || !strings.Contains(got, "29\r\nGET /hidden") || strings.Contains(got, "X-Trailer") {
		t.Errorf("sent %q", got)
	}
}

// Names must carry nothing out, and say nothing of what is not allowed.
func TestAttackDNSTunnel(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{"example.com", "*.wild.test"}})
	data := strings.Repeat("a", 60)
	for _, q := range []struct {
		name string
		kind dnsmessage.Type
		code dnsmessage.RCode
	}{
		{data + ".evil.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError},
		{data + ".evil.test.", dnsmessage.TypeTXT, dnsmessage.RCodeNameError},
		{data + ".wild.test.", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess},
		{data + ".wild.test.", 10, dnsmessage.RCodeSuccess}, // NULL
		{data + ".wild.test.", dnsmessage.TypeA, dnsmessage.RCodeSuccess},
		{"example.com.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess},
		{"example.com.", dnsmessage.TypeMX, dnsmessage.RCodeSuccess},
		{"example.com.", dnsmessage.TypeALL, dnsmessage.RCodeSuccess},
		{"a.example.com.", dnsmessage.TypeA, dnsmessage.RCodeNameError},
		{"34.216.184.93.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError},
		{"a b.wild.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError},
		{".", dnsmessage.TypeNS, dnsmessage.RCodeNameError},
	} {
		a, m := w.resolve(q.name, q.kind)
		if m.RCode != q.code || (a != "") != (q.kind == dnsmessage.TypeA && q.code == 0) || len(m.Answers) > 1 {
			t.Errorf("%s %v: %v %q %v", q.name, q.kind, m.RCode, a, m.Answers)
		}
		if m.RCode != 0 && (len(m.Additionals) != 1 || len(m.Additionals[0].Body.(*dnsmessage.OPTResource).Options) != 1) {
			t.Errorf("%s: no reason is given: %v", q.name, m.Additionals)
		}
	}
	w.mu.Lock()
	asked := len(w.asked)
	w.mu.Unlock()
	if asked != 0 {
		t.Errorf("%d names were looked up outside", asked)
	}
	flood := 0
	for range 3 * namesBurst {
		if a := w.s.resolver.handleQuery(query("x.wild.test.")); dnsmessage.RCode(a[3]&15) == dnsmessage.RCodeRefused {
			flood++
		}
	}
	if flood == 0 {
		t.Error("a flood of queries is answered")
	}
	for range 2 * maxNames {
		w.s.names.assignAddress(atoll.NewID() + ".wild.test")
	}
	if n := len(w.s.names.byName); n > maxNames {
		t.Errorf("%d names are remembered", n)
	}
}

func query(name string) []byte {
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

// A redirect is the program's to follow: to where it may not go, it doesn't.
func TestAttackRedirect(t *testing.T) {
	for _, n := range []atoll.Network{{Allow: []string{"example.com"}}, {Allow: []string{"example.com", private}}} {
		w := newWorld(t, n)
		w.names["example.com"] = []string{public}
		w.web(public + ":80")
		w.web(private + ":80")
		for _, way := range ways {
			got := get(w.client(way, nil), "http://example.com/?to=http://"+private+"/key")
			if worked := strings.Contains(got, "/key key"); worked != (len(n.Allow) == 2) {
				t.Errorf("%s %v: %q", way, n.Allow, got)
			}
		}
	}
}

// Giant heads and slow ones end.
func TestAttackHeads(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{"example.com"}})
	w.names["example.com"] = []string{public}
	w.web(public + ":80")
	for what, text := range map[string]string{
		"a giant field":   "GET / HTTP/1.1\r\nHost: example.com\r\nX: " + strings.Repeat("a", maxHead) + "\r\n\r\n",
		"many fields":     "GET / HTTP/1.1\r\nHost: example.com\r\n" + strings.Repeat("X: a\r\n", maxFields+1) + "\r\n",
		"a giant line":    "GET /" + strings.Repeat("a", 2*maxLine) + " HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"a line, no end":  "GET /" + strings.Repeat("a", 2*maxLine),
		"a head, no end":  "GET / HTTP/1.1\r\nHost: example.com\r\nX: ",
		"half a greeting": "\x16\x03\x01\x02\x00\x01\x00",
	} {
		c, err := w.dialName("example.com", "80")
		if err != nil {
			t.Fatal(err)
		}
		if got := say(t, c, text); strings.Contains(got, " 200 ") {
			t.Errorf("%s: %q", what, got)
		}
	}
	if w.dials() != "" {
		t.Errorf("dialled %s", w.dials())
	}
}

// More connections than there may be are refused; those that are there go on.
func TestAttackManyConnections(t *testing.T) {
	w := newWorld(t, atoll.Network{Allow: []string{"example.com"}})
	w.names["example.com"] = []string{public}
	w.web(public + ":80")
	var idle []*fake
	for range 10_000 {
		f := newFake()
		idle = append(idle, f)
		go w.s.serveProxy(f)
	}
	gone := make(chan struct{}, len(idle))
	for _, f := range idle {
		go func() {
			<-f.gone
			gone <- struct{}{}
		}()
	}
	deadline := time.After(time.Minute)
	for i := range 10_000 - maxFlows {
		select {
		case <-gone:
		case <-deadline:
			t.Fatalf("%d refused", i)
		}
	}
	w.s.mu.Lock()
	n := len(w.s.flows)
	w.s.mu.Unlock()
	if n > maxFlows {
		t.Errorf("%d connections at once", n)
	}
	for _, f := range idle {
		f.Close()
	}
	var got string
	for range 100 { // the last of them are going
		if got = get(w.client("proxy", nil), "http://example.com/"); strings.HasPrefix(got, "GET ") {
			return
		}
	}
	t.Errorf("afterwards: %s", got)
}

// fake is a connection from inside on which nothing happens.
type fake struct {
	net.Conn
	once sync.Once
	gone chan struct{}
}

func newFake() *fake { return &fake{gone: make(chan struct{})} }

func (f *fake) Read([]byte) (int, error) {
	<-f.gone
	return 0, io.EOF
}
func (f *fake) Write(b []byte) (int, error)     { return len(b), nil }
func (f *fake) Close() error                    { f.once.Do(func() { close(f.gone) }); return nil }
func (f *fake) LocalAddr() net.Addr             { return &net.TCPAddr{} }
func (f *fake) SetReadDeadline(time.Time) error { return nil }

// A gigabyte flows through in little memory, both ways.
func TestAttackGigabyte(t *testing.T) {
	if testing.Short() || !testenv.All() {
		t.Skip("a gigabyte takes a while: in the real tier")
	}
	w := newWorld(t, atoll.Network{Allow: []string{"example.com"}})
	w.names["example.com"] = []string{public}
	const size = 1 << 30
	srv := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		out.Header().Set("X-Got", fmt.Sprint(n))
		_, _ = io.CopyN(out, zeros{}, size)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: srv} //nolint:gosec // a test's
	go s.Serve(l)
	defer s.Close()
	w.hosts[public+":80"] = l.Addr().String()
	c := w.client("direct", nil)
	c.Timeout = time.Minute
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://example.com/", io.LimitReader(zeros{}, size))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	runtime.ReadMemStats(&after)
	if err != nil || n != size || resp.Header.Get("X-Got") != fmt.Sprint(size) {
		t.Errorf("%d bytes, %v, %s", n, err, resp.Header.Get("X-Got"))
	}
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 64<<20 {
		t.Errorf("the heap has grown by %d MB", grown>>20)
	}
	t.Logf("2 GiB in %v", time.Since(start))
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
