package kubernetes

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/moby/spdystream/spdy"
	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-sandbox/atoll"
)

// forwardedConn is a connection to one port of a pod, over an SPDY connection that has no other use. It
// has an error stream, on which the other end reports why it can't connect, and a data stream.
// Port-forwarding has no flow control: data that is not read here waits in the connection. While
// nothing is written it needs no goroutine.
type forwardedConn struct {
	conn io.ReadWriteCloser
	r    *bufio.Reader
	port int

	left        uint32      // unread bytes of the current data frame; used by the reader only, as all below
	dataClosed  bool        // by the other end
	errorText   boundedText // received on the error stream
	errorClosed bool        // the error stream is closed
	opened      int         // streams that the other end has accepted
	early       []byte      // data received before the streams were open

	mu           sync.Mutex
	notFull      sync.Cond // of mu: signalled when out has space, or the connection ends
	out          []byte    // guarded by mu, as all below; the frame being collected: header and data
	spare        []byte    // buffer of the previous frame
	writing      bool      // a goroutine writes frames; it checks out before it ends
	writeClosed  bool      // by this end
	finSent      bool      // the other end was informed of writeClosed
	pinger       *time.Timer
	pinged       uint32      // last ping of this end
	ponged       uint32      // last one that was answered
	pendingPings []uint32    // to be sent: own pings, and replies to those of the other end
	read         *time.Timer // ends the connection at a deadline
	write        *time.Timer
	closeErr     error // why the connection has ended
}

// The streams of a port. Those of a client have odd numbers.
const (
	errorStream = 1
	dataStream  = 3
)

// Frames of SPDY/3.1. The first bit distinguishes control frames from data frames.
const (
	frameHeader = 8
	controlBit  = 0x80
	version3    = 3
	synReply    = 2
	rstStream   = 3
	ping        = 6
	goAway      = 7
	flagFin     = 1
	maxControl  = 64 << 10 // bytes
)

// pingPeriod is the time between two pings. The connection ends when one was not answered before the
// next.
const pingPeriod = 10 * time.Second

// openStreams opens both streams and waits until the other end has accepted them.
func (c *forwardedConn) openStreams() error {
	var out bytes.Buffer
	framer, err := spdy.NewFramer(&out, bytes.NewReader(nil))
	if err != nil {
		return err
	}
	for _, s := range []struct {
		id   spdy.StreamId
		kind string
		flag spdy.ControlFlags
	}{{errorStream, corev1.StreamTypeError, spdy.ControlFlagFin}, {dataStream, corev1.StreamTypeData, 0}} {
		h := http.Header{}
		h.Set(corev1.StreamType, s.kind)
		h.Set(corev1.PortHeader, strconv.Itoa(c.port))
		h.Set(corev1.PortForwardRequestIDHeader, "0")
		if err := framer.WriteFrame(&spdy.SynStreamFrame{StreamId: s.id, Headers: h, CFHeader: spdy.ControlFrameHeader{Flags: s.flag}}); err != nil {
			return err
		}
	}
	if _, err := c.conn.Write(out.Bytes()); err != nil {
		return err
	}
	for c.opened < 2 {
		if err := c.next(); err != nil {
			return err
		}
		// The guest sends first: its greeting may arrive before the runtime's reply. Data that is sent
		// to it before that reply is lost.
		if int(c.left) > maxEarly-len(c.early) {
			return fmt.Errorf("%w: %d bytes before the stream was opened", errProtocol, c.left)
		}
		c.early = append(c.early, make([]byte, c.left)...)
		if _, err := io.ReadFull(c.r, c.early[len(c.early)-int(c.left):]); err != nil {
			return err
		}
		c.left = 0
	}
	return nil
}

// maxEarly bounds the data that arrives before a stream is open.
const maxEarly = 64 << 10

// errProtocol reports a violation of the protocol by the other end.
var errProtocol = fmt.Errorf("%w: port-forwarding violates its protocol", atoll.ErrUnavailable)

// Read returns data that the port sends.
func (c *forwardedConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	for c.left == 0 {
		if c.dataClosed {
			return 0, c.readError(io.EOF)
		}
		if err := c.next(); err != nil {
			return 0, c.readError(err)
		}
	}
	n, err := c.r.Read(p[:min(len(p), int(c.left))])
	c.left -= uint32(n)
	if err != nil {
		err = c.readError(err)
	}
	return n, err
}

