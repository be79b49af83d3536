package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// netlinkConn is a netlink socket for requests that the kernel executes while they are sent.
type netlinkConn struct{ fd int }

// netlinkTimeout bounds the wait for the kernel's reply, in seconds.
const netlinkTimeout = 30

// dialNetlink opens a socket in the network namespace of the calling thread.
func dialNetlink(family int) (netlinkConn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return netlinkConn{}, os.NewSyscallError("socket", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: netlinkTimeout}); err != nil {
		_ = unix.Close(fd) // the error above is the cause
		return netlinkConn{}, os.NewSyscallError("setsockopt", err)
	}
	return netlinkConn{fd}, nil
}

func (c netlinkConn) close() { _ = unix.Close(c.fd) } // nothing is buffered

// execute sends messages, and waits until the kernel acknowledges the one with the given number, or
// refuses any.
func (c netlinkConn) execute(messages []byte, acknowledged uint32) error {
	if err := unix.Sendto(c.fd, messages, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	b := make([]byte, 16<<10)
	for {
		n, _, err := unix.Recvfrom(c.fd, b, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		done, err := parseAcknowledgements(b[:n], acknowledged)
		if done || err != nil {
			return err
		}
	}
}

// parseAcknowledgements reports whether the message with the given number is acknowledged. It returns the
// first error of any message.
func parseAcknowledgements(b []byte, acknowledged uint32) (done bool, err error) {
	for len(b) > 0 {
		m, err := nextMessage(b)
		if err != nil {
			return false, err
		}
		b = b[len(m):]
		h := parseNetlinkHeader(m)
		if h.Type != unix.NLMSG_ERROR {
			continue
		}
		if len(m) < unix.NLMSG_HDRLEN+4 {
			return false, fmt.Errorf("a netlink reply of %d bytes", len(m))
		}
		if code := int32(binary.NativeEndian.Uint32(m[unix.NLMSG_HDRLEN:])); code != 0 {
			return false, os.NewSyscallError("netlink", unix.Errno(-code))
		}
		done = done || h.Seq == acknowledged
	}
	return done, nil
}

// netlinkMessage returns a request. Its data must be aligned.
func netlinkMessage(kind, flags uint16, seq uint32, data []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(data)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0) // the kernel knows the sender
	return append(b, data...)
}

// nextMessage returns the first of a list of messages, with its padding.
func nextMessage(b []byte) ([]byte, error) {
	if len(b) < unix.NLMSG_HDRLEN {
		return nil, fmt.Errorf("a netlink message of %d bytes", len(b))
	}
	size := int64(binary.NativeEndian.Uint32(b))
	padded := (size + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1)
	if size < unix.NLMSG_HDRLEN || size > int64(len(b)) {
		return nil, fmt.Errorf("a netlink message announces %d bytes of %d", size, len(b))
	}
	return b[:min(padded, int64(len(b)))], nil
}

// parseNetlinkHeader returns the header of a message that nextMessage returned.
func parseNetlinkHeader(m []byte) unix.NlMsghdr {
	return unix.NlMsghdr{
		Len: binary.NativeEndian.Uint32(m), Type: binary.NativeEndian.Uint16(m[4:]), Flags: binary.NativeEndian.Uint16(m[6:]), Seq: binary.NativeEndian.Uint32(m[8:]),
	}
}
