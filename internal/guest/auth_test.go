package guest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// newKeys returns a host's key and its public half.
func newKeys(t testing.TB) (ed25519.PrivateKey, ed25519.PublicKey) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key, public
}

// behind serves a harmless guest behind a listener and returns its address.
func behind(t *testing.T, guard func(net.Listener) net.Listener) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	guarded := guard(l)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = harmless().Serve(guarded)
	}()
	t.Cleanup(func() {
		_ = guarded.Close()
		<-done
	})
	return l.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ready makes sure that a guest answers on a connection.
func ready(t *testing.T, conn net.Conn) {
	t.Helper()
	c, err := Connect(t.Context(), conn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call(t.Context(), OpReady, nil, nil); err != nil {
		t.Fatal(err)
	}
}

func TestDoor(t *testing.T) {
	key, public := newKeys(t)
	other, _ := newKeys(t)
	const id = "s0123456789abcdef"
	address := behind(t, func(l net.Listener) net.Listener { return NewAuthListener(l, public, id, bytes.Repeat([]byte{7}, 32)) })

	t.Run("ItsHost", func(t *testing.T) {
		conn := dial(t, address)
		fingerprint, err := AuthenticateHost(t.Context(), conn, key, id)
		if err != nil || !bytes.Equal(fingerprint, bytes.Repeat([]byte{7}, 32)) {
			t.Fatalf("%x, %v", fingerprint, err)
		}
		ready(t, conn)
	})
	t.Run("AnotherKeyIsDenied", func(t *testing.T) {
		if _, err := AuthenticateHost(t.Context(), dial(t, address), other, id); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("another host's key: %v", err)
		}
	})
	t.Run("AnotherSandboxIsNotSpokenTo", func(t *testing.T) {
		if _, err := AuthenticateHost(t.Context(), dial(t, address), key, "sother"); err == nil {
			t.Error("the guest of another sandbox was taken for it")
		}
	})
	t.Run("AnotherSandboxsSignature", func(t *testing.T) {
		turnedAway(t, address, func(n []byte) []byte { return ed25519.Sign(key, authMessage("sother", n)) })
	})
	t.Run("AnotherUseOfTheKey", func(t *testing.T) { turnedAway(t, address, func(n []byte) []byte { return ed25519.Sign(key, n) }) })
	t.Run("ZeroSignature", func(t *testing.T) { turnedAway(t, address, func([]byte) []byte { return make([]byte, 64) }) })
	t.Run("Replay", func(t *testing.T) {
		var old []byte
		conn := dial(t, address)
		old = ed25519.Sign(key, authMessage(id, nonceOf(t, conn, id)))
		if _, err := conn.Write(old); err != nil {
			t.Fatal(err)
		}
		if b := make([]byte, 1); fill(t, conn, b) != nil || b[0] != authAccepted {
			t.Fatalf("the door says %q", b)
		}
		turnedAway(t, address, func([]byte) []byte { return old })
	})
	t.Run("Garbage", func(t *testing.T) {
		conn := dial(t, address)
		_, _ = conn.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 100))
		all, _ := io.ReadAll(conn)
		if !bytes.HasPrefix(all, []byte(authPrefix)) || bytes.Contains(all, []byte(Greeting)) {
			t.Errorf("it says %q", all)
		}
	})
}

// nonceOf reads the guest's first line.
func nonceOf(t *testing.T, conn net.Conn, id string) []byte {
	t.Helper()
	line, err := readFirstLine(conn, maxAuthLine)
	if err != nil {
		t.Fatal(err)
	}
	nonce, _, err := parseAuthLine(line, id)
	if err != nil {
		t.Fatal(err)
	}
	return nonce
}

func fill(t *testing.T, conn net.Conn, b []byte) error {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := io.ReadFull(conn, b)
	return err
}

// turnedAway makes sure that an answer opens nothing.
func turnedAway(t *testing.T, address string, answer func(nonce []byte) []byte) {
	t.Helper()
	conn := dial(t, address)
	nonce := nonceOf(t, conn, "s0123456789abcdef")
	if _, err := conn.Write(answer(nonce)); err != nil {
		t.Fatal(err)
	}
	if b := make([]byte, 1); !errors.Is(fill(t, conn, b), io.EOF) {
		t.Errorf("the door says %q", b)
	}
}

