package vminit

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

// Ports of DHCP.
const (
	dhcpServer = 67
	dhcpClient = 68
)

// Time limits: for the first lease, while the sandbox waits; for a reply; and the pause after a
// failed renewal.
const (
	addressTimeout = 20 * time.Second
	answerTimeout  = 2 * time.Second
	renewPause     = 30 * time.Second
)

// nic is a network interface with an address from DHCP.
type nic struct {
	net.Interface
	conn net.PacketConn
	now  lease
}

// startNIC finds the interface with a hardware address, obtains an address for it, and renews that
// as long as the VM runs.
func startNIC(mac string) error {
	want, err := net.ParseMAC(mac)
	if err != nil || len(want) != 6 {
		return fmt.Errorf("%w: the hardware address %q", atoll.ErrInvalid, mac)
	}
	n := &nic{}
	if _, err = waitForDevice("network interface "+mac, func() (string, error) { return n.findInterface(want) }); err != nil {
		return err
	}
	if err := n.enableInterface(); err != nil {
		return fmt.Errorf("network interface %s: %w", n.Name, err)
	}
	if n.conn, err = n.listen(); err != nil {
		return fmt.Errorf("network interface %s: %w", n.Name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), addressTimeout)
	defer cancel()
	if err := n.obtainLease(ctx); err != nil {
		return fmt.Errorf("%w: the VM got no address by DHCP from its bridge within %v: %w", atoll.ErrUnavailable, addressTimeout, err)
	}
	go n.renewLease()
	return nil
}

func (n *nic) findInterface(mac net.HardwareAddr) (string, error) {
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

// listen opens a socket for DHCP that is bound to this interface.
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

// obtainLease obtains a lease, with as many tries as ctx allows.
func (n *nic) obtainLease(ctx context.Context) error {
	last := errSilence
	for ctx.Err() == nil {
		_, offer, err := n.sendQuestion(ctx, dhcpMessage{kind: dhcpDiscover})
		if err != nil {
			last = err
			continue
		}
		kind, got, err := n.sendQuestion(ctx, dhcpMessage{kind: dhcpRequest, have: offer.address.Addr(), from: offer.server})
		switch {
		case err != nil:
			last = err
		case kind == dhcpNak:
			last = errors.New("the server withdrew its offer")
		default:
			return n.applyLease(got)
		}
	}
	return last
}

// sendQuestion sends a message, and returns the reply.
func (n *nic) sendQuestion(ctx context.Context, q dhcpMessage) (byte, lease, error) {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	q.id, q.mac = binary.BigEndian.Uint32(id[:]), n.HardwareAddr
	end := time.Now().Add(answerTimeout)
	if t, ok := ctx.Deadline(); ok && t.Before(end) {
		end = t
	}
	if err := n.conn.SetDeadline(end); err != nil {
		return 0, lease{}, err
	}
	if _, err := n.conn.WriteTo(q.encode(), &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpServer}); err != nil {
		<-time.After(time.Until(end)) // the interface may not be ready yet
		return 0, lease{}, wrapTimeout(err)
	}
	b := make([]byte, 1500)
	for {
		size, _, err := n.conn.ReadFrom(b)
		if err != nil {
			return 0, lease{}, wrapTimeout(err)
		}
		kind, l, err := parseAnswer(b[:size], q)
		wanted := kind == dhcpAck || kind == dhcpNak
		if q.kind == dhcpDiscover {
			wanted = kind == dhcpOffer
		}
		if err == nil && wanted {
			return kind, l, nil
		}
	}
}

// wrapTimeout returns errSilence for an exceeded deadline.
func wrapTimeout(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSilence
	}
	return err
}

// renewLease renews the lease as long as the VM runs. If the network refuses that, it removes the
// address and obtains another one.
func (n *nic) renewLease() {
	for {
		ends := time.Now().Add(n.now.length)
		time.Sleep(n.now.length / 2) //nolint:forbidigo // as long as the VM runs
		renewed := false
		for !renewed && time.Now().Before(ends) {
			kind, l, err := n.sendQuestion(context.Background(), dhcpMessage{kind: dhcpRequest, have: n.now.address.Addr(), renewing: true})
			switch {
			case err == nil && kind == dhcpAck && l.address == n.now.address:
				n.now, renewed = l, true
			case err == nil:
				ends = time.Time{} // the address was assigned to another
			default:
				time.Sleep(renewPause) //nolint:forbidigo // as above
			}
		}
		for !renewed {
			_ = n.changeAddress(unix.RTM_DELADDR, 0) // the address may have disappeared
			ctx, cancel := context.WithTimeout(context.Background(), addressTimeout)
			renewed = n.obtainLease(ctx) == nil
			cancel()
		}
	}
}

// applyLease configures the interface's address, the default route and the name servers.
func (n *nic) applyLease(l lease) error {
	n.now = l
	if err := n.changeAddress(unix.RTM_NEWADDR, netlink.Create|netlink.Replace); err != nil {
		return fmt.Errorf("address %v: %w", l.address, err)
	}
	if l.router.IsValid() {
		if err := n.addRoute(); err != nil {
			return fmt.Errorf("route via %v: %w", l.router, err)
		}
	}
	var text strings.Builder
	for _, a := range l.names {
		fmt.Fprintf(&text, "nameserver %v\n", a)
	}
	return replaceFile("/etc/resolv.conf", text.String(), 0o644)
}

// changeNetwork sends a netlink request that changes the network configuration.
func changeNetwork(what uint16, flags netlink.HeaderFlags, head []byte, attributes []netlink.Attribute) error {
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

func (n *nic) enableInterface() error {
	head := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(head[4:], uint32(n.Index))
	binary.NativeEndian.PutUint32(head[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(head[12:], unix.IFF_UP)
	return changeNetwork(unix.RTM_NEWLINK, 0, head, nil)
}

func (n *nic) changeAddress(what uint16, flags netlink.HeaderFlags) error {
	head := make([]byte, unix.SizeofIfAddrmsg)
	head[0], head[1] = unix.AF_INET, byte(n.now.address.Bits())
	binary.NativeEndian.PutUint32(head[4:], uint32(n.Index))
	a := n.now.address.Addr().AsSlice()
	return changeNetwork(what, flags, head, []netlink.Attribute{{Type: unix.IFA_LOCAL, Data: a}, {Type: unix.IFA_ADDRESS, Data: a}, {Type: unix.IFA_BROADCAST, Data: broadcastAddress(n.now.address)}})
}

// broadcastAddress returns the broadcast address of a network.
func broadcastAddress(p netip.Prefix) []byte {
	a := p.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(a[:]) | uint32(uint64(1)<<(32-p.Bits())-1)
	return binary.BigEndian.AppendUint32(nil, n)
}

func (n *nic) addRoute() error {
	head := make([]byte, unix.SizeofRtMsg)
	head[0], head[4], head[5], head[6], head[7] = unix.AF_INET, unix.RT_TABLE_MAIN, unix.RTPROT_DHCP, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST
	oif := binary.NativeEndian.AppendUint32(nil, uint32(n.Index))
	err := changeNetwork(unix.RTM_NEWROUTE, netlink.Create|netlink.Replace, head,
		[]netlink.Attribute{{Type: unix.RTA_GATEWAY, Data: n.now.router.AsSlice()}, {Type: unix.RTA_OIF, Data: oif}})
	return os.NewSyscallError("route", err)
}
