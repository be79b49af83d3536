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

// forwarded is one port of a pod as a connection, over a stream of SPDY that has
// no other use: an error stream, on which the other end says why it can't, and a
// data stream. Port-forwarding has no windows: what is not read here waits in
// the connection. While nothing is written it costs no goroutine.
type forwarded struct {
	way  io.ReadWriteCloser
	r    *bufio.Reader
	port int

	left   uint32 // of the data frame that is being read; the reader's, as all below
	over   bool   // the other end has closed its half
	said   words  // on the error stream
	silent bool   // the error stream is closed
	opened int    // streams that the other end has accepted
	early  []byte // what came before

	mu      sync.Mutex
	room    sync.Cond // of mu: told when there is room in out, or never will be
	out     []byte    // guarded by mu, as all below; a frame in the making: its head and what was written
	spare   []byte    // the buffer of the frame before
	writing bool      // somebody writes frames, and looks here before he ends
	ended   bool      // our half is closed
	fin     bool      // and the other end was told
	pinger  *time.Timer
	pinged  uint32      // the last ping of ours
	ponged  uint32      // the last that was answered
	owed    []uint32    // pings to be sent: ours, and answers to those of the other end
	read    *time.Timer // that ends the connection at a deadline
	write   *time.Timer
	why     error // why it is over
}

// The streams of a port. A client's have odd numbers.
const (
	errorStream = 1
	dataStream  = 3
)

// Frames of SPDY/3.1: control frames begin with a bit that data frames don't
// have.
const (
	frameHeader = 8
	controlBit  = 0x80
	version3    = 3
	synReply    = 2
	rstStream   = 3
	ping        = 6
	goAway      = 7
	flagFin     = 1
	maxControl  = 64 << 10 // bytes of a control frame
)

// pingPeriod is how often the other end is asked whether it is there; one that
// has not answered by the next time is not.
const pingPeriod = 10 * time.Second

// begin opens both streams and waits until they are.
func (c *forwarded) begin() error {
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
	if _, err := c.way.Write(out.Bytes()); err != nil {
		return err
	}
	for c.opened < 2 {
		if err := c.next(); err != nil {
			return err
		}
		// The guest speaks first: its words may come before the runtime's answer,
		// before which that drops ours.
		if int(c.left) > maxEarly-len(c.early) {
			return fmt.Errorf("%w: %d bytes before the stream was opened", errForward, c.left)
		}
		c.early = append(c.early, make([]byte, c.left)...)
		if _, err := io.ReadFull(c.r, c.early[len(c.early)-int(c.left):]); err != nil {
			return err
		}
		c.left = 0
	}
	return nil
}

// maxEarly bounds what comes before a stream is opened.
const maxEarly = 64 << 10

// errForward says that the other end does not keep to the protocol.
var errForward = fmt.Errorf("%w: port-forwarding is not what it should be", atoll.ErrUnavailable)

// Read returns what the port sends.
func (c *forwarded) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	for c.left == 0 {
		if c.over {
			return 0, c.ending(io.EOF)
		}
		if err := c.next(); err != nil {
			return 0, c.ending(err)
		}
	}
	n, err := c.r.Read(p[:min(len(p), int(c.left))])
	c.left -= uint32(n)
	if err != nil {
		err = c.ending(err)
	}
	return n, err
}

// ending says why nothing more comes.
func (c *forwarded) ending(err error) error {
	for c.over && !c.silent && c.left == 0 {
		if c.next() != nil {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.said.Len() > 0:
		return fmt.Errorf("%w: port %d of the pod: %s", atoll.ErrUnavailable, c.port, oneLine(c.said.String()))
	case c.why != nil:
		return c.why
	}
	return err
}

// next reads frames up to the data of the next that has some for the reader, or
// one that is none.
func (c *forwarded) next() error {
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
			return fmt.Errorf("%w: a control frame of version %d and %d bytes", errForward, id>>16&0x7fff, size)
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return err
		}
		return c.control(kind, flags, b)
	case id == dataStream:
		c.left, c.over = size, flags&flagFin != 0
		return nil
	case id == errorStream:
		b := make([]byte, min(size, maxWords))
		_, err := io.ReadFull(c.r, b)
		if err == nil {
			_, err = c.r.Discard(int(size) - len(b))
		}
		c.said.add(b)
		c.silent = flags&flagFin != 0
		return err
	}
	_, err = c.r.Discard(int(size))
	return err
}

// control does what a control frame says.
func (c *forwarded) control(kind uint16, flags byte, b []byte) error {
	var id uint32
	if len(b) >= 4 {
		id = binary.BigEndian.Uint32(b) & 0x7fffffff
	}
	switch kind {
	case synReply:
		c.opened++
		c.half(id, flags)
	case rstStream:
		c.half(id, flagFin)
		if c.opened < 2 {
			return fmt.Errorf("%w: it refuses the stream", errForward)
		}
	case ping:
		c.answer(id)
	case goAway:
		c.over = true
	}
	return nil
}

// half notes that the other end has closed a stream.
func (c *forwarded) half(id uint32, flags byte) {
	if flags&flagFin == 0 {
		return
	}
	switch id {
	case dataStream:
		c.over = true
	case errorStream:
		c.silent = true
	}
}

