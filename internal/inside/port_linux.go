package inside

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

// portName is what the host calls the port.
const portName = "atoll"

// devicePatience is how long devices may take to appear: they do so within
// milliseconds, but a host may be busy.
const devicePatience = 30 * time.Second

// await looks until something is there.
func await(what string, look func() (string, error)) (string, error) {
	for end := time.Now().Add(devicePatience); ; time.Sleep(2 * time.Millisecond) {
		found, err := look()
		if err != nil || found != "" {
			return found, err
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("%w: the machine has no %s", atoll.ErrUnavailable, what)
		}
	}
}

// named looks for a device of which a file in sysfs holds a text.
func named(pattern, text string) (device string, err error) {
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

// port is this end of the wire.
type port struct {
	file *os.File
	rest []byte // read already, behind the line to go on
}

func openPort() (*port, error) {
	name, err := await("virtio port "+portName, func() (string, error) { return named("/sys/class/virtio-ports/*/name", portName) })
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/"+name, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/" + name, Err: err}
	}
	return &port{file: os.NewFile(uintptr(fd), name)}, nil
}

// beat is how long the guest waits before it says again that it is there. A
// machine that wakes as a clone is heard after one.
const beat = 50 * time.Millisecond

// maxStart is how much may come before the line to go on.
const maxStart = 1 << 16

// greet repeats the line that says that the machine is there until it is told to
// go on, or to take its form first, which is true. However long that takes: it may
// lie on a disk in between.
func (p *port) greet() (form bool, err error) {
	var seen []byte
	buf := make([]byte, 4096)
	for {
		if err := p.file.SetDeadline(time.Now().Add(beat)); err != nil {
			return false, err
		}
		if _, err := io.WriteString(p.file, Hello); err != nil && !passing(err) {
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
			return false, fmt.Errorf("%d bytes came on its port, and none of them were the line %q", len(seen), Go[:len(Go)-1])
		}
		switch {
		case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		case passing(err):
			time.Sleep(beat) // nobody is at the other end, for now
		default:
			return false, fmt.Errorf("its port: %w", err)
		}
	}
}

// passing reports errors of a port at whose other end nobody is yet.
func passing(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EAGAIN)
}

// Read reads what the host says after its line.
func (p *port) Read(b []byte) (int, error) {
	if len(p.rest) > 0 {
		n := copy(b, p.rest)
		p.rest = p.rest[n:]
		return n, nil
	}
	return p.file.Read(b)
}

// Write writes all, in pieces that a port takes: what is longer than its queue
// it takes in parts.
func (p *port) Write(b []byte) (int, error) { return p.file.Write(b) }

// Close closes the port.
func (p *port) Close() error { return p.file.Close() }

// The rest of a connection, as yamux wants it.

// LocalAddr is nobody's.
func (p *port) LocalAddr() net.Addr { return address{} }

// RemoteAddr is nobody's.
func (p *port) RemoteAddr() net.Addr { return address{} }

// SetDeadline is the file's.
func (p *port) SetDeadline(t time.Time) error { return p.file.SetDeadline(t) }

// SetReadDeadline is the file's.
func (p *port) SetReadDeadline(t time.Time) error { return p.file.SetReadDeadline(t) }

// SetWriteDeadline is the file's.
func (p *port) SetWriteDeadline(t time.Time) error { return p.file.SetWriteDeadline(t) }

type address struct{}

func (address) Network() string { return "virtio" }
func (address) String() string  { return portName }

// muxConfig is how the wire is multiplexed, as internal/machine does it.
func muxConfig() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.MeasureRTTInterval = math.MaxInt64
	c.ConnectionWriteTimeout = 365 * 24 * time.Hour // a paused host reads nothing for long
	c.WriteCoalesceDelay = 0
	c.MaxIncomingStreams = 1024
	c.MaxStreamWindowSize = 1 << 20
	c.ReadBufSize = 64 << 10
	c.LogOutput = io.Discard
	return c
}

// readSetup reads what the machine is told.
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

// answer says whether the machine serves.
func answer(w io.Writer, err error) error {
	v := Verdict{}
	if err != nil {
		v = Verdict{Error: err.Error(), Reason: wire.ReasonOf(err).Kind}
	}
	b, e := json.Marshal(v)
	if e != nil {
		return e
	}
	_, e = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return e
}
