package microvm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
)

// errBridgeRules is the error of rules for a VM on a bridge, which nothing here can enforce.
var errBridgeRules = fmt.Errorf("network mode bridge with rules: %w by the microvm driver: connections of a VM on a bridge do not pass the egress proxy: use nat", atoll.ErrUnsupported)

// refuseRules reports an error if a network on a bridge has rules.
func refuseRules(n atoll.Network) error {
	if len(n.Allow)+len(n.Deny)+len(n.Headers) > 0 || n.Inspect || n.Rate > 0 || n.Bytes > 0 {
		return errBridgeRules
	}
	return nil
}

// requireBridge reports why VMs can't be attached to a bridge of this host.
func (d *Driver) requireBridge() error {
	no := func(why string) error {
		return fmt.Errorf("network mode bridge: %w by the microvm driver here: %s", atoll.ErrUnsupported, why)
	}
	if d.Bridge == "" {
		return no("no bridge of the host is configured for it")
	}
	if !isRoot() {
		return no("only root can attach VMs to a bridge")
	}
	if _, err := os.Stat("/sys/class/net/" + d.Bridge + "/bridge"); err != nil {
		return no(d.Bridge + " is no bridge of this host")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return no("the host's kernel has no tap devices: " + err.Error())
	}
	return nil
}

// attachNIC creates the network interface of a sandbox at the bridge, and returns its hardware
// address; nil and an empty one if it has none. Closing the last descriptor removes the device.
func (d *Driver) attachNIC(r *record) (mac string, tap *os.File, err error) {
	if egress.Mode(r.Spec.Network) != atoll.NetworkBridge {
		return "", nil, nil
	}
	if err := d.requireBridge(); err != nil {
		return "", nil, err
	}
	if tap, err = openTap("atl"+r.ID[1:], d.Bridge); err != nil {
		return "", nil, fmt.Errorf("network mode bridge: attaching to %s: %w", d.Bridge, err)
	}
	return newMAC(), tap, nil
}

// openTap creates a tap device, attaches it to a bridge, and activates it.
func openTap(name, bridge string) (tap *os.File, err error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	tap = os.NewFile(uintptr(fd), name)
	defer func() {
		if err != nil {
			err = errors.Join(err, tap.Close())
		}
	}()
	req, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_TUN_EXCL)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return nil, os.NewSyscallError("TUNSETIFF", err)
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(s)
	own, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	at, err := unix.NewIfreq(bridge)
	if err != nil {
		return nil, err
	}
	at.SetUint32(uint32(own.Index))
	if err := unix.IoctlIfreq(s, unix.SIOCBRADDIF, at); err != nil {
		return nil, os.NewSyscallError("SIOCBRADDIF", err)
	}
	up, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	up.SetUint16(unix.IFF_UP)
	return tap, os.NewSyscallError("SIOCSIFFLAGS", unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, up))
}

// newMAC returns a random hardware address in QEMU's part of the locally administered ones.
func newMAC() string {
	b := make([]byte, 3)
	_, _ = rand.Read(b) // never fails
	return net.HardwareAddr(append([]byte{0x52, 0x54, 0x00}, b...)).String()
}
