package mdns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

const (
	avahiName = "org.freedesktop.Avahi"
	// noReverseFlag makes Avahi publish no reverse record for the address: the host has
	// one already.
	noReverseFlag = 16
	anyFamily     = int32(-1)
)

// Avahi publishes names through a running Avahi daemon. The names are withdrawn
// when the connection to the daemon ends, at the latest with this process. Its fields
// must not change after the first use; its methods may be called
// concurrently.
type Avahi struct {
	// Interfaces are the network interfaces on which the names are published, with
	// their addresses; at least one.
	Interfaces []string

	mu        sync.Mutex
	bus       *bus              // nil: not connected
	groups    map[string]string // the daemon's entry group of each host; guarded by mu
	published []interfaceAddr   // the published addresses; guarded by mu
}

// interfaceAddr is an address of a network interface.
type interfaceAddr struct {
	index int32
	addr  netip.Addr
}

var _ proxy.Provider = (*Avahi)(nil)

// Publish publishes the hosts of routes and withdraws all others. It does not
// wait for conflict detection: Names reports the results. A host that the daemon refuses
// is part of the error; the others are published. It publishes all again after a
// restart of the daemon or a change of the interfaces' addresses.
// If no daemon is running, the error is ErrUnavailable; the next call
// tries again.
func (a *Avahi) Publish(ctx context.Context, routes []proxy.Route) error {
	want := make(map[string]bool, len(routes))
	for _, r := range routes {
		if err := checkHost(r.Host); err != nil {
			return err
		}
		want[r.Host] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(want) == 0 {
		a.disconnect()
		return nil
	}
	have, err := a.listAddresses()
	if err != nil {
		return err
	}
	if !slices.Equal(have, a.published) || !a.hasGroups(ctx) {
		a.disconnect()
	}
	if err := a.ensureConnected(ctx); err != nil {
		return err
	}
	a.published = have
	if err := a.reconcileGroups(ctx, want); err != nil {
		if refused := busError(""); !errors.As(err, &refused) {
			a.disconnect()
		}
		return fmt.Errorf("%w: avahi: %w", atoll.ErrUnavailable, err)
	}
	return nil
}

// reconcileGroups creates and frees entry groups until the daemon has those wanted. The caller holds mu.
func (a *Avahi) reconcileGroups(ctx context.Context, want map[string]bool) error {
	for host, group := range a.groups {
		if want[host] {
			continue
		}
		if _, err := a.bus.callMethod(ctx, groupCall(group, "Free")); err != nil {
			return err
		}
		delete(a.groups, host)
	}
	var errs []error
	for host := range want {
		if a.groups[host] != "" {
			continue
		}
		err := a.addHost(ctx, host)
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %w", host, err))
		refused := busError("")
		if !errors.As(err, &refused) {
			break // the connection is lost
		}
		if group := a.groups[host]; group != "" { // created but not committed
			delete(a.groups, host)
			if _, err := a.bus.callMethod(ctx, groupCall(group, "Free")); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
	}
	return errors.Join(errs...)
}

func groupCall(path, member string, args ...any) methodCall {
	return methodCall{to: avahiName, path: path, iface: avahiName + ".EntryGroup", member: member, args: args}
}

// addHost publishes one host. The caller holds mu.
func (a *Avahi) addHost(ctx context.Context, host string) error {
	b, err := a.bus.callMethod(ctx, methodCall{to: avahiName, path: "/", iface: avahiName + ".Server", member: "EntryGroupNew"})
	if err != nil {
		return err
	}
	u := busDecoder{b: b, order: binary.LittleEndian}
	group := u.readString()
	if u.failed || group == "" {
		return errBadMessage
	}
	a.groups[host] = group
	for _, to := range a.published {
		if _, err := a.bus.callMethod(ctx, groupCall(group, "AddAddress", to.index, anyFamily, uint32(noReverseFlag), host, to.addr.String())); err != nil {
			return err
		}
	}
	_, err = a.bus.callMethod(ctx, groupCall(group, "Commit"))
	return err
}

// listAddresses returns the current addresses of the interfaces, at least one.
func (a *Avahi) listAddresses() ([]interfaceAddr, error) {
	if len(a.Interfaces) == 0 {
		return nil, fmt.Errorf("%w: mdns: at least one network interface is needed", atoll.ErrInvalid)
	}
	var have []interfaceAddr
	for _, name := range a.Interfaces {
		iface, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fmt.Errorf("%w: mdns on %s: %w", atoll.ErrNotFound, name, err)
		}
		list, err := iface.Addrs()
		if err != nil {
			return nil, fmt.Errorf("mdns on %s: %w", name, err)
		}
		for _, addr := range list {
			p, err := netip.ParsePrefix(addr.String())
			if err != nil || p.Addr().IsLinkLocalUnicast() { // these need a zone
				continue
			}
			have = append(have, interfaceAddr{int32(iface.Index), p.Addr()})
		}
	}
	if len(have) == 0 {
		return nil, fmt.Errorf("%w: mdns: no address on %s", atoll.ErrNotFound, strings.Join(a.Interfaces, ", "))
	}
	return have, nil
}

// hasGroups reports whether the daemon still has the published groups: a restarted
// daemon has none. The caller holds mu.
func (a *Avahi) hasGroups(ctx context.Context) bool {
	for _, group := range a.groups {
		_, err := a.bus.callMethod(ctx, groupCall(group, "GetState"))
		return err == nil // all or nothing
	}
	return true
}

// avahiStates maps the daemon's states of a group to a State.
var avahiStates = []State{Probing, Probing, Held, Conflict, Conflict}

// Names returns the status of the published names, in alphabetical order.
func (a *Avahi) Names(ctx context.Context) ([]Status, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []Status
	for host, group := range a.groups {
		b, err := a.bus.callMethod(ctx, groupCall(group, "GetState"))
		if err != nil {
			return nil, fmt.Errorf("%w: avahi: %w", atoll.ErrUnavailable, err)
		}
		u := busDecoder{b: b, order: binary.LittleEndian}
		n := u.readUint32()
		if u.failed || n >= uint32(len(avahiStates)) {
			return nil, fmt.Errorf("%w: avahi: %w", atoll.ErrUnavailable, errBadMessage)
		}
		list = append(list, Status{host, avahiStates[n]})
	}
	slices.SortFunc(list, func(x, y Status) int { return strings.Compare(x.Host, y.Host) })
	return list, nil
}

// Close withdraws all names. A later Publish connects again.
func (a *Avahi) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.disconnect()
	return nil
}

// ensureConnected connects to the daemon if there is no connection. The caller holds mu.
func (a *Avahi) ensureConnected(ctx context.Context) error {
	if a.bus != nil {
		return nil
	}
	b, err := dialBus(ctx)
	if err != nil {
		return err
	}
	if _, err := b.callMethod(ctx, methodCall{to: avahiName, path: "/", iface: avahiName + ".Server", member: "GetVersionString"}); err != nil {
		return errors.Join(fmt.Errorf("%w: no Avahi daemon is running: %w", atoll.ErrUnavailable, err), b.conn.Close())
	}
	a.bus, a.groups = b, make(map[string]string)
	return nil
}

// disconnect closes the connection, whereupon the daemon withdraws all names. The caller
// holds mu.
func (a *Avahi) disconnect() {
	if a.bus != nil {
		_ = a.bus.conn.Close()
	}
	a.bus, a.groups, a.published = nil, nil, nil
}
