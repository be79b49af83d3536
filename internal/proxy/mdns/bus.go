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
	// systemBus is where D-Bus listens if nobody says otherwise.
	systemBus = "unix:path=/run/dbus/system_bus_socket"
	// busTime bounds one call, and maxBus the bytes of its answer.
	busTime = 5 * time.Second
	maxBus  = 1 << 20
)

// bus is a connection to the system's D-Bus that makes calls, one at a time:
// as much of it as Avahi needs. What was made over it ends with it.
type bus struct {
	conn   net.Conn
	r      *bufio.Reader
	serial uint32
}

// busError is what a service answered instead of what was asked.
type busError string

func (e busError) Error() string { return string(e) }

// dialBus connects to the bus that the environment names, or the system's own.
func dialBus(ctx context.Context) (*bus, error) {
	address := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	if address == "" {
		address = systemBus
	}
	address, _, _ = strings.Cut(address, ";") // the first one of several
	address, _, _ = strings.Cut(address, ",")
	path, ok := strings.CutPrefix(address, "unix:path=")
	if !ok {
		return nil, fmt.Errorf("%w: D-Bus at %q: only unix:path=… is known", atoll.ErrUnsupported, address)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("%w: D-Bus: %w", atoll.ErrUnavailable, err)
	}
	b := &bus{conn: conn, r: bufio.NewReader(conn)}
	if err := b.enter(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: D-Bus: %w", atoll.ErrUnavailable, err), conn.Close())
	}
	return b, nil
}

// enter says who we are.
func (b *bus) enter(ctx context.Context) error {
	defer b.bound(ctx)()
	uid := hex.EncodeToString([]byte(strconv.Itoa(os.Getuid())))
	if _, err := io.WriteString(b.conn, "\x00AUTH EXTERNAL "+uid+"\r\n"); err != nil {
		return err
	}
	line, err := b.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(line), "OK ") {
		return errors.New("it does not let us in")
	}
	if _, err := io.WriteString(b.conn, "BEGIN\r\n"); err != nil {
		return err
	}
	_, err = b.exchange(call{to: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", face: "org.freedesktop.DBus", member: "Hello"})
	return err
}

// bound gives what follows its time, and ends it with ctx.
func (b *bus) bound(ctx context.Context) (done func()) {
	_ = b.conn.SetDeadline(time.Now().Add(busTime))
	stop := context.AfterFunc(ctx, func() { _ = b.conn.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// call is a call of a method.
type call struct {
	to, path, face, member string
	args                   []any // int32, uint32, string
}

// do makes a call, and returns the body of its answer. An error that is no
// busError leaves the connection in no state to be used.
func (b *bus) do(ctx context.Context, c call) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // bound would say so a moment later
	}
	defer b.bound(ctx)()
	return b.exchange(c)
}

func (b *bus) exchange(c call) ([]byte, error) {
	b.serial++
	if _, err := b.conn.Write(c.marshal(b.serial)); err != nil {
		return nil, err
	}
	for {
		kind, to, fault, body, err := b.read()
		switch {
		case err != nil:
			return nil, err
		case to != b.serial: // a signal, or what nobody waits for any more
		case kind == 3:
			return nil, busError(fault)
		case kind == 2:
			return body, nil
		}
	}
}

// packer writes values as D-Bus does: little endian, each at a multiple of its size.
type packer []byte

func (p *packer) align(n int) {
	for len(*p)%n != 0 {
		*p = append(*p, 0)
	}
}

func (p *packer) uint32(v uint32) {
	p.align(4)
	*p = binary.LittleEndian.AppendUint32(*p, v)
}

func (p *packer) string(s string) {
	p.uint32(uint32(len(s)))
	*p = append(append(*p, s...), 0)
}

func (p *packer) signature(s string) { *p = append(append(append(*p, byte(len(s))), s...), 0) }

// field writes one field of a head.
func (p *packer) field(code byte, kind, value string) {
	p.align(8)
	*p = append(*p, code)
	p.signature(kind)
	if kind == "g" {
		p.signature(value)
		return
	}
	p.string(value)
}

func (c call) marshal(serial uint32) []byte {
	var body, p packer
	kinds := ""
	for _, a := range c.args {
		switch v := a.(type) {
		case int32:
			kinds += "i"
			body.uint32(uint32(v))
		case uint32:
			kinds += "u"
			body.uint32(v)
		case string:
			kinds += "s"
			body.string(v)
		}
	}
	p = append(p, 'l', 1, 0, 1)
	p.uint32(uint32(len(body)))
	p.uint32(serial)
	p.uint32(0) // the length of the fields, known below
	p.field(1, "o", c.path)
	p.field(2, "s", c.face)
	p.field(3, "s", c.member)
	p.field(6, "s", c.to)
	if kinds != "" {
		p.field(8, "g", kinds)
	}
	binary.LittleEndian.PutUint32(p[12:], uint32(len(p)-16))
	p.align(8)
	return append(p, body...)
}

// errBus is of what no D-Bus says.
var errBus = errors.New("an answer that is none of D-Bus")

// read reads one message: what it is, which call it answers, which error it tells.
func (b *bus) read() (kind byte, to uint32, fault string, body []byte, err error) {
	head := make([]byte, 16)
	if _, err := io.ReadFull(b.r, head); err != nil {
		return 0, 0, "", nil, err
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if head[0] == 'B' {
		order = binary.BigEndian
	}
	size, fields := order.Uint32(head[4:]), order.Uint32(head[12:])
	if size > maxBus || fields > maxBus {
		return 0, 0, "", nil, errBus
	}
	rest := make([]byte, int((fields+7)&^7)+int(size))
	if _, err := io.ReadFull(b.r, rest); err != nil {
		return 0, 0, "", nil, err
	}
	u := unpacker{b: rest[:fields], order: order}
	for u.ok() {
		u.align(8)
		code, sign := u.byte(), u.signature()
		switch {
		case sign == "u" && code == 5:
			to = u.uint32()
		case sign == "u":
			u.uint32()
		case sign == "g":
			u.signature()
		case sign == "s" && code == 4:
			fault = u.string()
		case sign == "s", sign == "o":
			u.string()
		default:
			return 0, 0, "", nil, errBus
		}
	}
	if u.bad {
		return 0, 0, "", nil, errBus
	}
	return head[1], to, fault, rest[(fields+7)&^7:], nil
}

// unpacker reads values. Once it is bad, all are empty.
type unpacker struct {
	b     []byte
	at    int
	order binary.ByteOrder
	bad   bool
}

func (u *unpacker) ok() bool { return !u.bad && u.at < len(u.b) }

func (u *unpacker) align(n int) { u.at = (u.at + n - 1) / n * n }

func (u *unpacker) take(n int) []byte {
	if u.bad || n < 0 || u.at > len(u.b) || n > len(u.b)-u.at {
		u.bad = true
		return nil
	}
	u.at += n
	return u.b[u.at-n : u.at]
}

func (u *unpacker) byte() byte {
	if b := u.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (u *unpacker) uint32() uint32 {
	u.align(4)
	if b := u.take(4); b != nil {
		return u.order.Uint32(b)
	}
	return 0
}

func (u *unpacker) string() string {
	s := u.take(int(u.uint32()))
	u.take(1)
	return string(s)
}

func (u *unpacker) signature() string {
	s := u.take(int(u.byte()))
	u.take(1)
	return string(s)
}
