package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Limits on the connections and messages of programs inside. More are refused.
const (
	maxOutgoing = 200 // connections; less than guestStreams
	maxQueries  = 40  // DNS messages; together with connections less than guestStreams
)

// egressListener accepts the outgoing connections of programs inside and forwards them to the host.
type egressListener struct {
	s       *Server
	conns   chan struct{} // holds a token for each open connection
	queries chan struct{} // holds a token for each DNS message without an answer
}

// listenEgress opens the listeners for outgoing connections. They and their goroutines last as
// long as the process.
func (s *Server) listenEgress(ctx context.Context) error {
	loopback4, loopback6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	o := &egressListener{s: s, conns: make(chan struct{}, maxOutgoing), queries: make(chan struct{}, maxQueries)}
	for _, l := range []struct {
		offer   string
		address netip.AddrPort
		must    bool
		serve   func(ctx context.Context, conn net.Conn, offer string)
	}{
		{OfferEgress, netip.AddrPortFrom(loopback4, redirectPort), true, o.forwardRedirected},
		{OfferEgress, netip.AddrPortFrom(loopback6, redirectPort), false, o.forwardRedirected}, // there may be no IPv6
		{OfferProxy, netip.MustParseAddrPort(ProxyAddress), true, o.forwardRaw},
		{OfferDNS, netip.AddrPortFrom(loopback4, dnsPort), true, o.forwardRaw},
		{OfferDNS, netip.AddrPortFrom(loopback6, dnsPort), false, o.forwardRaw},
	} {
		listener, err := listenTCP(l.address)
		if err != nil {
			if l.must {
				return fmt.Errorf("listen for outgoing connections: %w", err)
			}
			continue
		}
		go o.acceptConns(ctx, listener, func(c net.Conn) { l.serve(ctx, c, l.offer) })
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		pc, err := new(net.ListenConfig).ListenPacket(ctx, "udp", net.JoinHostPort(host, strconv.Itoa(dnsPort)))
		if err == nil {
			go o.serveDNS(ctx, pc)
		} else if host == "127.0.0.1" {
			return fmt.Errorf("listen for DNS: %w", err)
		}
	}
	return nil
}

// listenTCP listens on an address. Package net would read settings of the kernel for that first,
// which takes longer than the whole rest.
func listenTCP(address netip.AddrPort) (net.Listener, error) {
	family, sa := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: address.Addr().As16(), Port: int(address.Port())})
	if address.Addr().Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Addr: address.Addr().As4(), Port: int(address.Port())}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close() // the listener has its own descriptor
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, sa); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	return net.FileListener(f)
}

// backlog is the number of connections that wait to be accepted. The kernel's own limit may be lower.
const backlog = 4096

// acceptConns accepts connections until the listener fails.
func (o *egressListener) acceptConns(ctx context.Context, l net.Listener, serve func(net.Conn)) {
	defer l.Close()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			sleepBriefly(ctx) // out of descriptors: other connections must end first
			continue
		}
		select {
		case o.conns <- struct{}{}:
			go func() {
				defer func() { <-o.conns }()
				defer c.Close()
				serve(c)
			}()
		default:
			wire.Abort(c)
			o.s.notifyDenied("", fmt.Sprintf("more than %d connections at once", maxOutgoing))
		}
	}
}

// sleepBriefly waits 20 ms, or until ctx is done.
func sleepBriefly(ctx context.Context) {
	t := time.NewTimer(20 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// forwardRedirected forwards a redirected connection to the egress proxy.
func (o *egressListener) forwardRedirected(ctx context.Context, c net.Conn, offer string) {
	to, err := originalDst(c.(*net.TCPConn)) // the listener is a TCP listener
	if err != nil {
		wire.Abort(c)
		return
	}
	o.forward(ctx, c, offer, to.String())
}

// forwardRaw forwards a connection that has no original destination.
func (o *egressListener) forwardRaw(ctx context.Context, c net.Conn, offer string) {
	o.forward(ctx, c, offer, "")
}

func (o *egressListener) forward(ctx context.Context, c net.Conn, offer, to string) {
	st, err := o.s.openReverse(ctx, offer, to)
	if err != nil {
		wire.Abort(c)
		o.s.notifyDenied(to, err.Error())
		return
	}
	defer st.Close()
	wire.Join(ctx, c.(wire.HalfCloser), st) // TCP connections implement it
}

// maxDatagram is the largest DNS message over UDP in bytes.
const maxDatagram = 4096

// serveDNS answers DNS messages over UDP until the socket fails.
func (o *egressListener) serveDNS(ctx context.Context, pc net.PacketConn) {
	defer pc.Close()
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue // ICMP error of an earlier answer
		}
		if n < dnsHead {
			continue
		}
		q := append([]byte(nil), buf[:n]...)
		select {
		case o.queries <- struct{}{}:
			go func() {
				defer func() { <-o.queries }()
				_, _ = pc.WriteTo(o.resolveQuery(ctx, q), from) // the client may have closed its socket
			}()
		default:
			_, _ = pc.WriteTo(buildRefusal(q), from) // the client may have closed its socket
		}
	}
}

// queryTimeout limits the time of the host's answer to a DNS message.
const queryTimeout = 10 * time.Second

// resolveQuery returns the host's answer to a DNS message, or a refusal.
func (o *egressListener) resolveQuery(ctx context.Context, q []byte) []byte {
	st, err := o.s.openReverse(ctx, OfferDNS, "")
	if err != nil {
		return buildRefusal(q)
	}
	defer st.Close()
	_ = st.SetDeadline(time.Now().Add(queryTimeout)) // never fails
	a, err := exchangeDNS(st, q)
	if err != nil {
		_ = st.Reset() // the channel is of no further use
		return buildRefusal(q)
	}
	return a
}

func exchangeDNS(st *yamux.Stream, q []byte) ([]byte, error) {
	if _, err := st.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil {
		return nil, err
	}
	var head [2]byte
	if _, err := io.ReadFull(st, head[:]); err != nil {
		return nil, err
	}
	a := make([]byte, binary.BigEndian.Uint16(head[:]))
	_, err := io.ReadFull(st, a)
	return a, err
}

// dnsHead is the length of the header of a DNS message in bytes.
const dnsHead = 12

// buildRefusal returns the answer REFUSED to a DNS message, with its question.
func buildRefusal(q []byte) []byte {
	const refused = 5
	a := append([]byte(nil), q...)
	a[2] = a[2]&0x79 | 0x80 // a response; opcode and RD are kept
	a[3] = refused
	clear(a[6:dnsHead]) // no answer, authority or additional records
	end := dnsHead
	for end < len(a) && a[end] != 0 && a[end] < 64 {
		end += 1 + int(a[end])
	}
	if end += 5; end <= len(a) && binary.BigEndian.Uint16(a[4:]) == 1 {
		return a[:end]
	}
	clear(a[4:6]) // not exactly one question: leave it out
	return a[:dnsHead]
}

// notifyDenied notifies subscribers of a connection that was refused by the guest.
func (s *Server) notifyDenied(to, why string) {
	n := atoll.Notice{Kind: atoll.NoticeDenied, Time: time.Now(), Address: to, Message: why}
	if a, err := netip.ParseAddrPort(to); err == nil {
		n.Port = int(a.Port())
	}
	s.notifyHosts(n)
}
