package guest_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// pingPong sends back what comes.
func pingPong(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c)
		}()
	}
}

// beside returns a connection to a unix socket that sandbox and host share.
func beside(b *testing.B, l net.Listener) net.Conn {
	b.Helper()
	c, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// ends are where the other end of a connection of the benchmarks is.
func ends(b *testing.B) map[string]net.Listener {
	b.Helper()
	m := machines()["switch"]
	sb := m.boot(b)
	// The box's files are the host's, but for /tmp.
	dir, err := os.MkdirTemp("/var/tmp", "atoll-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		b.Fatal(err)
	}
	through, err := atoll.Listen(b.Context(), sb, "unix", filepath.Join(dir, "through.sock"))
	if err != nil {
		b.Fatal(err)
	}
	bare, err := net.Listen("unix", filepath.Join(b.TempDir(), "bare.sock"))
	if err != nil {
		b.Fatal(err)
	}
	for _, l := range []net.Listener{through, bare} {
		go pingPong(l)
		b.Cleanup(func() { l.Close() })
	}
	return map[string]net.Listener{"through": through, "bare": bare}
}

// BenchmarkListenRoundTrip sends a byte to the host and gets it back; bare is a
// socket of this process.
func BenchmarkListenRoundTrip(b *testing.B) {
	for name, l := range ends(b) {
		b.Run(name, func(b *testing.B) {
			c := beside(b, l)
			buf := make([]byte, 1)
			for b.Loop() {
				if _, err := c.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkListenConnect connects, sends a byte, gets it back, and closes.
func BenchmarkListenConnect(b *testing.B) {
	for name, l := range ends(b) {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 1)
			for b.Loop() {
				c, err := net.Dial(l.Addr().Network(), l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := c.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf); err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
		})
	}
}

// BenchmarkListenThroughput sends to the host and gets it back.
func BenchmarkListenThroughput(b *testing.B) {
	const size = 32 << 20
	for name, l := range ends(b) {
		b.Run(name, func(b *testing.B) {
			c := beside(b, l)
			b.SetBytes(size)
			buf := make([]byte, 64<<10)
			for b.Loop() {
				sent := make(chan error, 1)
				go func() {
					var err error
					for n := 0; n < size && err == nil; n += len(buf) {
						_, err = c.Write(buf)
					}
					sent <- err
				}()
				if _, err := io.CopyN(io.Discard, c, size); err != nil {
					b.Fatal(err)
				}
				if err := <-sent; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
