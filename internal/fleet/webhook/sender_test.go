package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// network is a fake resolver and a fake network that leads every address to one server.
type network struct {
	names  map[string][][]string // answers of each name, one for each query; the last stays
	server net.Addr

	mu     sync.Mutex
	dialed []string // guarded by mu, as below
	asked  map[string]int
}

func (n *network) lookup(_ context.Context, host string) (list []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answers := n.names[host]
	if len(answers) == 0 {
		return nil, errors.New("lookup " + host + " on 10.0.0.53:53: no such host")
	}
	if n.asked == nil {
		n.asked = make(map[string]int)
	}
	at := min(n.asked[host], len(answers)-1)
	n.asked[host]++
	for _, a := range answers[at] {
		list = append(list, netip.MustParseAddr(a))
	}
	return list, nil
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	n.mu.Unlock()
	var d net.Dialer
	return d.DialContext(ctx, "tcp", n.server.String())
}

// newNetwork returns a network whose every address is an HTTPS server, and a sender in it.
func newNetwork(t *testing.T, h http.HandlerFunc, names map[string][][]string, allow ...string) (*network, *Sender) {
	t.Helper()
	srv := httptest.NewTLSServer(h)
	t.Cleanup(srv.Close)
	n := &network{names: names, server: srv.Listener.Addr()}
	conf := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	conf.ServerName = "example.com"
	o := Options{Lookup: n.lookup, Dial: n.dial, TLS: conf}
	for _, a := range allow {
		o.Allow = append(o.Allow, netip.MustParsePrefix(a))
	}
	s := NewSender(o)
	t.Cleanup(s.Close)
	return n, s
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func TestSignature(t *testing.T) {
	secret, body := NewSecret(), []byte(`{"id":1}`)
	var got http.Header
	var sent []byte
	_, s := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		sent, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusOK)
	}, map[string][][]string{"hooks.test": {{"8.8.8.8"}}})
	if status, err := s.Send(t.Context(), Message{URL: "https://hooks.test/x", Secret: secret, ID: "m1", Body: body}); status != 200 || err != nil {
		t.Fatal(status, err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%s.%s.%s", got.Get("webhook-id"), got.Get("webhook-timestamp"), sent)
	if want := "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil)); got.Get("webhook-signature") != want || got.Get("webhook-id") != "m1" || got.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v, want the signature %s", got, want)
	}
	if string(sent) != string(body) {
		t.Errorf("sent %s", sent)
	}
	if strings.Contains(fmt.Sprint(got), secret) {
		t.Error("the secret was sent")
	}
}

// The vector of the specification Standard Webhooks.
func TestSignatureOfTheSpecification(t *testing.T) {
	got, err := Sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if err != nil || got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := Sign("whsec_short", "m", time.Now(), nil); err == nil {
		t.Error("a damaged secret signs")
	}
}

// No address of this host or its networks is dialled.
func TestPrivateAddressesAreRefused(t *testing.T) {
	for _, a := range []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192",
		"224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
		"64:ff9b:1::1", "2002:7f00:1::1", "::7f00:1", "2001::1",
	} {
		t.Run(strings.ReplaceAll(a, ":", "-"), func(t *testing.T) {
			n, s := newNetwork(t, ok, map[string][][]string{"hooks.test": {{a}}})
			literal := a
			if strings.Contains(a, ":") {
				literal = "[" + a + "]"
			}
			for _, host := range []string{"hooks.test", literal} {
				status, err := s.Send(t.Context(), Message{URL: "https://" + host + "/", Secret: NewSecret(), ID: "m1"})
				if status != 0 || !errors.Is(err, atoll.ErrDenied) {
					t.Errorf("%s: %d, %v", host, status, err)
				}
				if err != nil && host == "hooks.test" && strings.Contains(err.Error(), a) && len(a) > 3 {
					t.Errorf("the error tells the address: %v", err)
				}
			}
			if len(n.dialed) > 0 {
				t.Errorf("dialled %v", n.dialed)
			}
		})
	}
}

