package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

func TestUnixSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "a.sock")
	l, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if l.Addr().String() != path || l.Addr().Network() != "unix" {
		t.Errorf("address %v", l.Addr())
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("socket %v %v", info.Mode(), err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory %v %v", info.Mode(), err)
	}
	if _, err := ListenUnix(path); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("a second server: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
}

// The socket of a server that died is replaced; one that somebody answers on,
// and what is no socket, are left alone.
func TestUnixSocketInTheWay(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := ListenUnix(stale)
	if err != nil {
		t.Fatalf("stale socket: %v", err)
	}
	defer l.Close()

	other := filepath.Join(dir, "other")
	alive, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if _, err := ListenUnix(other); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("a socket in use: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(file); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("a file: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "mine" {
		t.Errorf("the file is %q, %v", b, err)
	}
	if _, err := ListenUnix(filepath.Join(dir, strings.Repeat("long", 40))); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a long path: %v", err)
	}
}

// A successor's socket is not removed by the one before it.
func TestUnixSocketOfASuccessor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	next, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the successor's socket: %v", err)
	}
}

func TestBadAddresses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		law, address string
		want         error
	}{
		{"NoPort", "127.0.0.1", atoll.ErrInvalid},
		{"Taken", taken.Addr().String(), atoll.ErrExists},
		{"NotOurs", "192.0.2.1:0", atoll.ErrInvalid},
		{"BadPort", "127.0.0.1:99999", atoll.ErrUnavailable},
		{"NoSuchHost", "host.invalid:0", atoll.ErrInvalid},
	} {
		t.Run(c.law, func(t *testing.T) {
			l, err := ListenTCP(t.Context(), c.address, nil)
			if err == nil {
				l.Close()
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	if l, err := ListenTCP(t.Context(), "127.0.0.1:0", &TLSFiles{Cert: "/nope", Key: "/nope"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no certificate: %v %v", l, err)
	}
}

// authority makes certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	n    int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.key = key
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue returns a certificate and its key, PEM.
func (a *authority) issue(name string) (cert, key []byte) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.n++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.n), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Certificates are read again when they change, a broken one changes nothing,
// old versions of TLS are refused, and with a client CA so are callers without a
// certificate.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	files := &TLSFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "ca")}
	install := func(name string) {
		cert, key := a.issue(name)
		write(t, files.Cert, cert)
		write(t, files.Key, key)
	}
	install("first")
	write(t, files.ClientCA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
	s := newFleet(t, Options{})
	l, err := ListenTCP(t.Context(), "127.0.0.1:0", files)
	if err != nil {
		t.Fatal(err)
	}
	k := keeperOf(t, files)
	s.serve(l)
	cert, key := a.issue("caller")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	hello := func(c *tls.Config) (name, proto string, err error) {
		c.RootCAs = a.pool()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}}
		defer client.CloseIdleConnections()
		resp, err := client.Get("https://" + l.Addr().String() + "/healthz")
		if err != nil {
			return "", "", err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.TLS.PeerCertificates[0].Subject.CommonName, resp.Proto, err
	}
	if name, proto, err := hello(&tls.Config{Certificates: []tls.Certificate{pair}}); err != nil || name != "first" || proto != "HTTP/1.1" {
		t.Errorf("%s %s %v", name, proto, err)
	}
	if _, _, err := hello(&tls.Config{}); err == nil {
		t.Error("a caller without a certificate was let in")
	}
	if _, _, err := hello(&tls.Config{Certificates: []tls.Certificate{pair}, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 was spoken")
	}

	install("second")
	if got := k.after(reloadInterval); got != "second" {
		t.Errorf("after the files changed: %s", got)
	}
	write(t, files.Cert, []byte("broken"))
	if got := k.after(2 * reloadInterval); got != "second" {
		t.Errorf("with a broken file: %s", got)
	}
	install("third")
	if got := k.after(3 * reloadInterval); got != "third" {
		t.Errorf("after it was mended: %s", got)
	}
}

// testKeeper asks a keeper at times that it chooses.
type testKeeper struct {
	t *testing.T
	k *certReloader
}

func keeperOf(t *testing.T, files *TLSFiles) testKeeper {
	k, err := files.newReloader()
	if err != nil {
		t.Fatal(err)
	}
	return testKeeper{t, k}
}

// after returns whose certificate is shown when some time has passed.
func (k testKeeper) after(d time.Duration) string {
	k.t.Helper()
	now := time.Now().Add(d)
	k.k.now = func() time.Time { return now }
	cert, err := x509.ParseCertificate(k.k.currentConfig().Certificates[0].Certificate[0])
	if err != nil {
		k.t.Fatal(err)
	}
	return cert.Subject.CommonName
}

// Over a pipe, requests are those of this machine's people, and many go at once.
func TestPipe(t *testing.T) {
	s := newFleet(t, Options{})
	l, dial := Pipe()
	s.serve(l)
	s.url = "http://atoll"
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}}
	t.Cleanup(s.client.CloseIdleConnections)
	failed := make(chan string, 16)
	for range 16 {
		go func() {
			for range 20 {
				resp, err := s.client.Get("http://atoll/v1/info")
				if err != nil {
					failed <- err.Error()
					return
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(b), `"local"`) {
					failed <- string(b)
					return
				}
			}
			failed <- ""
		}()
	}
	for range 16 {
		if text := <-failed; text != "" {
			t.Error(text)
		}
	}
	l, dial = Pipe()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := dial(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after the end: %v", err)
	}
}