// TestCrowdBeforeTheDoor: programs that connect and say nothing keep nobody out.
func TestCrowdBeforeTheDoor(t *testing.T) {
	key, public := newKeys(t)
	address := behind(t, func(l net.Listener) net.Listener { return NewAuthListener(l, public, "s", nil) })
	for range 3 * maxPending {
		nonceOf(t, dial(t, address), "s")
	}
	conn := dial(t, address)
	if _, err := AuthenticateHost(t.Context(), conn, key, "s"); err != nil {
		t.Fatal(err)
	}
	ready(t, conn)
}

// TestSlowAtTheDoor: neither end waits for ever.
func TestSlowAtTheDoor(t *testing.T) {
	key, public := newKeys(t)
	synctest.Test(t, func(t *testing.T) {
		l := &onceListener{conns: make(chan net.Conn, 1), over: make(chan struct{})}
		guarded := NewAuthListener(l, public, "s", nil)
		ours, theirs := net.Pipe()
		l.conns <- theirs
		if _, err := readFirstLine(ours, maxAuthLine); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(begun) > 2*authTimeout {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if err := guarded.Close(); err != nil {
			t.Fatal(err)
		}
		ours, theirs = net.Pipe()
		defer theirs.Close()
		begun = time.Now()
		if _, err := AuthenticateHost(t.Context(), ours, key, "s"); !errors.Is(err, atoll.ErrTimeout) || time.Since(begun) > 2*authTimeout {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// onceListener is a listener of connections that are handed to it.
type onceListener struct {
	conns chan net.Conn
	over  chan struct{}
}

func (l *onceListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *onceListener) Close() error   { close(l.over); return nil }
func (l *onceListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestDirect(t *testing.T) {
	key, public := newKeys(t)
	other, _ := newKeys(t)
	var fingerprint []byte
	address := behind(t, func(l net.Listener) net.Listener {
		guarded, sum, err := NewTLSListener(l, public)
		if err != nil {
			t.Fatal(err)
		}
		fingerprint = sum
		return guarded
	})
	conn, err := AuthenticateHostTLS(t.Context(), dial(t, address), key, fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	ready(t, conn)
	if _, err := AuthenticateHostTLS(t.Context(), dial(t, address), key, make([]byte, 32)); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("another guest's certificate: %v", err)
	}
	conn, err = AuthenticateHostTLS(t.Context(), dial(t, address), other, fingerprint)
	if err == nil {
		var c *Client
		if c, err = Connect(t.Context(), conn, Options{}); err == nil {
			t.Errorf("another host's key was let in: %v", c.Close())
		}
	}
	plain := dial(t, address)
	_, _ = plain.Write([]byte("hello\n\n\n\n"))
	if all, _ := io.ReadAll(plain); bytes.Contains(all, []byte(Greeting)) {
		t.Errorf("without TLS it says %q", all)
	}
}

func FuzzDoor(f *testing.F) {
	for _, line := range []string{
		"", "\n", authPrefix + "s " + strings.Repeat("0", 64) + " -\n", authPrefix + "s " + strings.Repeat("0", 64) + " " + strings.Repeat("f", 64) + "\n",
		authPrefix + "s  -\n", authPrefix + "s 0 -\n", "atoll-door 2 s 0 -\n", "atoll-guest 1\n",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		nonce, fingerprint, err := parseAuthLine(line, "s")
		if err != nil {
			return
		}
		if len(nonce) != nonceSize || fingerprint != nil && len(fingerprint) != fingerprintSize {
			t.Errorf("%q: %x, %x", line, nonce, fingerprint)
		}
		again := fmt.Sprintf("%ss %x -\n", authPrefix, nonce)
		if n, _, err := parseAuthLine(again, "s"); err != nil || !bytes.Equal(n, nonce) {
			t.Errorf("%q is read as %x, %v", again, n, err)
		}
	})
}

// FuzzProve gives a host what may stand where a guest should.
func FuzzProve(f *testing.F) {
	key, _ := newKeys(f)
	f.Add([]byte(authPrefix + "s " + strings.Repeat("0", 64) + " -\n+"))
	f.Add([]byte(authPrefix + "s " + strings.Repeat("0", 64) + " -\n-"))
	f.Add(bytes.Repeat([]byte("a"), 1000))
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = theirs.Write(b)
			_ = theirs.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, _ = AuthenticateHost(ctx, ours, key, "s")
		_ = ours.Close()
	})
}