// Other forms of loopback addresses are names for Go, which the resolver does not know.
func TestOddFormsOfAddresses(t *testing.T) {
	for _, host := range []string{"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "127.0.0.1.", "[::1%25lo]"} {
		n, s := newNetwork(t, ok, nil)
		if _, err := s.Send(t.Context(), Message{URL: "https://" + host + "/", Secret: NewSecret(), ID: "m1"}); err == nil || len(n.dialed) > 0 {
			t.Errorf("%s: %v, dialled %v", host, err, n.dialed)
		} else if strings.Contains(err.Error(), "10.0.0.53") {
			t.Errorf("%s: the error names the resolver: %v", host, err)
		}
	}
}

// A name that leads to a public address when it is checked and to a private one later: the address
// that was checked is the one that is dialled.
func TestRebinding(t *testing.T) {
	n, s := newNetwork(t, ok, map[string][][]string{"hooks.test": {{"8.8.8.8"}, {"127.0.0.1"}}})
	if status, err := s.Send(t.Context(), Message{URL: "https://hooks.test/", Secret: NewSecret(), ID: "m1"}); status != 204 || err != nil {
		t.Fatal(status, err)
	}
	if n.asked["hooks.test"] != 1 || len(n.dialed) != 1 || n.dialed[0] != "8.8.8.8:443" {
		t.Errorf("asked %v, dialled %v", n.asked, n.dialed)
	}
	s.Close() // the next attempt needs a connection
	if status, err := s.Send(t.Context(), Message{URL: "https://hooks.test/", Secret: NewSecret(), ID: "m1"}); status != 0 || !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("after rebinding: %d, %v", status, err)
	}
	if len(n.dialed) != 1 {
		t.Errorf("dialled %v", n.dialed)
	}
}

// Of several addresses, only the public ones are dialled.
func TestMixedAddresses(t *testing.T) {
	n, s := newNetwork(t, ok, map[string][][]string{"hooks.test": {{"127.0.0.1", "::1", "8.8.4.4", "10.0.0.1"}}})
	if status, err := s.Send(t.Context(), Message{URL: "https://hooks.test/", Secret: NewSecret(), ID: "m1"}); status != 204 || err != nil {
		t.Error(status, err)
	}
	if len(n.dialed) != 1 || n.dialed[0] != "8.8.4.4:443" {
		t.Errorf("dialled %v", n.dialed)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		n, s := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				t.Errorf("%s was requested", r.URL)
			}
			http.Redirect(w, r, "https://127.0.0.1/latest/meta-data/", status)
		}, map[string][][]string{"hooks.test": {{"8.8.8.8"}}})
		got, err := s.Send(t.Context(), Message{URL: "https://hooks.test/", Secret: NewSecret(), ID: "m1"})
		if got != status || err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("%d: %d, %v", status, got, err)
		}
		if len(n.dialed) != 1 {
			t.Errorf("dialled %v", n.dialed)
		}
	}
}

// The operator's setting opens addresses, and plain HTTP to them alone.
func TestAllow(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(ok))
	t.Cleanup(plain.Close)
	n, s := newNetwork(t, ok, map[string][][]string{"in.test": {{"10.9.0.1"}}, "out.test": {{"10.8.0.1"}}, "public.test": {{"8.8.8.8"}}}, "10.9.0.0/16")
	for url, want := range map[string]bool{"https://in.test/": true, "https://out.test/": false, "http://public.test/": false, "http://out.test/": false, "https://public.test/": true} {
		_, err := s.Send(t.Context(), Message{URL: url, Secret: NewSecret(), ID: "m1"})
		if want != (err == nil) || !want && !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("%s: %v", url, err)
		}
	}
	s.Close()
	n.server = plain.Listener.Addr()
	if _, err := s.Send(t.Context(), Message{URL: "http://in.test/", Secret: NewSecret(), ID: "m1"}); err != nil {
		t.Errorf("plain HTTP to an allowed address: %v", err)
	}
}

