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

// Every cluster has its own network namespace, so all use the same addresses.
const (
	nodeName         = "node"
	nodeAddress      = "192.168.77.2"
	outsideAddress   = "192.168.77.1"
	podNetwork       = "10.244.0.0/16"
	serviceNetwork   = "10.96.0.0/16"
	serviceAddress   = "10.96.0.1" // of the service kubernetes
	etcdAddress      = "127.0.0.1:2379"
	outsideNamespace = "outside" // the network namespace that stands for the rest of the world
)

// setUpNetwork sets up the loopback interface and an uplink whose other end is in a
// second network namespace, "outside". That answers "unreachable" at once to all
// packets, unless a test adds addresses and servers to it
// ('ip -n outside address add …').
func setUpNetwork() error {
	if err := setLinkUp("lo"); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	there, err := createOutsideNamespace()
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", outsideNamespace, err)
	}
	defer there.Close()
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "uplink"}, PeerName: "inside", PeerNamespace: netlink.NsFd(there)}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("veth pair: %w", err)
	}
	if err := configureLink(nil, "uplink", nodeAddress+"/24"); err != nil {
		return err
	}
	route := &netlink.Route{Dst: allAddresses(), Gw: net.ParseIP(outsideAddress)}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("default route: %w", err)
	}
	h, err := netlink.NewHandleAt(there)
	if err != nil {
		return err
	}
	defer h.Close()
	if err := configureLink(h, "lo", ""); err != nil {
		return err
	}
	if err := configureLink(h, "inside", outsideAddress+"/24"); err != nil {
		return err
	}
	return h.RouteAdd(&netlink.Route{Dst: allAddresses(), Type: unreachable})
}

const unreachable = 7 // RTN_UNREACHABLE

// allAddresses returns 0.0.0.0/0.
func allAddresses() *net.IPNet { return &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)} }

// createOutsideNamespace creates the second namespace, with IP forwarding and without
// a rate limit for ICMP errors.
func createOutsideNamespace() (netns.NsHandle, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		return netns.None(), err
	}
	defer here.Close()
	there, err := netns.NewNamed(outsideNamespace) // it also moves this thread into it
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

func setLinkUp(name string) error { return configureLink(nil, name, "") }

// configureLink sets a link up and adds an address, unless cidr is empty. A nil
// handle means the current network namespace.
func configureLink(h *netlink.Handle, name, cidr string) error {
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
