package guest

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// endpoint is a listening address.
type endpoint struct {
	addr netip.Addr
	port int
}

// listenSocket is a listening socket.
type listenSocket struct {
	endpoint
	inode uint32
}

// handlePorts handles OpPorts.
func (s *Server) handlePorts(_ context.Context, _ *host, st *yamux.Stream, _ *Request) {
	sockets, err := listSockets()
	list := []atoll.Port{}
	if err == nil {
		sockets = excludeOwn(sockets)
		owners := s.findOwners(sockets)
		for _, k := range sockets[:min(len(sockets), maxPorts)] {
			list = append(list, owners[k.inode].buildPort(k.endpoint))
		}
	}
	sendReply(st, list, err)
}

// checkPorts reports ports that were opened or closed since the last poll. It returns whether
// there were any. The caller must hold news.pollMu.
func (s *Server) checkPorts() bool {
	sockets, err := listSockets()
	if err != nil {
		return false
	}
	h := &s.news
	now := make(map[endpoint]bool, len(sockets))
	fresh := sockets[:0]
	for _, k := range sockets {
		if _, old := h.ports[k.endpoint]; !old && !now[k.endpoint] {
			fresh = append(fresh, k)
		}
		now[k.endpoint] = true
	}
	changed := false
	for e, p := range h.ports {
		if !now[e] {
			changed = true
			delete(h.ports, e)
			h.emitNotice(atoll.Notice{Kind: atoll.NoticePortClosed, Port: p.Port, Address: p.Address, PID: p.PID, Command: p.Command})
		}
	}
	if fresh = excludeOwn(fresh); len(fresh) == 0 {
		return changed
	}
	owners := s.findOwners(fresh)
	for _, k := range fresh[:min(len(fresh), max(0, maxPorts-len(h.ports)))] {
		p := owners[k.inode].buildPort(k.endpoint)
		h.ports[k.endpoint] = p
		h.emitNotice(atoll.Notice{Kind: atoll.NoticePortOpened, Port: p.Port, Address: p.Address, PID: p.PID, Command: p.Command})
	}
	return true
}

// socketOwner is a process that has a socket open.
type socketOwner struct {
	pid  int
	name string
}

func (o socketOwner) buildPort(e endpoint) atoll.Port {
	return atoll.Port{Port: e.port, Address: e.addr.String(), PID: o.pid, Command: o.name}
}

// listSockets returns the listening TCP sockets, ordered by port and address.
func listSockets() ([]listenSocket, error) {
	list, err := dumpSockets()
	if err != nil {
		list, err = readProcTables()
	}
	slices.SortFunc(list, func(a, b listenSocket) int {
		return cmp.Or(cmp.Compare(a.port, b.port), a.addr.Compare(b.addr), cmp.Compare(a.inode, b.inode))
	})
	return list, err
}

// Format of a dump of sockets; see linux/inet_diag.h.
const (
	diagByFamily   = 20
	diagListen     = 1 << 10 // TCP_LISTEN
	diagRequest    = 56
	diagAnswer     = 72
	diagSourcePort = 4
	diagSource     = 8
	diagInode      = 68
)

