package hypervisor

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"syscall"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The lines at the beginning of the protocol: the guest repeats Hello until it reads one of the
// others.
const (
	Hello = "ATOLL-MACHINE 1\n"
	Go    = "GO\n"
	Form  = "FORM\n" // followed by a setup; the guest answers, and then repeats Hello
)

// maxNoise limits the bytes on the port before the guest's hello.
const maxNoise = 1 << 20

// port is the host's end of the guest's port.
type port struct {
	net.Conn
	seen  []byte // read but not used yet
	begun bool   // the guest's lines are over
}

// errNoise means that the guest does not speak the protocol.
var errNoise = fmt.Errorf("received %d bytes on its port, but not the line %q", maxNoise, Hello[:len(Hello)-1])

// waitForHello reads until a whole hello line was received.
func (p *port) waitForHello() error {
	buf, total := make([]byte, 4096), 0
	for {
		n, err := p.Conn.Read(buf)
		p.seen = append(p.seen, buf[:n]...)
		if i := bytes.Index(p.seen, []byte(Hello)); i >= 0 {
			p.seen = p.seen[i+len(Hello):]
			return nil
		}
		if err != nil {
			return err
		}
		if total += n; total > maxNoise {
			return errNoise
		}
		p.seen = p.seen[max(0, len(p.seen)-len(Hello)):] // may be the beginning of the line
	}
}

// Read skips the lines that the guest wrote before it read ours. The data after them begins with a
// zero, which is in no line.
func (p *port) Read(b []byte) (int, error) {
	for total := 0; !p.begun; {
		if i := bytes.IndexByte(p.seen, 0); i >= 0 {
			p.seen, p.begun = p.seen[i:], true
			break
		}
		if total += len(p.seen); total > maxNoise {
			return 0, errors.New("the data on its port is not the wire protocol")
		}
		p.seen = make([]byte, 4096)
		n, err := p.Conn.Read(p.seen)
		if p.seen = p.seen[:n]; err != nil {
			return 0, err
		}
	}
	if len(p.seen) > 0 {
		n := copy(b, p.seen)
		p.seen = p.seen[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// muxConfig returns the configuration of the multiplexer, the same as in internal/guest; the guest
// opens no streams.
func muxConfig() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.MeasureRTTInterval = math.MaxInt64
	c.ConnectionWriteTimeout = 365 * 24 * time.Hour
	c.WriteCoalesceDelay = 0
	c.MaxIncomingStreams = 0
	c.MaxStreamWindowSize = 1 << 20
	c.ReadBufSize = 64 << 10
	c.LogOutput = io.Discard
	return c
}

// isClosed reports whether an error means that the process at the other end has closed the
// connection.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// setupReply is the guest's answer to its setup.
type setupReply struct {
	Error  string `json:"error"`
	Reason string `json:"reason"`
}

// maxSetupReply is the size limit of a setupReply in bytes.
const maxSetupReply = 64 << 10

// sendForm sends the guest a form, and waits for its answer and its next hello.
func (p *port) sendForm(ctx context.Context, form json.RawMessage) (v setupReply, err error) {
	stop := context.AfterFunc(ctx, func() { _ = p.Conn.Close() })
	defer stop()
	if _, err := p.Conn.Write(appendSized([]byte(Form), form)); err != nil {
		return v, err
	}
	if err := v.read(p); err != nil || v.Error != "" {
		return v, err
	}
	p.begun = false // the guest repeats its line
	return v, p.waitForHello()
}

// appendSized appends a document and its length before it.
func appendSized(b []byte, document json.RawMessage) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(document))), document...)
}

// read reads the guest's answer.
func (v *setupReply) read(r io.Reader) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("reading the answer to its setup: %w", err)
	}
	b, err := fdpass.ReadSized(r, binary.BigEndian.Uint32(head[:]), maxSetupReply)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("invalid answer to its setup: %w", err)
	}
	return nil
}

// startGuest tells the guest to continue, multiplexes the port, and sends its setup. The guest
// refused the setup if v.Error is set.
func (p *port) startGuest(ctx context.Context, setup json.RawMessage) (_ *yamux.Session, v setupReply, err error) {
	stop := context.AfterFunc(ctx, func() { _ = p.Conn.Close() })
	defer stop()
	if _, err := io.WriteString(p.Conn, Go); err != nil {
		return nil, v, err
	}
	mux, err := yamux.Client(p, muxConfig(), nil)
	if err != nil {
		return nil, v, err
	}
	defer func() {
		if err != nil {
			_ = mux.Close() // the error above is the cause
		}
	}()
	st, err := mux.OpenStream(ctx)
	if err != nil {
		return nil, v, err
	}
	if setup == nil {
		setup = json.RawMessage("{}")
	}
	if _, err := st.Write(appendSized(nil, setup)); err != nil {
		return nil, v, err
	}
	if err := v.read(st); err != nil {
		return nil, v, err
	}
	_ = st.Close() // nothing is left to send
	return mux, v, nil
}

// streamTimeout limits how long a new stream waits for those before it. It is as long as a host
// waits for a guest's greeting.
const streamTimeout = 10 * time.Second

// joinStream connects a host's connection to a new stream.
func joinStream(ctx context.Context, mux *yamux.Session, conn *net.UnixConn) {
	patience, cancel := context.WithTimeout(ctx, streamTimeout)
	st, err := mux.OpenStream(patience)
	cancel()
	if err != nil {
		_ = conn.Close() // the host notices that there is no guest
		return
	}
	wire.Join(ctx, conn, st)
}
