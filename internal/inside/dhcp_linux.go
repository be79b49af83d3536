package inside

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// The ports of DHCP.
const (
	dhcpServer = 67
	dhcpClient = 68
)

// How long an address is asked for: at first, while the sandbox waits, and each
// time that a question is answered or not.
const (
	addressTime  = 20 * time.Second
	questionTime = 2 * time.Second
	renewAgain   = 30 * time.Second
)

// nic is a network interface that has its address from the network.
type nic struct {
	net.Interface
	conn net.PacketConn
	now  lease
}

// startNIC finds the interface with a hardware address, and gets it an address,
// which is renewed as long as the machine runs.
func startNIC(mac string) error {
	want, err := net.ParseMAC(mac)
	if err != nil || len(want) != 6 {
		return fmt.Errorf("%w: the hardware address %q", atoll.ErrInvalid, mac)
	}
	n := &nic{}
	if _, err = await("network interface "+mac, func() (string, error) { return n.find(want) }); err != nil {
		return err
	}
	if err := n.up(); err != nil {
		return fmt.Errorf("network interface %s: %w", n.Name, err)
	}
	if n.conn, err = n.listen(); err != nil {
		return fmt.Errorf("network interface %s: %w", n.Name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), addressTime)
	defer cancel()
	if err := n.obtain(ctx); err != nil {
		return fmt.Errorf("%w: the machine got no address by DHCP from its bridge within %v: %w", atoll.ErrUnavailable, addressTime, err)
	}
	go n.hold()
	return nil
}

func (n *nic) find(mac net.HardwareAddr) (string, error) {
	list, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range list {
		if i.HardwareAddr.String() == mac.String() {
			n.Interface = i
			return i.Name, nil
		}
	}
	return "", nil
}

// listen opens a socket for DHCP on this interface alone.
func (n *nic) listen() (net.PacketConn, error) {
	var failed error
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		err := c.Control(func(fd uintptr) {
			failed = errors.Join(unix.BindToDevice(int(fd), n.Name), unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1))
		})
		return errors.Join(err, failed)
	}}
	return config.ListenPacket(context.Background(), "udp4", fmt.Sprintf("0.0.0.0:%d", dhcpClient))
}

var errSilence = errors.New("no server answers")

// obtain gets an address, whatever it takes of the time.
func (n *nic) obtain(ctx context.Context) error {
	last := errSilence
	for ctx.Err() == nil {
		_, offer, err := n.ask(ctx, question{kind: dhcpDiscover})
		if err != nil {
			last = err
			continue
		}
		kind, got, err := n.ask(ctx, question{kind: dhcpRequest, have: offer.address.Addr(), from: offer.server})
		switch {
		case err != nil:
			last = err
		case kind == dhcpNak:
			last = errors.New("the network took its offer back")
		default:
			return n.use(got)
		}
	}
	return last
}

// ask puts a question and returns what is said to it.
func (n *nic) ask(ctx context.Context, q question) (byte, lease, error) {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	q.id, q.mac = binary.BigEndian.Uint32(id[:]), n.HardwareAddr
	end := time.Now().Add(questionTime)
	if t, ok := ctx.Deadline(); ok && t.Before(end) {
		end = t
	}
	if err := n.conn.SetDeadline(end); err != nil {
		return 0, lease{}, err
	}
	if _, err := n.conn.WriteTo(q.bytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpServer}); err != nil {
		<-time.After(time.Until(end)) // the interface may not be ready yet
		return 0, lease{}, silence(err)
	}
	b := make([]byte, 1500)
	for {
		size, _, err := n.conn.ReadFrom(b)
		if err != nil {
			return 0, lease{}, silence(err)
		}
		kind, l, err := answerOf(b[:size], q)
		wanted := kind == dhcpAck || kind == dhcpNak
		if q.kind == dhcpDiscover {
			wanted = kind == dhcpOffer
		}
		if err == nil && wanted {
			return kind, l, nil
		}
	}
}

