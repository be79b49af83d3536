package preview

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// Limits of a Registry.
const (
	portsTimeout    = 5 * time.Second // for listing the ports of a sandbox
	maxPortQueries  = 8               // sandboxes queried concurrently
	keyTimeout      = 2 * time.Second // for looking up a link's key in the registry
	recheckInterval = 3 * time.Second // between checks for links revoked by other servers
)

// Registry lists the host names of the ports of a fleet and creates access links to them.
// Its methods may be called concurrently.
type Registry struct {
	Fleet   *fleet.Fleet
	Address Address
	// Access checks access links; nil: everyone who reaches the proxy gets access to
	// the sandboxes of the local owner.
	Access *proxy.Access
	// OnlyLinks ignores that ports of sandboxes are public: the operator demands links.
	OnlyLinks bool

	admitter *proxy.Admitter // nil: every request needs a link
}

// LinkAccess returns the access check for the links of a fleet.
func LinkAccess(f *fleet.Fleet) *proxy.Access {
	return &proxy.Access{Key: func(id string) ([]byte, bool) {
		ctx, cancel := context.WithTimeout(context.Background(), keyTimeout)
		defer cancel()
		key, ok, err := f.RouteLinkKey(ctx, id)
		return key, ok && err == nil // a failed lookup denies access
	}}
}

// Finder returns the finder of the proxy's sandboxes. With access links
// these are the sandboxes of all owners, by id: a link names its sandbox. Only the
// local owner's sandboxes are found by name, so owners can't take each other's names.
func (d *Registry) Finder() proxy.Finder {
	caller := fleet.LocalCaller()
	if d.Access == nil { // limits requests without access control
		caller.Scopes = []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost}
	}
	return Finder{SourceOf(d.Fleet.Account(caller))}
}

// Run ends connections whose link was revoked, until ctx is done.
func (d *Registry) Run(ctx context.Context) error {
	if d.Access == nil && d.admitter == nil {
		<-ctx.Done()
		return nil
	}
	defer d.Fleet.OnRevoked(func(context.Context) { d.recheck() })()
	t := time.NewTicker(recheckInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.recheck()
		case <-ctx.Done():
			return nil
		}
	}
}

// recheck ends the requests whose right has ended.
func (d *Registry) recheck() {
	if d.Access != nil {
		d.Access.Recheck()
	}
	if d.admitter != nil {
		d.admitter.Recheck()
	}
}

// hostNames returns the names of one owner's sandboxes in host names, by id. It omits
// sandboxes that the proxy does not serve.
func (d *Registry) hostNames(o atoll.Owner, list []atoll.Info) map[string]string {
	if o == atoll.Local {
		return HostNames(list)
	}
	names := make(map[string]string)
	for _, info := range list {
		if d.Access != nil {
			names[info.ID] = info.ID
		}
	}
	return names
}

// Routes returns the host names of the open ports of the caller's sandboxes,
// or of the sandbox with an id or name. Each sandbox also has a host name without port.
func (d *Registry) Routes(ctx context.Context, a *fleet.Account, key string) ([]atoll.Route, error) {
	list, err := a.List(ctx, fleet.Filter{})
	if err != nil {
		return nil, err
	}
	o := a.Caller().Owner
	if key != "" {
		sb, err := a.Open(ctx, key)
		if err != nil {
			return nil, err
		}
		info, err := sb.Info(ctx)
		if err != nil {
			return nil, err
		}
		if o = info.Owner; o != a.Caller().Owner { // an admin queries another owner's sandbox
			list = []atoll.Info{info}
		}
		key = info.ID
	}
	names := d.hostNames(o, list)
	if key != "" {
		list = slices.DeleteFunc(list, func(i atoll.Info) bool { return i.ID != key })
	}
	routes := make([][]atoll.Route, len(list))
	slots := make(chan struct{}, maxPortQueries)
	var wg sync.WaitGroup
	for i := range list {
		name, ok := names[list[i].ID]
		if !ok {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			routes[i] = d.listRoutes(ctx, a, &list[i], name)
		})
	}
	wg.Wait()
	return slices.Concat(routes...), ctx.Err()
}

