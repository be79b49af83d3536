package guest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// A guest that listens where programs inside can connect accepts only its host, which proves
// that it has the private key to the public key of the guest's configuration. The guest begins:
//
//	atoll-door 1 ID NONCE FINGERPRINT\n
//
// ID is the sandbox's id, NONCE 32 random bytes in hexadecimal, FINGERPRINT the SHA-256 of the
// certificate that the guest uses at its TLS address, or "-". The host responds with a signature
// of authContext, ID, a NUL byte and the bytes of NONCE. The guest sends authAccepted, then the
// greeting. So a signature for one connection or sandbox is of no use for another.
const (
	authContext  = "atoll: a host at the door of its guest, 1\x00"
	authPrefix   = "atoll-door 1 "
	authAccepted = '+'
	nonceSize    = 32
	maxAuthLine  = 256 // bytes of the first line
)

// authTimeout is the time that each end has to authenticate.
const authTimeout = 10 * time.Second

// authMessage returns the text that the host signs.
func authMessage(id string, nonce []byte) []byte {
	return append(append([]byte(authContext+id), 0), nonce...)
}

// AuthenticateHost authenticates the host to the guest of a sandbox. It returns the fingerprint of the
// certificate that the guest uses at its TLS address, or nil if the guest has none. A guest with
// another key is ErrDenied. After an error conn must not be used any more.
func AuthenticateHost(ctx context.Context, conn net.Conn, key ed25519.PrivateKey, id string) (fingerprint []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, authTimeout, fmt.Errorf("%w after %v", atoll.ErrTimeout, authTimeout))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	line, err := readFirstLine(conn, maxAuthLine)
	if err != nil {
		return nil, wrapNoAnswer(ctx, err)
	}
	nonce, fingerprint, err := parseAuthLine(line, id)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(ed25519.Sign(key, authMessage(id, nonce))); err != nil {
		return nil, wrapNoAnswer(ctx, err)
	}
	var open [1]byte
	switch _, err := io.ReadFull(conn, open[:]); {
	case errors.Is(err, io.EOF) && ctx.Err() == nil:
		return nil, fmt.Errorf("%w: the guest was configured with another host's key: the sandbox can be reached only with the key that it was created with", atoll.ErrDenied)
	case err != nil:
		return nil, wrapNoAnswer(ctx, err)
	case open[0] != authAccepted:
		return nil, fmt.Errorf("%w: %q instead of the confirmation", errWire, open[0])
	}
	return fingerprint, nil
}

var errNoAnswer = errors.New("the guest does not answer")

// wrapNoAnswer wraps the error of a guest that does not answer. If ctx is done, its cause
// replaces err: the end of the context closes the connection, so err is only a consequence.
func wrapNoAnswer(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errNoAnswer, err)
}

// parseAuthLine parses the first line of the guest of sandbox id.
func parseAuthLine(line, id string) (nonce, fingerprint []byte, err error) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), authPrefix)
	f := strings.Split(rest, " ")
	if !ok || len(f) != 3 {
		return nil, nil, fmt.Errorf("%w: first line %q", errWire, line)
	}
	if f[0] != id {
		return nil, nil, fmt.Errorf("%w: this is the guest of sandbox %q, not of %s", atoll.ErrUnavailable, f[0], id)
	}
	if nonce, err = hex.DecodeString(f[1]); err != nil || len(nonce) != nonceSize {
		return nil, nil, fmt.Errorf("%w: first line %q", errWire, line)
	}
	if f[2] == "-" {
		return nonce, nil, nil
	}
	if fingerprint, err = hex.DecodeString(f[2]); err != nil || len(fingerprint) != fingerprintSize {
		return nil, nil, fmt.Errorf("%w: first line %q", errWire, line)
	}
	return nonce, fingerprint, nil
}

// keyVerifier is the guest's side of the authentication.
type keyVerifier struct {
	key         ed25519.PublicKey
	id          string
	fingerprint string // in hexadecimal, or "-"
}

// verifyHost returns conn if the other end has the private key, else an error.
func (k *keyVerifier) verifyHost(conn net.Conn) (net.Conn, error) {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	_, err := fmt.Fprintf(conn, "%s%s %x %s\n", authPrefix, k.id, nonce, k.fingerprint)
	signature := make([]byte, ed25519.SignatureSize)
	if err == nil {
		_, err = io.ReadFull(conn, signature)
	}
	if err == nil && !ed25519.Verify(k.key, authMessage(k.id, nonce), signature) {
		err = atoll.ErrDenied
	}
	if err == nil {
		_, err = conn.Write([]byte{authAccepted})
	}
	return conn, err
}

// NewAuthListener returns a listener that accepts those connections of l whose other end has the private
// half of key; see AuthenticateHost. fingerprint is that of the certificate at the guest's TLS address; nil:
// there is none.
func NewAuthListener(l net.Listener, key ed25519.PublicKey, id string, fingerprint []byte) net.Listener {
	k := &keyVerifier{key: key, id: id, fingerprint: "-"}
	if len(fingerprint) > 0 {
		k.fingerprint = hex.EncodeToString(fingerprint)
	}
	return newAuthListener(l, k.verifyHost)
}

// authListener is a listener that accepts only connections that pass authenticate. A connection
// that waits for its authentication does not block others.
type authListener struct {
	net.Listener
	authenticate func(net.Conn) (net.Conn, error)
	accepted     chan acceptResult
	closed       chan struct{} // closed when the listener is
	once         sync.Once

	mu      sync.Mutex
	pending []net.Conn // guarded by mu; the oldest first
}

// acceptResult is what Accept returns.
type acceptResult struct {
	conn net.Conn
	err  error
}

// maxPending is the largest number of connections that wait for their authentication. One more
// replaces the oldest.
const maxPending = 128

func newAuthListener(l net.Listener, admit func(net.Conn) (net.Conn, error)) *authListener {
	d := &authListener{Listener: l, authenticate: admit, accepted: make(chan acceptResult), closed: make(chan struct{})}
	go d.acceptConns()
	return d
}

// Accept returns the next authenticated connection.
func (d *authListener) Accept() (net.Conn, error) {
	select {
	case a := <-d.accepted:
		return a.conn, a.err
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener. Pending connections end at their timeout.
func (d *authListener) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Listener.Close()
}

// acceptConns accepts connections until the listener is closed.
func (d *authListener) acceptConns() {
	for {
		conn, err := d.Listener.Accept()
		if err == nil {
			d.addPending(conn)
			go d.authenticateConn(conn)
			continue
		}
		select {
		case d.accepted <- acceptResult{err: err}:
		case <-d.closed:
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

func (d *authListener) addPending(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) >= maxPending {
		_ = d.pending[0].Close() // its authentication then fails
		d.pending = d.pending[1:]
	}
	d.pending = append(d.pending, conn)
}

// authenticateConn authenticates a connection and passes it to Accept, or closes it.
func (d *authListener) authenticateConn(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(authTimeout)) // a closed connection fails below
	in, err := d.authenticate(conn)
	d.mu.Lock()
	for i, c := range d.pending {
		if c == conn {
			d.pending = append(d.pending[:i], d.pending[i+1:]...)
			break
		}
	}
	d.mu.Unlock()
	if err != nil {
		_ = conn.Close() // closing it is the answer
		return
	}
	_ = conn.SetDeadline(time.Time{}) // as above
	select {
	case d.accepted <- acceptResult{conn: in}:
	case <-d.closed:
		_ = conn.Close() // the listener is closed
	}
}
