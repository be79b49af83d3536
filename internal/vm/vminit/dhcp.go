package vminit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// lease is an address assigned by a DHCP server.
type lease struct {
	address netip.Prefix
	router  netip.Addr   // not valid: none
	names   []netip.Addr // name servers
	server  netip.Addr   // that assigned it
	length  time.Duration
}

// Types of DHCP messages (RFC 2131).
const (
	dhcpDiscover = 1
	dhcpOffer    = 2
	dhcpRequest  = 3
	dhcpAck      = 5
	dhcpNak      = 6
)

// DHCP options (RFC 2132).
const (
	optMask    = 1
	optRouter  = 3
	optNames   = 6
	optAddress = 50 // requested address
	optLength  = 51
	optKind    = 53
	optServer  = 54
	optWanted  = 55
	optEnd     = 255
	dhcpHead   = 236
	dhcpCookie = 0x63825363
	maxServers = 3 // name servers: resolvers use no more
)

// Limits of a lease's duration: a shorter one would be renewed all the time, a longer one is not
// worth it.
const (
	shortestLease = time.Minute
	longestLease  = 30 * 24 * time.Hour
)

// dhcpMessage is a message to the DHCP servers of a network. have is the requested address, of the
// server from that offered it; to renew a lease, from is not sent.
type dhcpMessage struct {
	kind     byte
	id       uint32
	mac      net.HardwareAddr
	have     netip.Addr
	from     netip.Addr
	renewing bool
}

func (q dhcpMessage) encode() []byte {
	b := make([]byte, dhcpHead, dhcpHead+64)
	b[0], b[1], b[2] = 1, 1, 6 // a request, over Ethernet
	binary.BigEndian.PutUint32(b[4:], q.id)
	if q.renewing {
		copy(b[12:], q.have.AsSlice())
	} else {
		b[10] = 0x80 // replies as broadcast: the address can't receive packets yet
	}
	copy(b[28:], q.mac)
	b = binary.BigEndian.AppendUint32(b, dhcpCookie)
	b = append(b, optKind, 1, q.kind, optWanted, 4, optMask, optRouter, optNames, optLength)
	if q.have.IsValid() && !q.renewing {
		b = append(append(b, optAddress, 4), q.have.AsSlice()...)
		b = append(append(b, optServer, 4), q.from.AsSlice()...)
	}
	return append(b, optEnd)
}

var errNotOurs = errors.New("a message for others")

// parseAnswer parses a server's reply to a message. A reply to another message is errNotOurs.
func parseAnswer(b []byte, q dhcpMessage) (kind byte, l lease, err error) {
	if len(b) < dhcpHead+4 || b[0] != 2 || binary.BigEndian.Uint32(b[4:]) != q.id || string(b[28:34]) != string(q.mac) ||
		binary.BigEndian.Uint32(b[dhcpHead:]) != dhcpCookie {
		return 0, l, errNotOurs
	}
	options, err := dhcpOptions(b[dhcpHead+4:])
	if err != nil {
		return 0, l, err
	}
	if k := options[optKind]; len(k) == 1 {
		kind = k[0]
	}
	if kind != dhcpOffer && kind != dhcpAck {
		return kind, l, nil
	}
	address, _ := netip.AddrFromSlice(b[16:20])
	mask := net.IPMask(options[optMask])
	bits, size := mask.Size()
	if size != 32 || bits == 0 {
		bits = 24
	}
	l.address = netip.PrefixFrom(address, bits)
	if !address.IsGlobalUnicast() && !address.IsLinkLocalUnicast() {
		return kind, l, fmt.Errorf("the offered address %v is not usable", address)
	}
	l.names = parseAddresses(options[optNames], maxServers)
	if r := parseAddresses(options[optRouter], 1); len(r) > 0 {
		l.router = r[0]
	}
	if s := parseAddresses(options[optServer], 1); len(s) > 0 {
		l.server = s[0]
	}
	l.length = longestLease
	if t := options[optLength]; len(t) == 4 {
		l.length = min(max(time.Duration(binary.BigEndian.Uint32(t))*time.Second, shortestLease), longestLease)
	}
	return kind, l, nil
}

// dhcpOptions parses the options of a message; the last one of a code counts.
func dhcpOptions(b []byte) (map[byte][]byte, error) {
	options := make(map[byte][]byte)
	for len(b) > 0 && b[0] != optEnd {
		if b[0] == 0 {
			b = b[1:]
			continue
		}
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return nil, errors.New("a message that ends within an option")
		}
		options[b[0]] = b[2 : 2+int(b[1])]
		b = b[2+int(b[1]):]
	}
	return options, nil
}

func parseAddresses(b []byte, most int) (list []netip.Addr) {
	for ; len(b) >= 4 && len(list) < most; b = b[4:] {
		if a, ok := netip.AddrFromSlice(b[:4]); ok && a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() {
			list = append(list, a)
		}
	}
	return list
}
