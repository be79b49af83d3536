package inside

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// lease is an address that a network has lent.
type lease struct {
	address netip.Prefix
	router  netip.Addr   // not valid: none
	names   []netip.Addr // servers for names
	server  netip.Addr   // who lent it
	length  time.Duration
}

// Kinds of messages of DHCP (RFC 2131).
const (
	dhcpDiscover = 1
	dhcpOffer    = 2
	dhcpRequest  = 3
	dhcpAck      = 5
	dhcpNak      = 6
)

// Options of them (RFC 2132).
const (
	optMask     = 1
	optRouter   = 3
	optNames    = 6
	optAddress  = 50 // that is asked for
	optLength   = 51
	optKind     = 53
	optServer   = 54
	optWanted   = 55
	optEnd      = 255
	dhcpHead    = 236
	dhcpCookie  = 0x63825363
	mostServers = 3 // for names: what resolvers look at
)

// Bounds of a lease's length: one that is shorter would only be asked for anew,
// and of a longer one nobody says that it ends.
const (
	shortestLease = time.Minute
	longestLease  = 30 * 24 * time.Hour
)

// question makes a message to the servers of a network. have is the address that
// is asked for, of the server that offered it; renewing one that is used, from is
// not named.
type question struct {
	kind     byte
	id       uint32
	mac      net.HardwareAddr
	have     netip.Addr
	from     netip.Addr
	renewing bool
}

func (q question) bytes() []byte {
	b := make([]byte, dhcpHead, dhcpHead+64)
	b[0], b[1], b[2] = 1, 1, 6 // a request, over Ethernet
	binary.BigEndian.PutUint32(b[4:], q.id)
	if q.renewing {
		copy(b[12:], q.have.AsSlice())
	} else {
		b[10] = 0x80 // answers are for all: nothing reaches an address that is not ours yet
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

// answerOf reads what a server says to a question.
func answerOf(b []byte, q question) (kind byte, l lease, err error) {
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
		return kind, l, fmt.Errorf("an offer of the address %v", address)
	}
	l.names = addresses(options[optNames], mostServers)
	if r := addresses(options[optRouter], 1); len(r) > 0 {
		l.router = r[0]
	}
	if s := addresses(options[optServer], 1); len(s) > 0 {
		l.server = s[0]
	}
	l.length = longestLease
	if t := options[optLength]; len(t) == 4 {
		l.length = min(max(time.Duration(binary.BigEndian.Uint32(t))*time.Second, shortestLease), longestLease)
	}
	return kind, l, nil
}

// dhcpOptions reads the options of a message, each once.
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

func addresses(b []byte, most int) (list []netip.Addr) {
	for ; len(b) >= 4 && len(list) < most; b = b[4:] {
		if a, ok := netip.AddrFromSlice(b[:4]); ok && a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() {
			list = append(list, a)
		}
	}
	return list
}