// listRoutes returns the host names of one sandbox. If its open ports can't be read
// it has only the host name without port.
func (d *Registry) listRoutes(ctx context.Context, a *fleet.Account, info *atoll.Info, name string) []atoll.Route {
	var list []atoll.Route
	add := func(port int, command string) {
		host, url, err := d.Address.URL(name, port)
		if err == nil {
			list = append(list, atoll.Route{Host: host, URL: url, Port: port, Sandbox: info.ID, Name: info.Name, PortName: project.PortName(info.Labels[project.LabelPorts], port), State: info.State, Command: command, Locked: d.Access != nil})
		}
	}
	add(0, "")
	if info.State != atoll.Running {
		return list
	}
	sb, err := a.Open(ctx, info.ID)
	if err != nil {
		return list
	}
	ctx, cancel := context.WithTimeout(ctx, portsTimeout)
	defer cancel()
	ports, err := atoll.Ports(ctx, sb)
	if err != nil {
		return list
	}
	slices.SortFunc(ports, func(a, b atoll.Port) int { return cmp.Compare(a.Port, b.Port) })
	ports = slices.CompactFunc(ports, func(a, b atoll.Port) bool { return a.Port == b.Port })
	for _, p := range ports[:min(len(ports), maxPorts)] {
		add(p.Port, p.Command)
	}
	return list
}

// maxPorts limits the listed ports of a sandbox: a program may open all of them.
const maxPorts = 1000

// CreateLink creates an access link to a port of a sandbox; 0 is the main port.
func (d *Registry) CreateLink(ctx context.Context, a *fleet.Account, key string, port int, expires time.Time) (atoll.RouteLink, error) {
	if d.Access == nil {
		return atoll.RouteLink{}, &atoll.Error{Op: "create link", ID: key, Err: fmt.Errorf("%w: the proxy is open to every user of the server's host and to no other host; links need a proxy that other hosts can reach ('atoll serve --proxy ADDRESS')", atoll.ErrState)}
	}
	sb, err := a.Open(ctx, key)
	if err != nil {
		return atoll.RouteLink{}, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return atoll.RouteLink{}, err
	}
	list := []atoll.Info{info}
	if info.Owner == atoll.Local && a.Caller().Owner == atoll.Local {
		if list, err = a.List(ctx, fleet.Filter{}); err != nil {
			return atoll.RouteLink{}, err
		}
	}
	name := d.hostNames(info.Owner, list)[info.ID]
	if info.Owner != a.Caller().Owner {
		name = info.ID
	}
	_, at, err := d.Address.ForRemote().URL(name, port) // links are for other hosts
	if err != nil {
		return atoll.RouteLink{}, err
	}
	l, err := a.CreateRouteLink(ctx, info.ID, expires)
	if err != nil {
		return atoll.RouteLink{}, err
	}
	l.Port = port
	l.Secret, err = d.Access.Sign(proxy.Grant{Key: l.ID, Project: name, Sandbox: info.ID, LinkExpires: l.Expires, CookieExpires: l.Expires})
	if err != nil {
		return atoll.RouteLink{}, err
	}
	l.URL = at + "?" + url.Values{proxy.AccessParam: {l.Secret}}.Encode()
	return l, nil
}

// CreateHostLink creates a link to one port of a sandbox whose URL has a host name of its own, as a secret: so
// every path below it opens, without a cookie. The name is the link's Secret.
func (d *Registry) CreateHostLink(ctx context.Context, a *fleet.Account, key string, port int, expires time.Time) (atoll.RouteLink, error) {
	if d.admitter == nil {
		return atoll.RouteLink{}, &atoll.Error{Op: "create link", ID: key, Err: fmt.Errorf("%w: the proxy does not serve host names of links", atoll.ErrState)}
	}
	if port < 1 || port > 65535 {
		return atoll.RouteLink{}, &atoll.Error{Op: "create link", ID: key, Err: fmt.Errorf("%w: port %d: must be 1 to 65535", atoll.ErrInvalid, port)}
	}
	l, err := a.CreateRouteLink(ctx, key, expires)
	if err != nil {
		return atoll.RouteLink{}, err
	}
	l.Port = port
	if l.Secret, err = a.RouteLinkHost(ctx, l, port); err != nil {
		return atoll.RouteLink{}, err
	}
	_, l.URL, err = d.Address.ForRemote().URL(l.Secret, port)
	return l, err
}