// readError returns the reason why no more data arrives.
func (c *forwardedConn) readError(err error) error {
	for c.dataClosed && !c.errorClosed && c.left == 0 {
		if c.next() != nil {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.errorText.Len() > 0:
		return fmt.Errorf("%w: port %d of the pod: %s", atoll.ErrUnavailable, c.port, oneLine(c.errorText.String()))
	case c.closeErr != nil:
		return c.closeErr
	}
	return err
}

// next reads one frame. Of a data frame it reads only the header: the data is for Read.
func (c *forwardedConn) next() error {
	head, err := c.r.Peek(frameHeader)
	if err != nil {
		return err
	}
	id, flags, size := binary.BigEndian.Uint32(head), head[4], binary.BigEndian.Uint32(head[4:])&0xffffff
	control := head[0]&controlBit != 0
	kind := binary.BigEndian.Uint16(head[2:])
	if _, err := c.r.Discard(frameHeader); err != nil {
		return err
	}
	switch {
	case control:
		if id>>16 != controlBit<<8|version3 || size > maxControl {
			return fmt.Errorf("%w: a control frame of version %d and %d bytes", errProtocol, id>>16&0x7fff, size)
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return err
		}
		return c.handleControl(kind, flags, b)
	case id == dataStream:
		c.left, c.dataClosed = size, flags&flagFin != 0
		return nil
	case id == errorStream:
		b := make([]byte, min(size, maxWords))
		_, err := io.ReadFull(c.r, b)
		if err == nil {
			_, err = c.r.Discard(int(size) - len(b))
		}
		c.errorText.add(b)
		c.errorClosed = flags&flagFin != 0
		return err
	}
	_, err = c.r.Discard(int(size))
	return err
}

// handleControl handles a control frame.
func (c *forwardedConn) handleControl(kind uint16, flags byte, b []byte) error {
	var id uint32
	if len(b) >= 4 {
		id = binary.BigEndian.Uint32(b) & 0x7fffffff
	}
	switch kind {
	case synReply:
		c.opened++
		c.noteClosed(id, flags)
	case rstStream:
		c.noteClosed(id, flagFin)
		if c.opened < 2 {
			return fmt.Errorf("%w: it refuses the stream", errProtocol)
		}
	case ping:
		c.handlePing(id)
	case goAway:
		c.dataClosed = true
	}
	return nil
}

// noteClosed notes that the other end has closed a stream.
func (c *forwardedConn) noteClosed(id uint32, flags byte) {
	if flags&flagFin == 0 {
		return
	}
	switch id {
	case dataStream:
		c.dataClosed = true
	case errorStream:
		c.errorClosed = true
	}
}

// Sizes of data frames. Data that is written while a frame is being sent is collected in the next
// frame, up to a bound, since each frame costs several hops between the API server, the kubelet and the
// runtime.
const (
	maxFrame   = 256 << 10
	smallFrame = 8 << 10 // written at once if no frame is being sent
)

// Write sends data to the port.
func (c *forwardedConn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for c.closeErr == nil && !c.writeClosed && len(c.out) >= maxFrame {
			c.notFull.Wait()
		}
		if c.closeErr != nil {
			return n, c.closeErr
		}
		if c.writeClosed {
			return n, net.ErrClosed
		}
		if len(c.out) == 0 {
			c.out = append(c.out, make([]byte, frameHeader)...)
		}
		part := p[:min(len(p), frameHeader+maxFrame-len(c.out))]
		c.out = append(c.out, part...)
		n += len(part)
		p = p[len(part):]
		c.startWriter(len(c.out) <= smallFrame)
		if len(p) == 0 {
			return n, nil
		}
	}
}

// CloseWrite ends the data that this end sends.
func (c *forwardedConn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closeErr != nil || c.writeClosed {
		return c.closeErr
	}
	c.writeClosed = true
	c.notFull.Broadcast()
	c.startWriter(true)
	return nil
}

// startWriter starts writing the pending frames, in this goroutine or in another. mu is held.
func (c *forwardedConn) startWriter(here bool) {
	if c.writing || c.closeErr != nil {
		return
	}
	c.writing = true
	if here {
		c.writeFrame()
	}
	if c.writing {
		go c.writeFrames()
	}
}

