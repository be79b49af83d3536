package storage_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// Credentials of the server, and its bucket.
const (
	accessKey = "atoll-access"
	secretKey = "atoll-s3cret-key"
	bucket    = "archives"
)

// s3Server is a real S3 server with a bucket, behind a relay that can cut its connections.
type s3Server struct {
	*relay

	dir     string // of the objects
	options objectstore.Options
}

// startServer starts a server with TLS that ends with the test.
func startServer(t *testing.T) *s3Server {
	t.Helper()
	program := testenv.Program(t, "s3", "ATOLL_S3")
	dir := t.TempDir()
	for _, d := range []string{"data/" + bucket, "meta"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cert, key := writeCertificate(t, dir)
	address := freeAddress(t)
	cmd := exec.CommandContext(t.Context(), program, "--access", accessKey, "--secret", secretKey, "--port", address, "--cert", cert, "--key", key, "--quiet",
		"posix", "--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "data"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // or it has ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the S3 server: %s", out.String())
		}
	})
	waitForServer(t, address, cert)
	r := startRelay(t, address)
	return &s3Server{relay: r, dir: filepath.Join(dir, "data", bucket), options: objectstore.Options{
		Storage: "s3://" + bucket + "/some/prefix", Endpoint: "https://" + r.l.Addr().String(), Region: "us-east-1", CAFile: cert, AccessKey: accessKey, SecretKey: secretKey,
	}}
}

// freeAddress returns an address of this host that no program listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// waitForServer waits until the server answers.
func waitForServer(t *testing.T, address, cert string) {
	t.Helper()
	b, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(b)
	d := tls.Dialer{Config: &tls.Config{RootCAs: pool}}
	for {
		conn, err := d.DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close() // it was opened for the test only
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("the S3 server does not answer: %v", err)
		}
	}
}

// writeCertificate writes a certificate of 127.0.0.1 that is its own authority.
func writeCertificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// relay copies connections to the server, as long as it is up.
type relay struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	down  bool  // new connections are closed
	left  int64 // bytes from or to the server until all connections are cut; 0: none are
	cuts  int   // how often that happened
	stays bool  // it is down after the next cut
	conns map[net.Conn]bool
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{l: l, to: to, conns: make(map[net.Conn]bool)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { r.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // ends the accepting
		r.cutAll()
		wg.Wait()
	})
	return r
}

func (r *relay) serve(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer s.Close()
	r.mu.Lock()
	if r.down {
		r.mu.Unlock()
		return
	}
	r.conns[c], r.conns[s] = true, true
	r.mu.Unlock()
	var wg sync.WaitGroup
	for _, d := range [][2]net.Conn{{c, s}, {s, c}} {
		wg.Go(func() {
			_, _ = io.Copy(struct{ io.Writer }{countingWriter{r, d[1]}}, d[0]) // an end of any kind ends both
			_ = c.Close()
			_ = s.Close()
		})
	}
	wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	delete(r.conns, s)
}

// countingWriter cuts all connections when enough was written.
type countingWriter struct {
	r *relay
	w io.Writer
}

func (c countingWriter) Write(p []byte) (int, error) {
	c.r.mu.Lock()
	cut := false
	if c.r.left > 0 {
		if c.r.left -= int64(len(p)); c.r.left <= 0 {
			c.r.left, cut = 0, true
			c.r.cuts++
			c.r.down = c.r.stays
		}
	}
	c.r.mu.Unlock()
	if cut {
		c.r.cutAll()
	}
	return c.w.Write(p)
}

// cutAll closes all connections.
func (r *relay) cutAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close() // or it is closed
	}
}

// cutAfter cuts all connections once so many bytes have passed; then the server can be reached again, unless it stays
// down.
func (r *relay) cutAfter(bytes int64, stays bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left, r.stays = bytes, stays
}

// up makes the server reachable again, and returns how often connections were cut.
func (r *relay) up() (cuts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down, r.left = false, 0
	cuts, r.cuts = r.cuts, 0
	return cuts
}