// dumpSockets returns the listening sockets of this network namespace over netlink.
func dumpSockets() ([]listenSocket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return nil, err
	}
	var list []listenSocket
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		q := make([]byte, unix.NLMSG_HDRLEN+diagRequest)
		binary.NativeEndian.PutUint32(q, uint32(len(q)))
		binary.NativeEndian.PutUint16(q[4:], diagByFamily)
		binary.NativeEndian.PutUint16(q[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
		q[unix.NLMSG_HDRLEN], q[unix.NLMSG_HDRLEN+1] = family, unix.IPPROTO_TCP
		binary.NativeEndian.PutUint32(q[unix.NLMSG_HDRLEN+4:], diagListen)
		if err := unix.Sendto(fd, q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return nil, err
		}
		if list, err = readDump(fd, list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readDump reads one netlink answer to its end.
func readDump(fd int, list []listenSocket) ([]listenSocket, error) {
	buf := make([]byte, 32<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return list, nil
			case unix.NLMSG_ERROR:
				return nil, unix.EOPNOTSUPP
			}
			if d := m.Data; len(d) >= diagAnswer {
				addr := netip.AddrFrom16([16]byte(d[diagSource:]))
				if d[0] == unix.AF_INET {
					addr = netip.AddrFrom4([4]byte(d[diagSource:]))
				}
				port := int(binary.BigEndian.Uint16(d[diagSourcePort:]))
				list = append(list, listenSocket{endpoint{addr, port}, binary.NativeEndian.Uint32(d[diagInode:])})
			}
		}
	}
}

// readProcTables returns the same as dumpSockets from /proc, for kernels without such sockets.
func readProcTables() ([]listenSocket, error) {
	var list []listenSocket
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) && name != "/proc/self/net/tcp" {
			break // no IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", atoll.ErrUnsupported, err)
		}
		for line := range strings.Lines(string(b)) {
			if k, ok := parseTableLine(line); ok {
				list = append(list, k)
			}
		}
	}
	return list, nil
}

// parseTableLine parses a line of /proc/net/tcp. It returns false unless the socket listens.
func parseTableLine(line string) (k listenSocket, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != "0A" {
		return k, false
	}
	host, port, _ := strings.Cut(f[1], ":")
	b, err := hex.DecodeString(host)
	p, perr := strconv.ParseUint(port, 16, 16)
	inode, ierr := strconv.ParseUint(f[9], 10, 32)
	if errors.Join(err, perr, ierr) != nil {
		return k, false
	}
	for i := 0; i+4 <= len(b); i += 4 { // words in the machine's byte order
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	addr, ok := netip.AddrFromSlice(b)
	return listenSocket{endpoint{addr, int(p)}, uint32(inode)}, ok
}

// excludeOwn removes the sockets of this process.
func excludeOwn(list []listenSocket) []listenSocket {
	if len(list) == 0 {
		return list
	}
	own := make(map[uint32]bool)
	for _, inode := range listProcSockets("self") {
		own[inode] = true
	}
	return slices.DeleteFunc(list, func(k listenSocket) bool { return own[k.inode] })
}

// listProcSockets returns the sockets of a process, as far as they are readable.
func listProcSockets(pid string) []uint32 {
	names, err := os.ReadDir("/proc/" + pid + "/fd")
	if err != nil {
		return nil
	}
	var list []uint32
	for _, n := range names {
		target, err := os.Readlink("/proc/" + pid + "/fd/" + n.Name())
		if err != nil {
			continue
		}
		if text, ok := strings.CutPrefix(target, "socket:["); ok {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 32); err == nil {
				list = append(list, uint32(inode))
			}
		}
	}
	return list
}

// findOwners returns the owners of sockets, as far as they can be found: with the rights of this
// process, then with those of the sandbox's user.
func (s *Server) findOwners(sockets []listenSocket) map[uint32]socketOwner {
	found := make(map[uint32]socketOwner, len(sockets))
	open := make(map[uint32]bool, len(sockets))
	for _, k := range sockets {
		open[k.inode] = true
	}
	searchOwners(open, found)
	if len(open) > 0 && s.Config.CanSwitchUser {
		w := &walker{s: s}
		if w.assumeUser(uint32(s.Config.UID), uint32(s.Config.GID)) == nil {
			searchOwners(open, found)
		}
		w.restoreUser()
	}
	return found
}

// searchOwners searches all processes for open sockets and moves them to found.
func searchOwners(open map[uint32]bool, found map[uint32]socketOwner) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil || len(open) == 0 {
			continue
		}
		for _, inode := range listProcSockets(n.Name()) {
			if open[inode] {
				delete(open, inode)
				comm, _ := os.ReadFile("/proc/" + n.Name() + "/comm") // only for display
				found[inode] = socketOwner{pid, strings.TrimSpace(string(comm))}
			}
		}
	}
}
