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

// fingerprintSize is the length of a certificate's fingerprint.
const fingerprintSize = sha256.Size

// certificate makes one that says nothing but the key: who it is shown to knows
// that, or its fingerprint.
func certificate(key crypto.Signer) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// peerOf returns the certificate that the other end has shown.
func peerOf(s tls.ConnectionState) (*x509.Certificate, error) {
	if len(s.PeerCertificates) == 0 {
		return nil, fmt.Errorf("%w: no certificate", atoll.ErrDenied)
	}
	return s.PeerCertificates[0], nil
}

// GuardDirect is Guard with mutual TLS, for connections that come over a network:
// it lets in who shows a certificate of the key. The fingerprint is of the
// listener's own certificate, which is made anew.
func GuardDirect(l net.Listener, key ed25519.PublicKey) (guarded net.Listener, fingerprint []byte, err error) {
	_, own, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	cert, err := certificate(own)
	if err != nil {
		return nil, nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			c, err := peerOf(s)
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
	return newDoor(l, func(conn net.Conn) (net.Conn, error) {
		c := tls.Server(conn, config)
		return c, c.Handshake() //nolint:noctx // it has a deadline
	}), sum[:], nil
}

// ProveDirect makes mutual TLS of a connection to a guest whose certificate has
// the fingerprint, see Prove. After an error conn is closed.
func ProveDirect(ctx context.Context, conn net.Conn, key ed25519.PrivateKey, fingerprint []byte) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, doorTime, fmt.Errorf("%w after %v", atoll.ErrTimeout, doorTime))
	defer cancel()
	cert, err := certificate(key)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert},
		InsecureSkipVerify: true, //nolint:gosec // the certificate is known, see below; no authority has a say
		VerifyConnection: func(s tls.ConnectionState) error {
			c, err := peerOf(s)
			if err != nil {
				return err
			}
			if sum := sha256.Sum256(c.Raw); !bytes.Equal(sum[:], fingerprint) {
				return fmt.Errorf("%w: it is not the sandbox's guest that answers at its address", atoll.ErrDenied)
			}
			return nil
		},
	})
	if err := c.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the error says more
		return nil, noAnswer(ctx, err)
	}
	return c, nil
}
