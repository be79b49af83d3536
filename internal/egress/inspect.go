package egress

import (
	"bufio"
	"container/list"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// authority is the certificate authority of a sandbox. It issues certificates for inspected hosts.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	leaf *ecdsa.PrivateKey // key of all issued certificates

	mu    sync.Mutex
	made  map[string]*list.Element // guarded by mu, like order
	order list.List                // of *leaf, most recently used first
}

type leaf struct {
	host string
	cert *tls.Certificate
}

// maxLeaves limits the number of cached certificates.
const maxLeaves = 256

// Validity of certificates.
const (
	authorityYears = 10
	leafDays       = 30
	clockSkew      = 24 * time.Hour
)

// newAuthority creates an authority and returns its certificate and key as PEM.
func newAuthority(name string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "atoll sandbox " + name},
		NotBefore: now.Add(-clockSkew), NotAfter: now.AddDate(authorityYears, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	out := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(out, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...), nil
}

// readAuthority parses the result of newAuthority.
func readAuthority(text []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("the sandbox's authority: %w", err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the sandbox's authority: its key can't sign")
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, leaf: leafKey, made: make(map[string]*list.Element)}, nil
}

// certFor returns a certificate for a host, from the cache or a new one.
func (a *authority) certFor(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.made[host]; e != nil {
		if l := e.Value.(*leaf); time.Now().Before(l.cert.Leaf.NotAfter.Add(-clockSkew)) {
			a.order.MoveToFront(e)
			return l.cert, nil
		}
		a.order.Remove(e)
		delete(a.made, host)
	}
	cert, err := a.issueCert(host)
	if err != nil {
		return nil, err
	}
	if a.order.Len() >= maxLeaves {
		old := a.order.Remove(a.order.Back()).(*leaf)
		delete(a.made, old.host)
	}
	a.made[host] = a.order.PushFront(&leaf{host, cert})
	return cert, nil
}

func (a *authority) issueCert(host string) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"atoll"}},
		NotBefore: now.Add(-clockSkew), NotAfter: now.AddDate(0, 0, leafDays),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = []net.IP{ip.AsSlice()}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.leaf.Public(), a.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: a.leaf, Leaf: parsed}, nil
}

// bufferedConn is the flow's connection including the bytes that were read ahead.
type bufferedConn struct {
	net.Conn
	f *flow
}

// Read reads from the flow.
func (c bufferedConn) Read(b []byte) (int, error) { return c.f.Read(b) }

// serveInspected answers TLS in place of the host and serves the HTTP in it.
func (f *flow) serveInspected(up net.Conn) {
	if up != nil {
		_ = up.Close() // each request connects itself
	}
	c, err := f.answerTLS()
	if err != nil {
		f.recordRefusal("tls", policy.Verdict{Reason: "the program does not trust the sandbox's certificate authority, or disconnected: " + truncate(err.Error())})
		f.abortWith(errClosed)
		return
	}
	if c.ConnectionState().NegotiatedProtocol == "h2" {
		f.serveHTTP2(c)
		return
	}
	f.serveHTTP(policy.HTTPS, c)
	_ = c.CloseWrite() // best effort
}

// answerTLS answers the handshake of TLS in place of the host.
func (f *flow) answerTLS() (*tls.Conn, error) {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.s.ca.certFor(f.host) },
	}
	c := tls.Server(bufferedConn{f.conn, f}, cfg)
	ctx, cancel := context.WithTimeout(f.ctx, headTimeout)
	defer cancel()
	return c, c.HandshakeContext(ctx)
}

// sendReasonInTLS answers the first request in a refused TLS connection with the reason. Nothing is sent to
// the host.
func (f *flow) sendReasonInTLS(reason string) {
	c, err := f.answerTLS()
	if err != nil {
		f.abortWith(errClosed) // the refusal is recorded already
		return
	}
	_ = f.conn.SetReadDeadline(time.Now().Add(headTimeout)) // a closed connection fails below
	if c.ConnectionState().NegotiatedProtocol == "h2" {
		s := &http2.Server{MaxConcurrentStreams: maxStreams, IdleTimeout: lingerTimeout}
		s.ServeConn(c, &http2.ServeConnOpts{
			Context: f.ctx, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { sendError(w, http.StatusForbidden, reason) }),
			BaseConfig: &http.Server{ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: headTimeout, MaxHeaderBytes: maxHead},
		})
		return
	}
	if _, err := readHead(bufio.NewReader(c)); err == nil {
		_, _ = c.Write(buildErrorResponse(http.StatusForbidden, reason)) // best effort
	}
	_ = c.CloseWrite() // best effort
	f.closeGently()
}
