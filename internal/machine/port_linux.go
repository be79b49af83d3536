package machine

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

	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The lines that begin the wire: the guest repeats the first until it reads one of
// the others.
const (
	Hello = "ATOLL-MACHINE 1\n"
	Go    = "GO\n"
	Form  = "FORM\n" // with a setup; it answers, and repeats its line then
)

// maxNoise is how much may come on the port before the guest's line.
const maxNoise = 1 << 20

// port is the host's end of the guest's port.
type port struct {
	net.Conn
	seen  []byte // read but not used yet
	begun bool   // the guest's lines are over
}

// errNoise says that what came is not the wire's beginning.
var errNoise = fmt.Errorf("%d bytes came on its port, and none of them were the line %q", maxNoise, Hello[:len(Hello)-1])

// awaitHello reads until the guest's line has come whole.
func (p *port) awaitHello() error {
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
		p.seen = p.seen[max(0, len(p.seen)-len(Hello)):] // what may be its beginning
	}
}

// Read skips lines that the guest wrote before it read ours. What follows them
// begins with a zero, which is in no line.
func (p *port) Read(b []byte) (int, error) {
	for total := 0; !p.begun; {
		if i := bytes.IndexByte(p.seen, 0); i >= 0 {
			p.seen, p.begun = p.seen[i:], true
			break
		}
		if total += len(p.seen); total > maxNoise {
			return 0, errors.New("what came on its port is no wire")
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

// muxConfig is how the wire is multiplexed: as internal/guest does it, and the
// guest opens nothing.
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

// isEnd reports that a connection broke with the process at its other end.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// verdict is what the guest says to its setup.
type verdict struct {
	Error  string `json:"error"`
	Reason string `json:"reason"`
}

// maxVerdict bounds that.
const maxVerdict = 64 << 10

// form tells the guest which form to take, and waits until it has, and says again
// that it is there.
func (p *port) form(ctx context.Context, form json.RawMessage) (v verdict, err error) {
	stop := context.AfterFunc(ctx, func() { _ = p.Conn.Close() })
	defer stop()
	if _, err := p.Conn.Write(sized([]byte(Form), form)); err != nil {
		return v, err
	}
	if err := v.read(p); err != nil || v.Error != "" {
		return v, err
	}
	p.begun = false // its lines are to come
	return v, p.awaitHello()
}

// sized appends a document with its length.
func sized(b []byte, document json.RawMessage) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(document))), document...)
}

// read reads what the guest says.
func (v *verdict) read(r io.Reader) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("it does not answer to its setup: %w", err)
	}
	b, err := readSized(r, binary.BigEndian.Uint32(head[:]), maxVerdict)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("what it answers to its setup: %w", err)
	}
	return nil
}

// goOn tells the guest to go on, multiplexes the port, and gives it its setup.
func (p *port) goOn(ctx context.Context, setup json.RawMessage) (_ *yamux.Session, v verdict, err error) {
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
			_ = mux.Close() // the error says more
		}
	}()
	st, err := mux.OpenStream(ctx)
	if err != nil {
		return nil, v, err
	}
	if setup == nil {
		setup = json.RawMessage("{}")
	}
	if _, err := st.Write(sized(nil, setup)); err != nil {
		return nil, v, err
	}
	if err := v.read(st); err != nil {
		return nil, v, err
	}
	_ = st.Close() // all is said
	return mux, v, nil
}

// openTime is how long a stream may wait for those before it: as long as a host
// waits for a guest's greeting.
const openTime = 10 * time.Second

// pump joins a connection of a host to a new stream.
func pump(ctx context.Context, mux *yamux.Session, conn *net.UnixConn) {
	patience, cancel := context.WithTimeout(ctx, openTime)
	st, err := mux.OpenStream(patience)
	cancel()
	if err != nil {
		_ = conn.Close() // the host sees that there is no guest
		return
	}
	wire.Join(ctx, conn, st)
}
