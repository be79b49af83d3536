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

// A guest whose port programs inside can connect to lets in only its host, who
// shows the key that the guest was told the public half of. The guest begins:
//
//	atoll-door 1 ID NONCE PRINT\n
//
// ID is the sandbox's, NONCE 32 random bytes in hexadecimal, PRINT the SHA-256
// of the certificate that the guest shows at its direct address, or "-". The
// host answers with a signature of doorWords, ID, a NUL byte and the NONCE's
// bytes; the guest says doorOpen, and the greeting follows. So nothing that was
// signed for one connection, or one sandbox, opens another.
const (
	doorWords = "atoll: a host at the door of its guest, 1\x00"
	doorHead  = "atoll-door 1 "
	doorOpen  = '+'
	nonceSize = 32
	maxDoor   = 256 // bytes of the first line
)

// doorTime is how long each end waits for the other at the door.
const doorTime = 10 * time.Second

// signed is what the host signs.
func signed(id string, nonce []byte) []byte {
	return append(append([]byte(doorWords+id), 0), nonce...)
}

// Prove shows the guest of a sandbox that this is its host, and returns the
// fingerprint of the certificate that the guest shows at its direct address, nil
// if it has none. A guest that was told another key is ErrDenied; conn is then
// of no more use.
func Prove(ctx context.Context, conn net.Conn, key ed25519.PrivateKey, id string) (fingerprint []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, doorTime, fmt.Errorf("%w after %v", atoll.ErrTimeout, doorTime))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	line, err := firstLine(conn, maxDoor)
	if err != nil {
		return nil, noAnswer(ctx, err)
	}
	nonce, fingerprint, err := readDoor(line, id)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(ed25519.Sign(key, signed(id, nonce))); err != nil {
		return nil, noAnswer(ctx, err)
	}
	var open [1]byte
	switch _, err := io.ReadFull(conn, open[:]); {
	case errors.Is(err, io.EOF) && ctx.Err() == nil:
		return nil, fmt.Errorf("%w: the guest was told another host's key: the sandbox is reached with the key that it was made with", atoll.ErrDenied)
	case err != nil:
		return nil, noAnswer(ctx, err)
	case open[0] != doorOpen:
		return nil, fmt.Errorf("%w: %q where the door opens", errWire, open[0])
	}
	return fingerprint, nil
}

var errNoAnswer = errors.New("the guest does not answer")

// noAnswer says that a guest does not answer. The end of a context closes the
// connection: then that is why, and not what is read of it.
func noAnswer(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errNoAnswer, err)
}

// readDoor reads what a guest says first, which must be that of a sandbox.
func readDoor(line, id string) (nonce, fingerprint []byte, err error) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), doorHead)
	f := strings.Split(rest, " ")
	if !ok || len(f) != 3 {
		return nil, nil, fmt.Errorf("%w: at the door it says %q", errWire, line)
	}
	if f[0] != id {
		return nil, nil, fmt.Errorf("%w: it is the guest of %q, not of %s", atoll.ErrUnavailable, f[0], id)
	}
	if nonce, err = hex.DecodeString(f[1]); err != nil || len(nonce) != nonceSize {
		return nil, nil, fmt.Errorf("%w: at the door it says %q", errWire, line)
	}
	if f[2] == "-" {
		return nonce, nil, nil
	}
	if fingerprint, err = hex.DecodeString(f[2]); err != nil || len(fingerprint) != fingerprintSize {
		return nil, nil, fmt.Errorf("%w: at the door it says %q", errWire, line)
	}
	return nonce, fingerprint, nil
}

// doorkeeper is the guest's side of the door.
type doorkeeper struct {
	key   ed25519.PublicKey
	id    string
	print string // in hexadecimal, or "-"
}

// admit lets in the host, or closes the connection.
func (k *doorkeeper) admit(conn net.Conn) (net.Conn, error) {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	_, err := fmt.Fprintf(conn, "%s%s %x %s\n", doorHead, k.id, nonce, k.print)
	signature := make([]byte, ed25519.SignatureSize)
	if err == nil {
		_, err = io.ReadFull(conn, signature)
	}
	if err == nil && !ed25519.Verify(k.key, signed(k.id, nonce), signature) {
		err = atoll.ErrDenied
	}
	if err == nil {
		_, err = conn.Write([]byte{doorOpen})
	}
	return conn, err
}

// Guard returns a listener whose connections are those of l whose other end
// holds the key's private half, see Prove. fingerprint is of the certificate of
// another address, nil if there is none.
func Guard(l net.Listener, key ed25519.PublicKey, id string, fingerprint []byte) net.Listener {
	k := &doorkeeper{key: key, id: id, print: "-"}
	if len(fingerprint) > 0 {
		k.print = hex.EncodeToString(fingerprint)
	}
	return newDoor(l, k.admit)
}

// door is a listener that lets in only whom admit does. Who waits before it
// keeps nobody else from it.
type door struct {
	net.Listener
	admit func(net.Conn) (net.Conn, error)
	came  chan arrival
	over  chan struct{} // closed when the listener is
	once  sync.Once

	mu      sync.Mutex
	waiting []net.Conn // guarded by mu; the oldest first
}

// arrival is what Accept returns.
type arrival struct {
	conn net.Conn
	err  error
}

// mostWaiting is how many connections stand before the door at once. The next
// one takes the place of the oldest.
const mostWaiting = 128

func newDoor(l net.Listener, admit func(net.Conn) (net.Conn, error)) *door {
	d := &door{Listener: l, admit: admit, came: make(chan arrival), over: make(chan struct{})}
	go d.run()
	return d
}

// Accept returns the next connection that was let in.
func (d *door) Accept() (net.Conn, error) {
	select {
	case a := <-d.came:
		return a.conn, a.err
	case <-d.over:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and sends away who waits.
func (d *door) Close() error {
	d.once.Do(func() { close(d.over) })
	return d.Listener.Close()
}

// run takes connections until the listener is closed.
func (d *door) run() {
	for {
		conn, err := d.Listener.Accept()
		if err == nil {
			d.queue(conn)
			go d.greet(conn)
			continue
		}
		select {
		case d.came <- arrival{err: err}:
		case <-d.over:
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

func (d *door) queue(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) >= mostWaiting {
		_ = d.waiting[0].Close() // who stands there finds out
		d.waiting = d.waiting[1:]
	}
	d.waiting = append(d.waiting, conn)
}

// greet lets a connection in, or not.
func (d *door) greet(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(doorTime)) // a connection that is gone fails below
	in, err := d.admit(conn)
	d.mu.Lock()
	for i, c := range d.waiting {
		if c == conn {
			d.waiting = append(d.waiting[:i], d.waiting[i+1:]...)
			break
		}
	}
	d.mu.Unlock()
	if err != nil {
		_ = conn.Close() // that is the answer
		return
	}
	_ = conn.SetDeadline(time.Time{}) // as above
	select {
	case d.came <- arrival{conn: in}:
	case <-d.over:
		_ = conn.Close() // nobody takes it
	}
}
