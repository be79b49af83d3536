//go:build unix

package mdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// The multicast groups.
var (
	group4 = netip.MustParseAddr("224.0.0.251")
	group6 = netip.MustParseAddr("ff02::fb")
)

// socket is the link of a network interface.
type socket struct {
	iface *net.Interface
	v4    *ipv4.PacketConn // nil without IPv4
	v6    *ipv6.PacketConn // likewise

	mu       sync.Mutex
	prefixes []netip.Prefix // guarded by mu
	readAt   time.Time      // when have was true; guarded by mu
	closers  []func() error
}

// openSocket opens the sockets of an interface.
func openSocket(name string) (*socket, error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", atoll.ErrNotFound, err)
	}
	if iface.Flags&net.FlagMulticast == 0 {
		return nil, fmt.Errorf("%w: the interface does not support multicast", atoll.ErrUnsupported)
	}
	s := &socket{iface: iface}
	err4, err6 := s.listen4(), s.listen6()
	if s.v4 == nil && s.v6 == nil {
		return nil, fmt.Errorf("%w: %w", atoll.ErrUnavailable, errors.Join(err4, err6))
	}
	return s, nil
}

// allowPortReuse lets other responders on this host use the port too.
func allowPortReuse(_, _ string, c syscall.RawConn) error {
	var inner error
	err := c.Control(func(fd uintptr) {
		inner = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	})
	return errors.Join(err, inner)
}

func listenPackets(network, address string) (net.PacketConn, error) {
	lc := net.ListenConfig{Control: allowPortReuse}
	return lc.ListenPacket(context.Background(), network, address)
}

func (s *socket) listen4() error {
	conn, err := listenPackets("udp4", "0.0.0.0:5353")
	if err != nil {
		return err
	}
	p := ipv4.NewPacketConn(conn)
	err = errors.Join(p.JoinGroup(s.iface, &net.UDPAddr{IP: group4.AsSlice()}), p.SetMulticastInterface(s.iface), p.SetMulticastTTL(255), p.SetTTL(255), p.SetMulticastLoopback(true),
		p.SetControlMessage(ipv4.FlagInterface, true))
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	s.v4, s.closers = p, append(s.closers, conn.Close)
	return nil
}

func (s *socket) listen6() error {
	conn, err := listenPackets("udp6", "[::]:5353")
	if err != nil {
		return err
	}
	p := ipv6.NewPacketConn(conn)
	err = errors.Join(p.JoinGroup(s.iface, &net.UDPAddr{IP: group6.AsSlice()}), p.SetMulticastInterface(s.iface), p.SetMulticastHopLimit(255), p.SetHopLimit(255), p.SetMulticastLoopback(true),
		p.SetControlMessage(ipv6.FlagInterface, true))
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	s.v6, s.closers = p, append(s.closers, conn.Close)
	return nil
}

// serve passes the messages that arrive on the interface to r until it is closed.
func (s *socket) serve(r *Responder) {
	if s.v4 != nil {
		r.wg.Go(func() {
			s.readPackets(r, func(b []byte) (int, int, net.Addr, error) {
				n, cm, from, err := s.v4.ReadFrom(b)
				if cm == nil {
					return n, 0, from, err
				}
				return n, cm.IfIndex, from, err
			})
		})
	}
	if s.v6 != nil {
		r.wg.Go(func() {
			s.readPackets(r, func(b []byte) (int, int, net.Addr, error) {
				n, cm, from, err := s.v6.ReadFrom(b)
				if cm == nil {
					return n, 0, from, err
				}
				return n, cm.IfIndex, from, err
			})
		})
	}
}

func (s *socket) readPackets(r *Responder, from func(b []byte) (n, index int, from net.Addr, err error)) {
	b := make([]byte, maxMessage)
	for {
		n, index, addr, err := from(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if u, ok := addr.(*net.UDPAddr); ok && err == nil && index == s.iface.Index {
			r.handleMessage(s, b[:n], u.AddrPort())
		}
		if err == nil {
			continue
		}
		select { // an interface that went down may come up
		case <-r.done:
			return
		case <-time.After(time.Second):
		}
	}
}

// send sends a message. Errors are ignored, as messages may be lost on any network.
func (s *socket) send(msg []byte, to netip.AddrPort) {
	if len(msg) == 0 {
		return
	}
	if to.IsValid() {
		addr := net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
		switch {
		case addr.IP.To4() != nil && s.v4 != nil:
			_, _ = s.v4.WriteTo(msg, &ipv4.ControlMessage{IfIndex: s.iface.Index}, addr)
		case addr.IP.To4() == nil && s.v6 != nil:
			_, _ = s.v6.WriteTo(msg, &ipv6.ControlMessage{IfIndex: s.iface.Index}, addr)
		}
		return
	}
	if s.v4 != nil {
		_, _ = s.v4.WriteTo(msg, &ipv4.ControlMessage{IfIndex: s.iface.Index}, &net.UDPAddr{IP: group4.AsSlice(), Port: port})
	}
	if s.v6 != nil {
		_, _ = s.v6.WriteTo(msg, &ipv6.ControlMessage{IfIndex: s.iface.Index}, &net.UDPAddr{IP: group6.AsSlice(), Port: port, Zone: s.iface.Name})
	}
}

func (s *socket) listPrefixes() []netip.Prefix {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.readAt) >= addrCacheTime {
		list, err := s.iface.Addrs()
		if err != nil {
			return s.prefixes
		}
		s.prefixes, s.readAt = nil, now
		for _, a := range list {
			if n, ok := a.(*net.IPNet); ok {
				if p, err := netip.ParsePrefix(n.String()); err == nil {
					s.prefixes = append(s.prefixes, p)
				}
			}
		}
	}
	return s.prefixes
}

func (s *socket) close() {
	for _, c := range s.closers {
		_ = c() // readPackets returns
	}
}
