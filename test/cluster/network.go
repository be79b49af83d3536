package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// The network of every cluster is the same, because each has its own.
const (
	nodeName       = "node"
	nodeAddress    = "192.168.77.2"
	outsideAddress = "192.168.77.1"
	podNetwork     = "10.244.0.0/16"
	serviceNetwork = "10.96.0.0/16"
	serviceAddress = "10.96.0.1" // of the service kubernetes
	etcdAddress    = "127.0.0.1:2379"
	outside        = "outside" // the network namespace that plays the rest of the world
)

// setUpNetwork gives the private network namespace a loopback and an uplink
// whose other end is in a second namespace, "outside". Nothing listens there:
// it answers "unreachable" at once, unless a test puts addresses and servers
// into it ('ip -n outside address add …').
func setUpNetwork() error {
	if err := raise("lo"); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	there, err := outsideNamespace()
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", outside, err)
	}
	defer there.Close()
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "uplink"}, PeerName: "inside", PeerNamespace: netlink.NsFd(there)}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("veth pair: %w", err)
	}
	if err := address(nil, "uplink", nodeAddress+"/24"); err != nil {
		return err
	}
	route := &netlink.Route{Dst: all(), Gw: net.ParseIP(outsideAddress)}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("default route: %w", err)
	}
	h, err := netlink.NewHandleAt(there)
	if err != nil {
		return err
	}
	defer h.Close()
	if err := address(h, "lo", ""); err != nil {
		return err
	}
	if err := address(h, "inside", outsideAddress+"/24"); err != nil {
		return err
	}
	return h.RouteAdd(&netlink.Route{Dst: all(), Type: unreachable})
}

const unreachable = 7 // RTN_UNREACHABLE

func all() *net.IPNet { return &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)} }

// outsideNamespace makes the second namespace, which routes and answers
// however often it is asked.
func outsideNamespace() (netns.NsHandle, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		return netns.None(), err
	}
	defer here.Close()
	there, err := netns.NewNamed(outside) // and this thread is in it
	if err != nil {
		return netns.None(), err
	}
	err = errors.Join(
		os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
		os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0))
	if back := netns.Set(here); back != nil {
		return there, back
	}
	return there, err
}

func raise(name string) error { return address(nil, name, "") }

// address brings a link up, with an address if one is given.
func address(h *netlink.Handle, name, cidr string) error {
	if h == nil {
		h = &netlink.Handle{}
	}
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if cidr != "" {
		addr, err := netlink.ParseAddr(cidr)
		if err != nil {
			return err
		}
		if err := h.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("link %s: address %s: %w", name, cidr, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return nil
}
