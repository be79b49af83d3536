package mdns

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

const (
	// systemBus is the default address of D-Bus.
	systemBus = "unix:path=/run/dbus/system_bus_socket"
	// busTimeout limits one call, and maxBusMessage the bytes of its reply.
	busTimeout    = 5 * time.Second
	maxBusMessage = 1 << 20
)

// bus is a connection to the system's D-Bus that makes one call at a time. It implements
// the part of D-Bus that Avahi needs.
type bus struct {
	conn   net.Conn
	r      *bufio.Reader
	serial uint32
}

// busError is an error reply of a service.
type busError string

func (e busError) Error() string { return string(e) }

// dialBus connects to the bus in the environment, or to the system bus.
func dialBus(ctx context.Context) (*bus, error) {
	address := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	if address == "" {
		address = systemBus
	}
	address, _, _ = strings.Cut(address, ";") // the first one of several
	address, _, _ = strings.Cut(address, ",")
	path, ok := strings.CutPrefix(address, "unix:path=")
	if !ok {
		return nil, fmt.Errorf("%w: D-Bus at %q: only unix:path=… is supported", atoll.ErrUnsupported, address)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("%w: D-Bus: %w", atoll.ErrUnavailable, err)
	}
	b := &bus{conn: conn, r: bufio.NewReader(conn)}
	if err := b.authenticateConn(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: D-Bus: %w", atoll.ErrUnavailable, err), conn.Close())
	}
	return b, nil
}

