package guest

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// The ports to which the guest's connections are redirected.
const (
	redirectPort = 3129 // TCP connections to any address
	dnsPort      = 3153 // DNS over UDP and TCP
)

// loopback is the index of the interface lo in every network namespace.
const loopback = 1

// RedirectConnections redirects every TCP connection and DNS query in the network namespace of the calling
// thread to the guest, with a local route for all addresses and NAT rules. It needs CAP_NET_ADMIN
// and a namespace whose only interface is lo; another interface is ErrState.
func RedirectConnections() error {
	if err := checkOnlyLoopback(); err != nil {
		return err
	}
	if err := addRoutes(); err != nil {
		return fmt.Errorf("add routes: %w", err)
	}
	if err := addRules(); err != nil {
		return fmt.Errorf("%w: redirect connections (needs nf_tables with NAT in the kernel): %w", atoll.ErrUnavailable, err)
	}
	return nil
}

// checkOnlyLoopback protects the network of a host from Redirect.
func checkOnlyLoopback() error {
	list, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return fmt.Errorf("%w: this network namespace has the interface %s: only a namespace with nothing but lo can be redirected", atoll.ErrState, i.Name)
		}
	}
	return nil
}

// addRoutes sets lo up and makes all addresses local.
func addRoutes() error {
	c, err := dialNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer c.close()
	up := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(up[4:], loopback)
	binary.NativeEndian.PutUint32(up[8:], unix.IFF_UP)  // flags
	binary.NativeEndian.PutUint32(up[12:], unix.IFF_UP) // which of them
	if err := c.execute(netlinkMessage(unix.RTM_NEWLINK, unix.NLM_F_ACK, 1, up), 1); err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		route := make([]byte, unix.SizeofRtMsg)
		route[0], route[4], route[5] = family, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT
		route[6], route[7] = unix.RT_SCOPE_HOST, unix.RTN_LOCAL
		route = binary.NativeEndian.AppendUint16(route, unix.SizeofRtAttr+4)
		route = binary.NativeEndian.AppendUint16(route, unix.RTA_OIF)
		route = binary.NativeEndian.AppendUint32(route, loopback)
		seq := uint32(family) // differs from the others
		err := c.execute(netlinkMessage(unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE, seq, route), seq)
		if err != nil && (family == unix.AF_INET || !isNoIPv6(err)) {
			return err
		}
	}
	return nil
}

// isNoIPv6 reports whether an error means that the kernel has no IPv6, so that there is nothing to
// redirect.
func isNoIPv6(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EACCES)
}

// redirectRules is the transaction that creates the table with the redirecting rules:
//
//	udp dport 53 redirect to :3153
//	tcp dport 53 redirect to :3153
//	ip daddr 127.0.0.0/8 accept
//	ip6 daddr ::1 accept
//	meta l4proto tcp redirect to :3129
//
// It also drops packets that are neither TCP nor UDP nor for loopback, so that an address behind
// the local route does not answer a ping. Its second message removes an earlier table. The rules are in
// redirect_rules_linux_test.go, whose test writes the file (-update): every guest sends the same bytes,
// and building them took longer than the kernel takes to execute them.
//
//go:embed redirect_rules.bin
var redirectRules []byte

// addRules creates the table with the redirecting rules.
func addRules() error {
	err := replaceTable(false)
	if errors.Is(err, unix.EEXIST) {
		return replaceTable(true)
	}
	return err
}

// replaceTable creates the table. With again, it replaces an earlier one; the kernel then waits
// until that is no longer in use.
func replaceTable(again bool) error {
	batch, last, err := redirectBatch(again)
	if err != nil {
		return err
	}
	c, err := dialNetlink(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer c.close()
	return c.execute(batch, last)
}

// redirectBatch returns the transaction, and the number of the message that the kernel acknowledges when
// it has executed all.
func redirectBatch(again bool) (batch []byte, acknowledged uint32, err error) {
	begin, err := nextMessage(redirectRules)
	if err != nil {
		return nil, 0, err
	}
	remove, err := nextMessage(redirectRules[len(begin):])
	if err != nil {
		return nil, 0, err
	}
	batch = append(batch, begin...)
	if again {
		batch = append(batch, remove...)
	}
	batch = append(batch, redirectRules[len(begin)+len(remove):]...)
	for at := 0; at < len(batch); {
		m, err := nextMessage(batch[at:])
		if err != nil {
			return nil, 0, err
		}
		if h := parseNetlinkHeader(m); h.Flags&unix.NLM_F_ACK != 0 {
			acknowledged = h.Seq
		}
		at += len(m)
	}
	return batch, acknowledged, nil
}

// originalDst returns the original destination of a redirected connection.
func originalDst(c *net.TCPConn) (netip.AddrPort, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	local, _ := netip.ParseAddrPort(c.LocalAddr().String())
	var to netip.AddrPort
	var sockErr error
	err = raw.Control(func(fd uintptr) {
		if local.Addr().Unmap().Is4() {
			var m *unix.IPv6Mreq // 16 bytes: a struct sockaddr_in
			if m, sockErr = unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, unix.SO_ORIGINAL_DST); sockErr == nil {
				b := m.Multiaddr
				to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
			}
			return
		}
		var m *unix.IPv6MTUInfo // begins with a struct sockaddr_in6
		if m, sockErr = unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, unix.SO_ORIGINAL_DST); sockErr == nil {
			be := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, m.Addr.Port))
			to = netip.AddrPortFrom(netip.AddrFrom16(m.Addr.Addr), be)
		}
	})
	if err = errors.Join(err, sockErr); err != nil {
		return to, fmt.Errorf("read the original destination: %w", err)
	}
	if to == local || to.Addr().Unmap().IsLoopback() {
		return to, fmt.Errorf("%w: a direct connection to port %s", atoll.ErrDenied, strconv.Itoa(redirectPort))
	}
	return to, nil
}
