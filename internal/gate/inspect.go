package gate

import (
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
	"math/big"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/internal/gate/policy"
)

// authority is a sandbox's own: it vouches for hosts whose TLS is looked into.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	leaf *ecdsa.PrivateKey // of all leaves

	mu    sync.Mutex
	made  map[string]*list.Element // guarded by mu, as all below
	order list.List                // of *leaf, the newest first
}

type leaf struct {
	host string
	cert *tls.Certificate
}

// mostLeaves bounds the certificates that are kept.
const mostLeaves = 256

// How long certificates hold.
const (
	authorityYears = 10
	leafDays       = 30
	clockSkew      = 24 * time.Hour
)

// newAuthority makes an authority and returns its certificate and key as PEM.
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

// readAuthority reads what newAuthority has made.
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

// certificate returns one for a host, made if there is none.
func (a *authority) certificate(host string) (*tls.Certificate, error) {
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
	cert, err := a.issue(host)
	if err != nil {
		return nil, err
	}
	if a.order.Len() >= mostLeaves {
		old := a.order.Remove(a.order.Back()).(*leaf)
		delete(a.made, old.host)
	}
	a.made[host] = a.order.PushFront(&leaf{host, cert})
	return cert, nil
}

func (a *authority) issue(host string) (*tls.Certificate, error) {
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

// ahead is the flow's connection, with what was read of it before.
type ahead struct {
	net.Conn
	f *flow
}

// Read reads as the flow does.
func (c ahead) Read(b []byte) (int, error) { return c.f.Read(b) }

// inspect answers TLS in the host's place and serves the HTTP in it.
func (f *flow) inspect(up net.Conn) {
	if up != nil {
		_ = up.Close() // requests make their own
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.s.ca.certificate(f.host) },
	}
	c := tls.Server(ahead{f.conn, f}, cfg)
	ctx, cancel := context.WithTimeout(f.ctx, wholeHead)
	err := c.HandshakeContext(ctx)
	cancel()
	if err != nil {
		f.refuse("tls", policy.Verdict{Reason: "the program does not trust the sandbox's authority, or broke off: " + clip(err.Error())})
		f.cut(errOver)
		return
	}
	f.http(policy.HTTPS, c)
	_ = c.CloseWrite() // it is over
}