// authenticateConn authenticates as the current user.
func (b *bus) authenticateConn(ctx context.Context) error {
	defer b.setDeadline(ctx)()
	uid := hex.EncodeToString([]byte(strconv.Itoa(os.Getuid())))
	if _, err := io.WriteString(b.conn, "\x00AUTH EXTERNAL "+uid+"\r\n"); err != nil {
		return err
	}
	line, err := b.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(line), "OK ") {
		return errors.New("authentication was refused")
	}
	if _, err := io.WriteString(b.conn, "BEGIN\r\n"); err != nil {
		return err
	}
	_, err = b.sendCall(methodCall{to: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", iface: "org.freedesktop.DBus", member: "Hello"})
	return err
}

// setDeadline limits the following calls to busTimeout and to ctx. The caller calls done afterwards.
func (b *bus) setDeadline(ctx context.Context) (done func()) {
	_ = b.conn.SetDeadline(time.Now().Add(busTimeout))
	stop := context.AfterFunc(ctx, func() { _ = b.conn.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// methodCall is a call of a method.
type methodCall struct {
	to, path, iface, member string
	args                    []any // int32, uint32, string
}

// callMethod makes a call and returns the body of the reply. After an error that is not a
// busError the connection can't be used.
func (b *bus) callMethod(ctx context.Context, c methodCall) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // setDeadline would fail the call later
	}
	defer b.setDeadline(ctx)()
	return b.sendCall(c)
}

func (b *bus) sendCall(c methodCall) ([]byte, error) {
	b.serial++
	if _, err := b.conn.Write(c.marshalCall(b.serial)); err != nil {
		return nil, err
	}
	for {
		kind, to, fault, body, err := b.readMessage()
		switch {
		case err != nil:
			return nil, err
		case to != b.serial: // a signal, or a late reply
		case kind == 3:
			return nil, busError(fault)
		case kind == 2:
			return body, nil
		}
	}
}

// busEncoder encodes values as D-Bus does: little endian, each aligned to its size.
type busEncoder []byte

func (p *busEncoder) alignTo(n int) {
	for len(*p)%n != 0 {
		*p = append(*p, 0)
	}
}

func (p *busEncoder) writeUint32(v uint32) {
	p.alignTo(4)
	*p = binary.LittleEndian.AppendUint32(*p, v)
}

func (p *busEncoder) writeString(s string) {
	p.writeUint32(uint32(len(s)))
	*p = append(append(*p, s...), 0)
}

func (p *busEncoder) writeSignature(s string) { *p = append(append(append(*p, byte(len(s))), s...), 0) }

// writeField writes one header field.
func (p *busEncoder) writeField(code byte, kind, value string) {
	p.alignTo(8)
	*p = append(*p, code)
	p.writeSignature(kind)
	if kind == "g" {
		p.writeSignature(value)
		return
	}
	p.writeString(value)
}

func (c methodCall) marshalCall(serial uint32) []byte {
	var body, p busEncoder
	kinds := ""
	for _, a := range c.args {
		switch v := a.(type) {
		case int32:
			kinds += "i"
			body.writeUint32(uint32(v))
		case uint32:
			kinds += "u"
			body.writeUint32(v)
		case string:
			kinds += "s"
			body.writeString(v)
		}
	}
	p = append(p, 'l', 1, 0, 1)
	p.writeUint32(uint32(len(body)))
	p.writeUint32(serial)
	p.writeUint32(0) // the length of the fields, known below
	p.writeField(1, "o", c.path)
	p.writeField(2, "s", c.iface)
	p.writeField(3, "s", c.member)
	p.writeField(6, "s", c.to)
	if kinds != "" {
		p.writeField(8, "g", kinds)
	}
	binary.LittleEndian.PutUint32(p[12:], uint32(len(p)-16))
	p.alignTo(8)
	return append(p, body...)
}

// errBadMessage is returned for a message that violates the D-Bus protocol.
var errBadMessage = errors.New("malformed D-Bus message")

// readMessage reads one message: its type, the serial it replies to, the name of its error and its body.
func (b *bus) readMessage() (kind byte, to uint32, fault string, body []byte, err error) {
	head := make([]byte, 16)
	if _, err := io.ReadFull(b.r, head); err != nil {
		return 0, 0, "", nil, err
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if head[0] == 'B' {
		order = binary.BigEndian
	}
	size, fields := order.Uint32(head[4:]), order.Uint32(head[12:])
	if size > maxBusMessage || fields > maxBusMessage {
		return 0, 0, "", nil, errBadMessage
	}
	rest := make([]byte, int((fields+7)&^7)+int(size))
	if _, err := io.ReadFull(b.r, rest); err != nil {
		return 0, 0, "", nil, err
	}
	u := busDecoder{b: rest[:fields], order: order}
	for u.hasMore() {
		u.alignTo(8)
		code, sign := u.readByte(), u.readSignature()
		switch {
		case sign == "u" && code == 5:
			to = u.readUint32()
		case sign == "u":
			u.readUint32()
		case sign == "g":
			u.readSignature()
		case sign == "s" && code == 4:
			fault = u.readString()
		case sign == "s", sign == "o":
			u.readString()
		default:
			return 0, 0, "", nil, errBadMessage
		}
	}
	if u.failed {
		return 0, 0, "", nil, errBadMessage
	}
	return head[1], to, fault, rest[(fields+7)&^7:], nil
}

// busDecoder decodes values. After a failure all values are zero.
type busDecoder struct {
	b      []byte
	pos    int
	order  binary.ByteOrder
	failed bool
}

func (u *busDecoder) hasMore() bool { return !u.failed && u.pos < len(u.b) }

func (u *busDecoder) alignTo(n int) { u.pos = (u.pos + n - 1) / n * n }

func (u *busDecoder) nextBytes(n int) []byte {
	if u.failed || n < 0 || u.pos > len(u.b) || n > len(u.b)-u.pos {
		u.failed = true
		return nil
	}
	u.pos += n
	return u.b[u.pos-n : u.pos]
}

func (u *busDecoder) readByte() byte {
	if b := u.nextBytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (u *busDecoder) readUint32() uint32 {
	u.alignTo(4)
	if b := u.nextBytes(4); b != nil {
		return u.order.Uint32(b)
	}
	return 0
}

func (u *busDecoder) readString() string {
	s := u.nextBytes(int(u.readUint32()))
	u.nextBytes(1)
	return string(s)
}

func (u *busDecoder) readSignature() string {
	s := u.nextBytes(int(u.readByte()))
	u.nextBytes(1)
	return string(s)
}
