package guest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// fingerprintSize is the length of a certificate's fingerprint in bytes.
const fingerprintSize = sha256.Size

// newCertificate returns a self-signed certificate that contains nothing but the key. The peer
// knows the key, or the fingerprint of the certificate.
func newCertificate(key crypto.Signer) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// peerCertificate returns the certificate of the other end.
func peerCertificate(s tls.ConnectionState) (*x509.Certificate, error) {
	if len(s.PeerCertificates) == 0 {
		return nil, fmt.Errorf("%w: no certificate", atoll.ErrDenied)
	}
	return s.PeerCertificates[0], nil
}

// NewTLSListener is Guard with mutual TLS, for connections over a network. It accepts clients with a
// certificate of the key. It returns the fingerprint of the listener's own certificate, which is
// new for each call.
func NewTLSListener(l net.Listener, key ed25519.PublicKey) (guarded net.Listener, fingerprint []byte, err error) {
	_, own, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	cert, err := newCertificate(own)
	if err != nil {
		return nil, nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			c, err := peerCertificate(s)
			if err != nil {
				return err
			}
			if k, ok := c.PublicKey.(ed25519.PublicKey); !ok || !k.Equal(key) {
				return fmt.Errorf("%w: a certificate of another key", atoll.ErrDenied)
			}
			return nil
		},
	}
	sum := sha256.Sum256(cert.Certificate[0])
	return newAuthListener(l, func(conn net.Conn) (net.Conn, error) {
		c := tls.Server(conn, config)
		return c, c.Handshake() //nolint:noctx // the connection has a deadline
	}), sum[:], nil
}

// AuthenticateHostTLS opens mutual TLS on a connection to a guest whose certificate has the given
// fingerprint; see AuthenticateHost. After an error conn is closed.
func AuthenticateHostTLS(ctx context.Context, conn net.Conn, key ed25519.PrivateKey, fingerprint []byte) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, authTimeout, fmt.Errorf("%w after %v", atoll.ErrTimeout, authTimeout))
	defer cancel()
	cert, err := newCertificate(key)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection checks the fingerprint; no certificate authority is involved
		VerifyConnection: func(s tls.ConnectionState) error {
			c, err := peerCertificate(s)
			if err != nil {
				return err
			}
			if sum := sha256.Sum256(c.Raw); !bytes.Equal(sum[:], fingerprint) {
				return fmt.Errorf("%w: the guest at this address has another certificate than the sandbox's", atoll.ErrDenied)
			}
			return nil
		},
	})
	if err := c.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the first error counts
		return nil, wrapNoAnswer(ctx, err)
	}
	return c, nil
}