// A hostile receiver costs a bounded amount of memory and time.
func TestHostileReceivers(t *testing.T) {
	for law, h := range map[string]http.HandlerFunc{
		"GiantBody": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			for range 1000 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
			t.Error("the whole body was read")
		},
		"GiantHeader": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			w.WriteHeader(http.StatusOK)
		},
	} {
		t.Run(law, func(t *testing.T) {
			_, s := newNetwork(t, h, map[string][][]string{"hooks.test": {{"8.8.8.8"}}})
			_, err := s.Send(t.Context(), Message{URL: "https://hooks.test/", Secret: NewSecret(), ID: "m1"})
			if law == "GiantHeader" && err == nil {
				t.Error("a header of 1 MiB was read")
			}
			s.Close()
		})
	}
}

// The environment's proxy would resolve names itself: it is not used.
func TestProxyIsNotUsed(t *testing.T) {
	if NewSender(Options{}).client.Transport.(*http.Transport).Proxy != nil {
		t.Error("the sender uses a proxy")
	}
}

// A receiver that accepts the connection and never answers costs one timeout.
func TestStalledReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSender(Options{
			Lookup: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
			},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				return ours, nil
			},
		})
		begun := time.Now()
		status, err := s.Send(t.Context(), Message{URL: "https://hooks.test/", Secret: NewSecret(), ID: "m1"})
		if status != 0 || !errors.Is(err, atoll.ErrTimeout) || time.Since(begun) != Timeout {
			t.Errorf("%d, %v, after %v", status, err, time.Since(begun))
		}
		s.Close()
	})
}

// TestAddressThatDoesNotAnswer: an address that answers no connection leaves time for the host's next one.
func TestAddressThatDoesNotAnswer(t *testing.T) {
	n, s := newNetwork(t, ok, map[string][][]string{"hooks.test": {{"8.8.4.4", "8.8.8.8"}}})
	dial := s.opts.Dial
	s.opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "8.8.4.4:443" {
			if end, limited := ctx.Deadline(); !limited || time.Until(end) > Timeout/2 {
				t.Errorf("it may take until %v", end)
			}
			return nil, context.DeadlineExceeded
		}
		return dial(ctx, network, address)
	}
	if status, err := s.Send(t.Context(), Message{URL: "https://hooks.test/", Secret: NewSecret(), ID: "m1"}); status != 204 || err != nil {
		t.Error(status, err)
	}
	if len(n.dialed) != 1 {
		t.Errorf("dialled %v", n.dialed)
	}
}

// TestErrorsNameNoAddress: what an owner reads of a failed attempt names no address and quotes no answer.
func TestErrorsNameNoAddress(t *testing.T) {
	for what, answer := range map[string]string{"reset": "", "other protocol": "SSH-2.0-inside.example\r\n"} {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of a test
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_, _ = io.WriteString(c, answer)
			_ = c.(*net.TCPConn).SetLinger(0) // a reset, if the request was not read whole
			_ = c.Close()
		}()
		s := NewSender(Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		_, err = s.Send(t.Context(), Message{URL: "http://" + l.Addr().String() + "/", Secret: NewSecret(), ID: "m1"})
		if err == nil || strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "inside") {
			t.Errorf("%s: %v", what, err)
		}
		s.Close()
		_ = l.Close()
	}
}

// TestOwnAddressIsRefused: a public address of this host is not dialled.
func TestOwnAddressIsRefused(t *testing.T) {
	list, err := net.InterfaceAddrs()
	if err != nil || len(list) == 0 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, l := range list {
		a, ok := netip.AddrFromSlice(l.(*net.IPNet).IP)
		if !ok || !isLocal(a.Unmap()) {
			t.Errorf("%v is not one of this host's", l)
		}
	}
	if isLocal(netip.MustParseAddr("8.8.8.8")) {
		t.Error("8.8.8.8 is one of this host's")
	}
}
