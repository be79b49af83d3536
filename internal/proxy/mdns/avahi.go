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
	"github.com/atoll-sandbox/atoll/internal/proxy"
)

const (
	avahiName = "org.freedesktop.Avahi"
	// noReverse keeps Avahi from saying that an address is called so: it has a
	// name already.
	noReverse = 16
	anyFamily = int32(-1)
)

// Avahi publishes names through the Avahi daemon that runs already. They end
// with the connection to it, and so with this process. Its fields are not
// changed once it is used; its methods may be called at once from many
// goroutines.
type Avahi struct {
	// Interfaces are those whose addresses the names lead to, and on which
	// they are told; at least one.
	Interfaces []string

	mu     sync.Mutex
	bus    *bus              // nil: not connected
	groups map[string]string // the daemon's object of each host; guarded by mu
	have   []address         // what the hosts lead to; guarded by mu
}

// address is one of an interface.
type address struct {
	index int32
	addr  netip.Addr
}

var _ proxy.Provider = (*Avahi)(nil)

// Publish makes the hosts of routes known, and takes back others. It does not
// wait until nobody has objected: Names tells. A host that the daemon refuses
// is part of the error; the others are published. What a daemon has forgotten
// that was started anew, or what leads to addresses that the interfaces have no
// more, is published anew. Without a daemon it is ErrUnavailable; the next call
// tries anew.
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
		a.hangUp()
		return nil
	}
	have, err := a.addresses()
	if err != nil {
		return err
	}
	if !slices.Equal(have, a.have) || !a.remembers(ctx) {
		a.hangUp()
	}
	if err := a.connect(ctx); err != nil {
		return err
	}
	a.have = have
	if err := a.settle(ctx, want); err != nil {
		if refused := busError(""); !errors.As(err, &refused) {
			a.hangUp()
		}
		return fmt.Errorf("%w: avahi: %w", atoll.ErrUnavailable, err)
	}
	return nil
}

// settle makes the daemon's groups those that are wanted. The caller holds mu.
func (a *Avahi) settle(ctx context.Context, want map[string]bool) error {
	for host, group := range a.groups {
		if want[host] {
			continue
		}
		if _, err := a.bus.do(ctx, onGroup(group, "Free")); err != nil {
			return err
		}
		delete(a.groups, host)
	}
	var errs []error
	for host := range want {
		if a.groups[host] != "" {
			continue
		}
		err := a.add(ctx, host)
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %w", host, err))
		refused := busError("")
		if !errors.As(err, &refused) {
			break // there is no bus any more
		}
		if group := a.groups[host]; group != "" { // half of it
			delete(a.groups, host)
			if _, err := a.bus.do(ctx, onGroup(group, "Free")); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
	}
	return errors.Join(errs...)
}

func onGroup(path, member string, args ...any) call {
	return call{to: avahiName, path: path, face: avahiName + ".EntryGroup", member: member, args: args}
}

// add tells of one host. The caller holds mu.
func (a *Avahi) add(ctx context.Context, host string) error {
	b, err := a.bus.do(ctx, call{to: avahiName, path: "/", face: avahiName + ".Server", member: "EntryGroupNew"})
	if err != nil {
		return err
	}
	u := unpacker{b: b, order: binary.LittleEndian}
	group := u.string()
	if u.bad || group == "" {
		return errBus
	}
	a.groups[host] = group
	for _, to := range a.have {
		if _, err := a.bus.do(ctx, onGroup(group, "AddAddress", to.index, anyFamily, uint32(noReverse), host, to.addr.String())); err != nil {
			return err
		}
	}
	_, err = a.bus.do(ctx, onGroup(group, "Commit"))
	return err
}

// addresses are those that the interfaces have now: at least one.
func (a *Avahi) addresses() ([]address, error) {
	if len(a.Interfaces) == 0 {
		return nil, fmt.Errorf("%w: mdns: name the interfaces that names are told on", atoll.ErrInvalid)
	}
	var have []address
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
			if err != nil || p.Addr().IsLinkLocalUnicast() { // which need an interface beside them
				continue
			}
			have = append(have, address{int32(iface.Index), p.Addr()})
		}
	}
	if len(have) == 0 {
		return nil, fmt.Errorf("%w: mdns: no address on %s", atoll.ErrNotFound, strings.Join(a.Interfaces, ", "))
	}
	return have, nil
}

// remembers reports whether the daemon still has what it was told: one that was
// started anew has nothing of it. The caller holds mu.
func (a *Avahi) remembers(ctx context.Context) bool {
	for _, group := range a.groups {
		_, err := a.bus.do(ctx, onGroup(group, "GetState"))
		return err == nil // all or nothing
	}
	return true
}

// avahiStates are what the daemon says of a group.
var avahiStates = []State{Probing, Probing, Held, Conflict, Conflict}

// Names tells what became of the published names, in their order.
func (a *Avahi) Names(ctx context.Context) ([]Status, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []Status
	for host, group := range a.groups {
		b, err := a.bus.do(ctx, onGroup(group, "GetState"))
		if err != nil {
			return nil, fmt.Errorf("%w: avahi: %w", atoll.ErrUnavailable, err)
		}
		u := unpacker{b: b, order: binary.LittleEndian}
		n := u.uint32()
		if u.bad || n >= uint32(len(avahiStates)) {
			return nil, fmt.Errorf("%w: avahi: %w", atoll.ErrUnavailable, errBus)
		}
		list = append(list, Status{host, avahiStates[n]})
	}
	slices.SortFunc(list, func(x, y Status) int { return strings.Compare(x.Host, y.Host) })
	return list, nil
}

// Close takes back all names. A later Publish connects anew.
func (a *Avahi) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hangUp()
	return nil
}

// connect connects to the daemon if it must. The caller holds mu.
func (a *Avahi) connect(ctx context.Context) error {
	if a.bus != nil {
		return nil
	}
	b, err := dialBus(ctx)
	if err != nil {
		return err
	}
	if _, err := b.do(ctx, call{to: avahiName, path: "/", face: avahiName + ".Server", member: "GetVersionString"}); err != nil {
		return errors.Join(fmt.Errorf("%w: no Avahi daemon runs: %w", atoll.ErrUnavailable, err), b.conn.Close())
	}
	a.bus, a.groups = b, make(map[string]string)
	return nil
}

// hangUp ends the connection, with which the daemon forgets all. The caller
// holds mu.
func (a *Avahi) hangUp() {
	if a.bus != nil {
		_ = a.bus.conn.Close()
	}
	a.bus, a.groups, a.have = nil, nil, nil
}
