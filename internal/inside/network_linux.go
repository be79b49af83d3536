package inside

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// network switches on what the machine reaches. led: all connections are led to
// the gate already.
func (s *Setup) network(led bool) error {
	switch {
	case led && !s.Guest.Gate:
		return fmt.Errorf("%w: the machine's kernel was told %s, its setup says otherwise", atoll.ErrInvalid, GateParameter)
	case s.Network.NIC != "" && s.Guest.Gate:
		return fmt.Errorf("%w: a network interface beside the gate: connections can be led to one of them only", atoll.ErrInvalid)
	case s.Network.NIC != "":
		return errors.Join(loopback(), startNIC(s.Network.NIC))
	case led:
		return nil
	case s.Guest.Gate:
		return guest.Redirect()
	}
	return loopback()
}

// loopback switches the interface on that every machine has.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}
