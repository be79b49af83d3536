package vminit

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// setUpNetwork configures the network. redirected: all connections are already redirected to the
// egress proxy.
func (s *Setup) setUpNetwork(redirected bool) error {
	switch {
	case redirected && !s.Guest.Egress:
		return fmt.Errorf("%w: the VM's kernel has the parameter %s, but its setup has no egress proxy", atoll.ErrInvalid, EgressParameter)
	case s.Network.NIC != "" && s.Guest.Egress:
		return fmt.Errorf("%w: a network interface and the egress proxy exclude each other", atoll.ErrInvalid)
	case s.Network.NIC != "":
		return errors.Join(enableLoopback(), startNIC(s.Network.NIC))
	case redirected:
		return nil
	case s.Guest.Egress:
		return guest.RedirectConnections()
	}
	return enableLoopback()
}

// enableLoopback sets the loopback interface up.
func enableLoopback() error {
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