// silence says of a deadline what has not come before it.
func silence(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSilence
	}
	return err
}

// hold renews the address as long as the machine runs; one that the network does
// not give again is given up, and another asked for.
func (n *nic) hold() {
	for {
		ends := time.Now().Add(n.now.length)
		time.Sleep(n.now.length / 2)
		renewed := false
		for !renewed && time.Now().Before(ends) {
			kind, l, err := n.ask(context.Background(), question{kind: dhcpRequest, have: n.now.address.Addr(), renewing: true})
			switch {
			case err == nil && kind == dhcpAck && l.address == n.now.address:
				n.now, renewed = l, true
			case err == nil:
				ends = time.Time{} // it is another's now
			default:
				time.Sleep(renewAgain)
			}
		}
		for !renewed {
			_ = n.address(unix.RTM_DELADDR, 0) // one that is gone needs no end
			ctx, cancel := context.WithTimeout(context.Background(), addressTime)
			renewed = n.obtain(ctx) == nil
			cancel()
		}
	}
}

// use gives the interface its address, the machine its way out and its servers
// for names.
func (n *nic) use(l lease) error {
	n.now = l
	if err := n.address(unix.RTM_NEWADDR, netlink.Create|netlink.Replace); err != nil {
		return fmt.Errorf("address %v: %w", l.address, err)
	}
	if l.router.IsValid() {
		if err := n.route(); err != nil {
			return fmt.Errorf("way out by %v: %w", l.router, err)
		}
	}
	var text strings.Builder
	for _, a := range l.names {
		fmt.Fprintf(&text, "nameserver %v\n", a)
	}
	return replace("/etc/resolv.conf", text.String(), 0o644)
}

// tell asks the kernel to change something of the network.
func tell(what uint16, flags netlink.HeaderFlags, head []byte, attributes []netlink.Attribute) error {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	rest, err := netlink.MarshalAttributes(attributes)
	if err != nil {
		return err
	}
	_, err = c.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(what), Flags: netlink.Request | netlink.Acknowledge | flags}, Data: append(head, rest...),
	})
	return err
}

func (n *nic) up() error {
	head := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(head[4:], uint32(n.Index))
	binary.NativeEndian.PutUint32(head[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(head[12:], unix.IFF_UP)
	return tell(unix.RTM_NEWLINK, 0, head, nil)
}

func (n *nic) address(what uint16, flags netlink.HeaderFlags) error {
	head := make([]byte, unix.SizeofIfAddrmsg)
	head[0], head[1] = unix.AF_INET, byte(n.now.address.Bits())
	binary.NativeEndian.PutUint32(head[4:], uint32(n.Index))
	a := n.now.address.Addr().AsSlice()
	return tell(what, flags, head, []netlink.Attribute{{Type: unix.IFA_LOCAL, Data: a}, {Type: unix.IFA_ADDRESS, Data: a}, {Type: unix.IFA_BROADCAST, Data: broadcast(n.now.address)}})
}

// broadcast is the address of all in a network.
func broadcast(p netip.Prefix) []byte {
	a := p.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(a[:]) | uint32(uint64(1)<<(32-p.Bits())-1)
	return binary.BigEndian.AppendUint32(nil, n)
}

func (n *nic) route() error {
	head := make([]byte, unix.SizeofRtMsg)
	head[0], head[4], head[5], head[6], head[7] = unix.AF_INET, unix.RT_TABLE_MAIN, unix.RTPROT_DHCP, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST
	oif := binary.NativeEndian.AppendUint32(nil, uint32(n.Index))
	err := tell(unix.RTM_NEWROUTE, netlink.Create|netlink.Replace, head,
		[]netlink.Attribute{{Type: unix.RTA_GATEWAY, Data: n.now.router.AsSlice()}, {Type: unix.RTA_OIF, Data: oif}})
	return os.NewSyscallError("route", err)
}