// writeFrames writes frames until none is pending.
func (c *forwardedConn) writeFrames() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing {
		c.writeFrame()
	}
}

// writeFrame writes everything that is pending at once: each write is a message of the WebSocket. mu is
// held, except while it writes.
func (c *forwardedConn) writeFrame() {
	b := c.out
	fin := c.writeClosed && !c.finSent
	if fin && len(b) == 0 {
		b = append(b, make([]byte, frameHeader)...)
	}
	if len(b) > 0 {
		flags := uint32(0)
		if fin {
			flags, c.finSent = flagFin, true
		}
		binary.BigEndian.PutUint32(b, dataStream)
		binary.BigEndian.PutUint32(b[4:], flags<<24|uint32(len(b)-frameHeader))
	}
	for _, id := range c.pendingPings {
		b = append(b, controlBit, version3, 0, ping, 0, 0, 0, 4)
		b = binary.BigEndian.AppendUint32(b, id)
	}
	c.pendingPings, c.out = c.pendingPings[:0], c.spare[:0]
	c.notFull.Broadcast()
	c.mu.Unlock()
	_, err := c.conn.Write(b)
	c.mu.Lock()
	c.spare = b
	c.writing = c.closeErr == nil && (len(c.out) > 0 || len(c.pendingPings) > 0 || c.writeClosed && !c.finSent)
	if err != nil {
		c.closeWith(err)
	}
}

// handlePing handles a ping, or the reply to a ping of this end, which has an odd number.
func (c *forwardedConn) handlePing(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id%2 == 1 {
		c.ponged = id
		return
	}
	if len(c.pendingPings) < maxPendingPings {
		c.pendingPings = append(c.pendingPings, id)
	}
	c.startWriter(false) // the reader must not wait for a writer
}

// maxPendingPings bounds the pings that wait to be sent.
const maxPendingPings = 16

// sendPing sends a ping, and ends the connection if the one before was not answered.
func (c *forwardedConn) sendPing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closeErr != nil:
		return
	case c.ponged != c.pinged:
		c.closeWith(fmt.Errorf("%w: the tunnel to the pod is dead: no answer for %v", atoll.ErrUnavailable, pingPeriod))
		return
	case !c.writing: // otherwise the other end is slow, which is allowed
		c.pinged = (c.pinged + 2) | 1
		c.pendingPings = append(c.pendingPings, c.pinged)
		c.startWriter(false)
	}
	c.pinger.Reset(pingPeriod)
}

// Close ends the connection at once.
func (c *forwardedConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeWith(net.ErrClosed)
	return nil
}

// closeWith ends the connection with an error. mu is held.
func (c *forwardedConn) closeWith(why error) {
	if c.closeErr != nil {
		return
	}
	c.closeErr, c.writing = why, false
	for _, t := range []*time.Timer{c.pinger, c.read, c.write} {
		if t != nil {
			t.Stop()
		}
	}
	c.notFull.Broadcast()
	go c.conn.Close() //nolint:errcheck // the connection is not used again; closing may block
}

// SetDeadline ends the connection at a time. It can't be used afterwards.
func (c *forwardedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline ends the connection at a time, as SetDeadline does.
func (c *forwardedConn) SetReadDeadline(t time.Time) error { return c.setTimer(&c.read, t) }

// SetWriteDeadline ends the connection at a time, as SetDeadline does.
func (c *forwardedConn) SetWriteDeadline(t time.Time) error { return c.setTimer(&c.write, t) }

func (c *forwardedConn) setTimer(timer **time.Timer, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
	if c.closeErr != nil {
		return c.closeErr
	}
	if !t.IsZero() {
		*timer = time.AfterFunc(time.Until(t), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.closeWith(os.ErrDeadlineExceeded)
		})
	}
	return nil
}

// podAddr is the address of a port of a pod.
type podAddr int

// Network returns "pod".
func (podAddr) Network() string { return "pod" }

func (a podAddr) String() string { return "127.0.0.1:" + strconv.Itoa(int(a)) }

// LocalAddr returns an address without a port.
func (c *forwardedConn) LocalAddr() net.Addr { return podAddr(0) }

// RemoteAddr returns the address of the port on the pod's loopback.
func (c *forwardedConn) RemoteAddr() net.Addr { return podAddr(c.port) }
