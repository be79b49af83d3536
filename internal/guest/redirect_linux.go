package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
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
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	up := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(up[4:], loopback)
	binary.NativeEndian.PutUint32(up[8:], unix.IFF_UP)  // flags
	binary.NativeEndian.PutUint32(up[12:], unix.IFF_UP) // which of them
	if err := execNetlink(c, unix.RTM_NEWLINK, 0, up); err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		route := make([]byte, unix.SizeofRtMsg)
		route[0], route[4], route[5] = family, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT
		route[6], route[7] = unix.RT_SCOPE_HOST, unix.RTN_LOCAL
		oif, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.RTA_OIF, Data: binary.NativeEndian.AppendUint32(nil, loopback)}})
		if err != nil {
			return err
		}
		err = execNetlink(c, unix.RTM_NEWROUTE, netlink.Create|netlink.Replace, append(route, oif...))
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

func execNetlink(c *netlink.Conn, what uint16, flags netlink.HeaderFlags, data []byte) error {
	_, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(what), Flags: netlink.Request | netlink.Acknowledge | flags}, Data: data,
	})
	return err
}

// addRules creates the table with the redirecting rules:
//
//	udp dport 53 redirect to :3153
//	tcp dport 53 redirect to :3153
//	ip daddr 127.0.0.0/8 accept
//	ip6 daddr ::1 accept
//	meta l4proto tcp redirect to :3129
//
// It also drops packets that are neither TCP nor UDP nor for loopback, so that an address behind
// the local route does not answer a ping.
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
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := &nftables.Table{Name: "atoll", Family: nftables.TableFamilyINet}
	if again {
		c.DelTable(table) // in the same transaction
	}
	c.CreateTable(table)
	nat := c.AddChain(&nftables.Chain{
		Name: "out", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest,
	})
	add := func(chain *nftables.Chain, parts ...[]expr.Any) {
		r := &nftables.Rule{Table: table, Chain: chain}
		for _, p := range parts {
			r.Exprs = append(r.Exprs, p...)
		}
		c.AddRule(r)
	}
	accept := []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	own4 := matchPrefix(netip.MustParsePrefix("127.0.0.0/8"))
	own6 := matchPrefix(netip.MustParsePrefix("::1/128"))
	add(nat, matchProtocol(unix.IPPROTO_UDP), matchPort(53), redirectTo(dnsPort))
	add(nat, matchProtocol(unix.IPPROTO_TCP), matchPort(53), redirectTo(dnsPort))
	add(nat, own4, accept)
	add(nat, own6, accept)
	add(nat, matchProtocol(unix.IPPROTO_TCP), redirectTo(redirectPort))
	filter := c.AddChain(&nftables.Chain{
		Name: "rest", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter,
	})
	add(filter, own4, accept)
	add(filter, own6, accept)
	add(filter, matchProtocol(unix.IPPROTO_TCP), accept)
	add(filter, matchProtocol(unix.IPPROTO_UDP), accept)
	add(filter, matchEchoRequest(unix.NFPROTO_IPV4, unix.IPPROTO_ICMP, 8), []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}})
	add(filter, matchEchoRequest(unix.NFPROTO_IPV6, unix.IPPROTO_ICMPV6, 128), []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}})
	return c.Flush()
}

func matchProtocol(n byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{n}}}
}

// matchPort matches the destination port.
func matchPort(n uint16) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(n)},
	}
}

func redirectTo(to uint16) []expr.Any {
	return []expr.Any{&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(to)}, &expr.Redir{RegisterProtoMin: 1}}
}

// matchFamily matches the address family of the packet.
func matchFamily(n byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{n}}}
}

// matchPrefix matches the destination address.
func matchPrefix(p netip.Prefix) []expr.Any {
	fam, offset, size := byte(unix.NFPROTO_IPV4), uint32(16), 4
	if p.Addr().Is6() {
		fam, offset, size = unix.NFPROTO_IPV6, 24, 16
	}
	return append(matchFamily(fam),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(size)},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(size), Mask: net.CIDRMask(p.Bits(), 8*size), Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()})
}

// matchEchoRequest matches an echo request, which any local address would answer.
func matchEchoRequest(fam, proto, kind byte) []expr.Any {
	return append(append(matchFamily(fam), matchProtocol(proto)...),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{kind}})
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
