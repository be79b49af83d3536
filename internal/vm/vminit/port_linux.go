package vminit

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// portName is the host's name of the port.
const portName = "atoll"

// deviceTimeout is the time limit for devices to appear: they need milliseconds, but a host may be
// busy.
const deviceTimeout = 30 * time.Second

// waitForDevice calls look until it finds something.
func waitForDevice(what string, look func() (string, error)) (string, error) {
	for end := time.Now().Add(deviceTimeout); ; time.Sleep(2 * time.Millisecond) { //nolint:forbidigo // the kernel notifies nobody yet
		found, err := look()
		if err != nil || found != "" {
			return found, err
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("%w: the VM has no %s", atoll.ErrUnavailable, what)
		}
	}
}

// findDevice returns the device for which a file in sysfs has a text; empty if there is none.
func findDevice(pattern, text string) (device string, err error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && strings.TrimSpace(string(b)) == text {
			return filepath.Base(filepath.Dir(f)), nil
		}
	}
	return "", nil
}

// port is this end of the connection to the host.
type port struct {
	file *os.File
	rest []byte // read already, after the line that continues
}

func openPort() (*port, error) {
	name, err := waitForDevice("virtio port "+portName, func() (string, error) { return findDevice("/sys/class/virtio-ports/*/name", portName) })
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/"+name, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/" + name, Err: err}
	}
	return &port{file: os.NewFile(uintptr(fd), name)}, nil
}

// helloInterval is the pause between two hello lines. The host notices a resumed clone after at
// most one.
const helloInterval = 50 * time.Millisecond

// maxStart limits the bytes before the line that continues.
const maxStart = 1 << 16

// waitForHost repeats the hello line until the host tells the VM to continue, or to apply a form
// first, which returns true. It has no time limit: the VM may be saved meanwhile.
func (p *port) waitForHost() (form bool, err error) {
	var seen []byte
	buf := make([]byte, 4096)
	for {
		if err := p.file.SetDeadline(time.Now().Add(helloInterval)); err != nil {
			return false, err
		}
		if _, err := io.WriteString(p.file, Hello); err != nil && !isTransient(err) {
			return false, fmt.Errorf("its port: %w", err)
		}
		n, err := p.file.Read(buf)
		seen = append(seen, buf[:n]...)
		for _, line := range []string{Go, Form} {
			if _, rest, ok := bytes.Cut(seen, []byte(line)); ok {
				p.rest = bytes.Clone(rest)
				return line == Form, p.file.SetDeadline(time.Time{})
			}
		}
		if len(seen) > maxStart {
			return false, fmt.Errorf("received %d bytes on its port, but not the line %q", len(seen), Go[:len(Go)-1])
		}
		switch {
		case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		case isTransient(err):
			time.Sleep(helloInterval) //nolint:forbidigo // the other end is not connected at present
		default:
			return false, fmt.Errorf("its port: %w", err)
		}
	}
}

// isTransient reports whether an error means that the other end is not connected yet.
func isTransient(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EAGAIN)
}

// Read reads the data after the host's line.
func (p *port) Read(b []byte) (int, error) {
	if len(p.rest) > 0 {
		n := copy(b, p.rest)
		p.rest = p.rest[n:]
		return n, nil
	}
	return p.file.Read(b)
}

// Write writes all bytes; the port accepts long data in parts.
func (p *port) Write(b []byte) (int, error) { return p.file.Write(b) }

// Close closes the port.
func (p *port) Close() error { return p.file.Close() }

// The remaining methods of net.Conn, for yamux.

// LocalAddr returns the name of the port.
func (p *port) LocalAddr() net.Addr { return portAddr{} }

// RemoteAddr returns the name of the port.
func (p *port) RemoteAddr() net.Addr { return portAddr{} }

// SetDeadline sets the deadline of the file.
func (p *port) SetDeadline(t time.Time) error { return p.file.SetDeadline(t) }

// SetReadDeadline sets the read deadline of the file.
func (p *port) SetReadDeadline(t time.Time) error { return p.file.SetReadDeadline(t) }

// SetWriteDeadline sets the write deadline of the file.
func (p *port) SetWriteDeadline(t time.Time) error { return p.file.SetWriteDeadline(t) }

type portAddr struct{}

func (portAddr) Network() string { return "virtio" }
func (portAddr) String() string  { return portName }

// muxConfig returns the configuration of the multiplexer, as in internal/vm/hypervisor.
func muxConfig() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.MeasureRTTInterval = math.MaxInt64
	c.ConnectionWriteTimeout = 365 * 24 * time.Hour // a paused host does not read for a long time
	c.WriteCoalesceDelay = 0
	c.MaxIncomingStreams = 1024
	c.MaxStreamWindowSize = 1 << 20
	c.ReadBufSize = 64 << 10
	c.LogOutput = io.Discard
	return c
}

// readSetup reads a setup and its length.
func readSetup(r io.Reader) (*Setup, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("its setup: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxSetup {
		return nil, fmt.Errorf("%w: its setup has %d bytes: at most %d fit", atoll.ErrInvalid, n, MaxSetup)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("its setup: %w", err)
	}
	s := &Setup{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%w: its setup: %w", atoll.ErrInvalid, err)
	}
	return s, nil
}

// sendVerdict reports whether the VM serves.
func sendVerdict(w io.Writer, err error) error {
	v := SetupResult{}
	if err != nil {
		v = SetupResult{Error: err.Error(), Reason: wire.ReasonOf(err).Kind}
	}
	b, e := json.Marshal(v)
	if e != nil {
		return e
	}
	_, e = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return e
}
