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

// Where the guest takes what is redirected to it.
const (
	gatePort = 3129 // TCP connections to anywhere
	dnsPort  = 3153 // DNS, of UDP and TCP
)

// loopback is the interface that every network namespace has, the first.
const loopback = 1

// Redirect makes every TCP connection and every DNS query of the calling
// thread's network namespace end in this sandbox's guest, by a local route for
// all addresses and a redirection of what goes out. It needs CAP_NET_ADMIN, and
// a namespace with no interface but lo: what has another is ErrState.
func Redirect() error {
	if err := onlyLoopback(); err != nil {
		return err
	}
	if err := routes(); err != nil {
		return fmt.Errorf("routes of the sandbox: %w", err)
	}
	if err := rules(); err != nil {
		return fmt.Errorf("%w: redirection of connections (it needs nf_tables with NAT in the kernel): %w", atoll.ErrUnavailable, err)
	}
	return nil
}

// onlyLoopback guards the network of a host.
func onlyLoopback() error {
	list, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return fmt.Errorf("%w: this network namespace has the interface %s: only one with nothing but lo is redirected", atoll.ErrState, i.Name)
		}
	}
	return nil
}

// routes switches lo on and makes all addresses local.
func routes() error {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	up := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(up[4:], loopback)
	binary.NativeEndian.PutUint32(up[8:], unix.IFF_UP)  // flags
	binary.NativeEndian.PutUint32(up[12:], unix.IFF_UP) // which of them
	if err := ask(c, unix.RTM_NEWLINK, 0, up); err != nil {
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
		err = ask(c, unix.RTM_NEWROUTE, netlink.Create|netlink.Replace, append(route, oif...))
		if err != nil && (family == unix.AF_INET || !without6(err)) {
			return err
		}
	}
	return nil
}

// without6 reports an error of a kernel without IPv6, where there is nothing
// to redirect.
func without6(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EACCES)
}

func ask(c *netlink.Conn, what uint16, flags netlink.HeaderFlags, data []byte) error {
	_, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(what), Flags: netlink.Request | netlink.Acknowledge | flags}, Data: data,
	})
	return err
}

// rules makes the table that redirects. In words:
//
//	udp dport 53 redirect to :3153
//	tcp dport 53 redirect to :3153
//	ip daddr 127.0.0.0/8 accept
//	ip6 daddr ::1 accept
//	meta l4proto tcp redirect to :3129
//
// and, so that an address that is only a route does not answer a ping, drops
// what is neither TCP nor UDP and not for loopback.
func rules() error {
	err := tableOf(false)
	if errors.Is(err, unix.EEXIST) {
		return tableOf(true)
	}
	return err
}

// tableOf makes the table, again in the place of one of before: then the kernel
// waits until nothing uses that.
func tableOf(again bool) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := &nftables.Table{Name: "atoll", Family: nftables.TableFamilyINet}
	if again {
		c.DelTable(table) // in the same step
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
	own4 := toPrefix(netip.MustParsePrefix("127.0.0.0/8"))
	own6 := toPrefix(netip.MustParsePrefix("::1/128"))
	add(nat, protocol(unix.IPPROTO_UDP), port(53), redirect(dnsPort))
	add(nat, protocol(unix.IPPROTO_TCP), port(53), redirect(dnsPort))
	add(nat, own4, accept)
	add(nat, own6, accept)
	add(nat, protocol(unix.IPPROTO_TCP), redirect(gatePort))
	filter := c.AddChain(&nftables.Chain{
		Name: "rest", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter,
	})
	add(filter, own4, accept)
	add(filter, own6, accept)
	add(filter, protocol(unix.IPPROTO_TCP), accept)
	add(filter, protocol(unix.IPPROTO_UDP), accept)
	add(filter, echo(unix.NFPROTO_IPV4, unix.IPPROTO_ICMP, 8), []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}})
	add(filter, echo(unix.NFPROTO_IPV6, unix.IPPROTO_ICMPV6, 128), []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}})
	return c.Flush()
}

func protocol(n byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{n}}}
}

// port compares the destination's.
func port(n uint16) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(n)},
	}
}

func redirect(to uint16) []expr.Any {
	return []expr.Any{&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(to)}, &expr.Redir{RegisterProtoMin: 1}}
}

// family compares that of the packet.
func family(n byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{n}}}
}

// toPrefix compares the destination's address.
func toPrefix(p netip.Prefix) []expr.Any {
	fam, offset, size := byte(unix.NFPROTO_IPV4), uint32(16), 4
	if p.Addr().Is6() {
		fam, offset, size = unix.NFPROTO_IPV6, 24, 16
	}
	return append(family(fam),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(size)},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(size), Mask: net.CIDRMask(p.Bits(), 8*size), Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()})
}

// echo matches a request that any address would answer.
func echo(fam, proto, kind byte) []expr.Any {
	return append(append(family(fam), protocol(proto)...),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{kind}})
}

// originalDst returns where a redirected connection was to go.
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
		return to, fmt.Errorf("where a connection was to go: %w", err)
	}
	if to == local || to.Addr().Unmap().IsLoopback() {
		return to, fmt.Errorf("%w: a connection to port %s itself", atoll.ErrDenied, strconv.Itoa(gatePort))
	}
	return to, nil
}
