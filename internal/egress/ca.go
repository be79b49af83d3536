package egress

import (
	"bytes"
	"container/list"
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
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// Paths inside an inspected sandbox of the certificates that programs are to trust.
const (
	CAFile    = "/run/atoll/ca.pem"    // the sandbox's authority only
	RootsFile = "/run/atoll/roots.pem" // the sandbox's authority and those of the host
)

// CA returns the certificate of the sandbox's authority as PEM. dir is the directory of the proxy. A
// missing authority is created.
func CA(dir, id string) ([]byte, error) {
	both, err := authorityIn(dir, id)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(both)
	if block == nil {
		return nil, fmt.Errorf("the sandbox's authority in %s is broken", dir)
	}
	return pem.EncodeToMemory(block), nil
}

// authorityIn returns the certificate and key in a directory. Missing ones are created.
func authorityIn(dir, id string) ([]byte, error) {
	path := filepath.Join(dir, caName)
	b, err := os.ReadFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if b, err = newAuthority(id); err != nil {
		return nil, err
	}
	if err = atomicfile.Create(path, b, 0o600); errors.Is(err, fs.ErrExist) { // another process has created it meanwhile
		return os.ReadFile(path)
	}
	return b, err
}

// bundles are the paths where systems store the certificates that they trust.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// Files returns the files that a driver places in a sandbox with this network, by path, readable for
// everyone. Without inspection there are none.
func Files(dir, id string, n atoll.Network) (map[string][]byte, error) {
	if !n.Inspect {
		return map[string][]byte{}, nil
	}
	ca, err := CA(dir, id)
	if err != nil {
		return nil, err
	}
	roots := bytes.Clone(ca)
	for _, path := range bundles {
		if b, err := os.ReadFile(path); err == nil {
			roots = append(append(roots, b...), '\n')
			break
		}
	}
	return map[string][]byte{CAFile: ca, RootsFile: roots}, nil
}

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
