package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/atoll-sandbox/atoll"
)

// world is a gate with a world that is made up: names, and what listens where.
type world struct {
	t *testing.T
	s *server
	n *network

	served sync.WaitGroup // connections from inside
	mu     sync.Mutex
	names  map[string][]string   // what names lead to; the first call of several in hosts takes the first…
	turns  map[string][][]string // what they lead to at each lookup, if it changes
	hosts  map[string]string     // ip:port to what really listens
	dialed []string              // ip:port
	asked  []string              // names looked up
}

func newWorld(t *testing.T, n atoll.Network) *world {
	t.Helper()
	w := &world{t: t, names: make(map[string][]string), turns: make(map[string][][]string), hosts: make(map[string]string)}
	w.n = newNetwork(resolution{Servers: []string{"127.0.0.1:1"}})
	w.n.lookup, w.n.dial = w.lookup, w.dial
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s, err := newServer(ctx, n, w.n, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.s = s
	return w
}

func (w *world) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, host)
	list := w.names[host]
	if t := w.turns[host]; len(t) > 0 {
		list, w.turns[host] = t[0], t[1:]
	}
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, to.String())
	real := w.hosts[to.String()]
	w.mu.Unlock()
	if real == "" {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return new(net.Dialer).DialContext(ctx, "tcp", real)
}

func (w *world) dials() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.dialed, " ")
}

// listen puts what serves each connection at an address of the world.
func (w *world) listen(at string, serve func(net.Conn)) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[at] = l.Addr().String()
}

// web puts a web server at addresses of the world: it says what it was asked.
func (w *world) web(at ...string) *httptest.Server {
	w.t.Helper()
	srv := httptest.NewServer(page())
	w.t.Cleanup(srv.Close)
	w.place(srv, at...)
	return srv
}

func (w *world) webTLS(at ...string) *httptest.Server {
	w.t.Helper()
	srv := httptest.NewUnstartedServer(page())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	w.t.Cleanup(srv.Close)
	w.place(srv, at...)
	return srv
}

func (w *world) place(srv *httptest.Server, at ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range at {
		w.hosts[a] = srv.Listener.Addr().String()
	}
}

func page() http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(out, r, to, http.StatusFound)
			return
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		fmt.Fprintf(out, "%s %s%s key=%q body=%d", r.Method, r.Host, r.URL.RequestURI(), r.Header.Get("Authorization"), len(b))
	})
}

// aimed is a connection that was made to an address.
type aimed struct {
	*net.TCPConn
	to net.Addr
}

func (c aimed) LocalAddr() net.Addr { return c.to }

func (c aimed) Reset() error { return errors.Join(c.SetLinger(0), c.Close()) }

// pair returns both ends of a connection.
func pair(t testing.TB) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// serve hands the other end of a new connection to f.
func (w *world) serve(to string, f func(net.Conn)) net.Conn {
	a, b := pair(w.t)
	addr := &net.TCPAddr{}
	if to != "" {
		addr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(to))
	}
	w.served.Go(func() {
		defer b.Close()
		f(aimed{b, addr})
	})
	_ = a.SetDeadline(time.Now().Add(20 * time.Second))
	return a
}

// to connects as a program does that dials an address.
func (w *world) to(address string) net.Conn { return w.serve(address, w.s.serveRedirected) }

// proxy connects to the proxy.
func (w *world) proxy() net.Conn { return w.serve("", w.s.serveProxy) }

var errName = errors.New("no address")

// resolve asks the gate for a name, as a program does.
func (w *world) resolve(name string, kind dnsmessage.Type) (string, dnsmessage.Message) {
	w.t.Helper()
	q, err := dnsmessage.NewName(name)
	if err != nil {
		w.t.Fatal(err)
	}
	var opt dnsmessage.ResourceHeader
	if err := opt.SetEDNS0(1232, 0, false); err != nil {
		w.t.Fatal(err)
	}
	m := dnsmessage.Message{
		Header:      dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions:   []dnsmessage.Question{{Name: q, Type: kind, Class: dnsmessage.ClassINET}},
		Additionals: []dnsmessage.Resource{{Header: opt, Body: &dnsmessage.OPTResource{}}},
	}
	b, err := m.Pack()
	if err != nil {
		w.t.Fatal(err)
	}
	c := w.serve("", w.s.serveDNS)
	defer c.Close()
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)); err != nil {
		w.t.Fatal(err)
	}
	var head [2]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		w.t.Fatal(err)
	}
	b = make([]byte, binary.BigEndian.Uint16(head[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		w.t.Fatal(err)
	}
	var a dnsmessage.Message
	if err := a.Unpack(b); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range a.Answers {
		if ip, ok := r.Body.(*dnsmessage.AResource); ok {
			return netip.AddrFrom4(ip.A).String(), a
		}
	}
	return "", a
}

// dialName connects as a program does that dials a name.
func (w *world) dialName(name, port string) (net.Conn, error) {
	w.t.Helper()
	a, m := w.resolve(strings.TrimSuffix(name, ".")+".", dnsmessage.TypeA)
	if a == "" {
		return nil, fmt.Errorf("%w: %s: %v", errName, name, m.RCode)
	}
	return w.to(net.JoinHostPort(a, port)), nil
}

// client is a program with an HTTP library, which dials names or knows the
// proxy. It trusts what is given.
func (w *world) client(way string, trust *x509.CertPool) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}}
	switch way {
	case "direct":
		tr.DialContext = func(_ context.Context, _, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			if _, err := netip.ParseAddr(host); err == nil {
				return w.to(address), nil
			}
			return w.dialName(host, port)
		}
	case "proxy", "socks":
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return w.proxy(), nil }
		scheme := map[string]string{"proxy": "http", "socks": "socks5h"}[way]
		tr.Proxy = func(*http.Request) (*urlType, error) { return mustURL(scheme + "://proxy.test:3128"), nil }
	}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// get returns what comes of a URL: the body, or the code and body, or an error.
func get(c *http.Client, url string) string {
	resp, err := c.Get(url) //nolint:noctx // the client has a timeout
	if err != nil {
		return "error: " + err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return "error: " + err.Error()
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("%d %s", resp.StatusCode, b)
	}
	return string(b)
}

// say sends text and returns all that comes back.
func say(t testing.TB, c net.Conn, text string) string {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		return "error: " + err.Error()
	}
	_ = c.(interface{ CloseWrite() error }).CloseWrite() // the other may have gone
	b, err := io.ReadAll(bufio.NewReader(c))
	if err != nil && len(b) == 0 {
		return "error: " + err.Error()
	}
	return string(b)
}

// last returns the newest entry of the journal.
func (w *world) last() atoll.Connection {
	w.t.Helper()
	list := w.s.journal.list()
	if len(list) == 0 {
		w.t.Fatal("nothing is written down")
	}
	return list[len(list)-1]
}