// Sizes of frames of data: what is written while one is on its way goes together
// into the next, up to a bound, for each costs the API server, the kubelet and
// the runtime some hops.
const (
	most  = 256 << 10
	small = 8 << 10 // is written at once, where nothing is on its way
)

// Write sends to the port.
func (c *forwarded) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for c.why == nil && !c.ended && len(c.out) >= most {
			c.room.Wait()
		}
		if c.why != nil {
			return n, c.why
		}
		if c.ended {
			return n, net.ErrClosed
		}
		if len(c.out) == 0 {
			c.out = append(c.out, make([]byte, frameHeader)...)
		}
		part := p[:min(len(p), frameHeader+most-len(c.out))]
		c.out = append(c.out, part...)
		n += len(part)
		p = p[len(part):]
		c.kick(len(c.out) <= small)
		if len(p) == 0 {
			return n, nil
		}
	}
}

// CloseWrite closes our half.
func (c *forwarded) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil || c.ended {
		return c.why
	}
	c.ended = true
	c.room.Broadcast()
	c.kick(true)
	return nil
}

// kick has what is there to be written written, here or elsewhere. mu is held.
func (c *forwarded) kick(here bool) {
	if c.writing || c.why != nil {
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

// writeFrames writes frames until there is nothing to be written.
func (c *forwarded) writeFrames() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing {
		c.writeFrame()
	}
}

// writeFrame writes what is there, in one piece: each is a message of the
// WebSocket. mu is held, but not while it writes.
func (c *forwarded) writeFrame() {
	b := c.out
	fin := c.ended && !c.fin
	if fin && len(b) == 0 {
		b = append(b, make([]byte, frameHeader)...)
	}
	if len(b) > 0 {
		flags := uint32(0)
		if fin {
			flags, c.fin = flagFin, true
		}
		binary.BigEndian.PutUint32(b, dataStream)
		binary.BigEndian.PutUint32(b[4:], flags<<24|uint32(len(b)-frameHeader))
	}
	for _, id := range c.owed {
		b = append(b, controlBit, version3, 0, ping, 0, 0, 0, 4)
		b = binary.BigEndian.AppendUint32(b, id)
	}
	c.owed, c.out = c.owed[:0], c.spare[:0]
	c.room.Broadcast()
	c.mu.Unlock()
	_, err := c.way.Write(b)
	c.mu.Lock()
	c.spare = b
	c.writing = c.why == nil && (len(c.out) > 0 || len(c.owed) > 0 || c.ended && !c.fin)
	if err != nil {
		c.end(err)
	}
}

// answer takes a ping, or the answer to one of ours, which have odd numbers.
func (c *forwarded) answer(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id%2 == 1 {
		c.ponged = id
		return
	}
	if len(c.owed) < mostOwed {
		c.owed = append(c.owed, id)
	}
	c.kick(false) // who reads waits for no writer
}

// mostOwed is how many pings wait.
const mostOwed = 16

// ping asks whether the other end is there.
func (c *forwarded) ping() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.why != nil:
		return
	case c.ponged != c.pinged:
		c.end(fmt.Errorf("%w: the tunnel to the pod is dead: nobody has answered for %v", atoll.ErrUnavailable, pingPeriod))
		return
	case !c.writing: // else the other end is slow, which it may be
		c.pinged = (c.pinged + 2) | 1
		c.owed = append(c.owed, c.pinged)
		c.kick(false)
	}
	c.pinger.Reset(pingPeriod)
}

// Close ends the connection, whatever is under way.
func (c *forwarded) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(net.ErrClosed)
	return nil
}

// end ends the connection. mu is held.
func (c *forwarded) end(why error) {
	if c.why != nil {
		return
	}
	c.why, c.writing = why, false
	for _, t := range []*time.Timer{c.pinger, c.read, c.write} {
		if t != nil {
			t.Stop()
		}
	}
	c.room.Broadcast()
	go c.way.Close() //nolint:errcheck // that is the end anyway; it may say goodbye first
}

// SetDeadline ends the connection at a time: what was not done by then never is.
func (c *forwarded) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline is like SetDeadline.
func (c *forwarded) SetReadDeadline(t time.Time) error { return c.until(&c.read, t) }

// SetWriteDeadline is like SetDeadline.
func (c *forwarded) SetWriteDeadline(t time.Time) error { return c.until(&c.write, t) }

func (c *forwarded) until(timer **time.Timer, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
	if c.why != nil {
		return c.why
	}
	if !t.IsZero() {
		*timer = time.AfterFunc(time.Until(t), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.end(os.ErrDeadlineExceeded)
		})
	}
	return nil
}

// podAddr is a port of a pod.
type podAddr int

// Network is "pod".
func (podAddr) Network() string { return "pod" }

func (a podAddr) String() string { return "127.0.0.1:" + strconv.Itoa(int(a)) }

// LocalAddr says nothing: there is none.
func (c *forwarded) LocalAddr() net.Addr { return podAddr(0) }

// RemoteAddr is the port, on the pod's loopback.
func (c *forwarded) RemoteAddr() net.Addr { return podAddr(c.port) }
