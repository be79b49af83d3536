package route

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
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/proxy"
)

// Bounds of what a desk does.
const (
	portsTime  = 5 * time.Second // for a sandbox to say which ports are open
	portsSlots = 8               // sandboxes that are asked at once
	keyTime    = 2 * time.Second // for the registry to say whether a link is good
	recheck    = 3 * time.Second // between looks for links that other servers took away
)

// Desk tells those who use a fleet where its ports are, and gives links to them.
// Its methods may be called at once.
type Desk struct {
	Fleet *fleet.Fleet
	Site  Site
	// Access lets in who has a link; nil: all who reach the proxy come in, to
	// the sandboxes of this machine's own people.
	Access *proxy.Access
}

// Links returns what lets in who has one of a fleet's links.
func Links(f *fleet.Fleet) *proxy.Access {
	return &proxy.Access{Key: func(id string) ([]byte, bool) {
		ctx, cancel := context.WithTimeout(context.Background(), keyTime)
		defer cancel()
		key, ok, err := f.RouteLinkKey(ctx, id)
		return key, ok && err == nil // what can't be looked up opens nothing
	}}
}

// Finder finds the sandboxes that the proxy leads to. Where links are needed,
// those of all owners, by their ids: a link names its sandbox. Names are of
// this machine's own people, so nobody can take another's.
func (d *Desk) Finder() proxy.Finder {
	caller := fleet.LocalCaller()
	if d.Access == nil { // whoever reaches it gets no further than that
		caller.Scopes = []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost}
	}
	return Finder{Of(d.Fleet.For(caller))}
}

// Run ends what links let in that are good no more, until ctx is done.
func (d *Desk) Run(ctx context.Context) error {
	if d.Access == nil {
		<-ctx.Done()
		return nil
	}
	defer d.Fleet.OnRevoked(func(context.Context) { d.Access.Recheck() })()
	t := time.NewTicker(recheck)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.Access.Recheck()
		case <-ctx.Done():
			return nil
		}
	}
}

// names returns how the proxy calls the sandboxes of a list of one owner; those
// that it does not lead to are left out.
func (d *Desk) names(o atoll.Owner, list []atoll.Info) map[string]string {
	if o == atoll.Local {
		return Labels(list)
	}
	names := make(map[string]string)
	for _, info := range list {
		if d.Access != nil {
			names[info.ID] = info.ID
		}
	}
	return names
}

// Routes returns the names of the ports that are open in the caller's sandboxes,
// or in one of them, by id or name. Each sandbox has its plain name too.
func (d *Desk) Routes(ctx context.Context, a *fleet.Account, key string) ([]atoll.Route, error) {
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
		if o = info.Owner; o != a.Caller().Owner { // an admin asks for another's
			list = []atoll.Info{info}
		}
		key = info.ID
	}
	names := d.names(o, list)
	if key != "" {
		list = slices.DeleteFunc(list, func(i atoll.Info) bool { return i.ID != key })
	}
	routes := make([][]atoll.Route, len(list))
	slots := make(chan struct{}, portsSlots)
	var wg sync.WaitGroup
	for i := range list {
		name, ok := names[list[i].ID]
		if !ok {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			routes[i] = d.routesOf(ctx, a, &list[i], name)
		})
	}
	wg.Wait()
	return slices.Concat(routes...), ctx.Err()
}

// routesOf returns the names of one sandbox. One that does not say which ports
// are open has its plain name.
func (d *Desk) routesOf(ctx context.Context, a *fleet.Account, info *atoll.Info, name string) []atoll.Route {
	var list []atoll.Route
	add := func(port int, command string) {
		host, url, err := d.Site.URL(name, port)
		if err == nil {
			list = append(list, atoll.Route{Host: host, URL: url, Port: port, Sandbox: info.ID, Name: info.Name, Called: project.PortName(info.Labels[project.LabelPorts], port), State: info.State, Command: command, Locked: d.Access != nil})
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
	ctx, cancel := context.WithTimeout(ctx, portsTime)
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

// maxPorts bounds how many ports of a sandbox are told: it may open them all.
const maxPorts = 1000

// Link makes a link to a port of a sandbox; 0 is the main one.
func (d *Desk) Link(ctx context.Context, a *fleet.Account, key string, port int, expires time.Time) (atoll.RouteLink, error) {
	if d.Access == nil {
		return atoll.RouteLink{}, &atoll.Error{Op: "create link", ID: key, Err: fmt.Errorf("%w: the names of ports are open to all of the server's machine, and to nobody else: links are for a proxy that others reach ('atoll serve --proxy ADDRESS')", atoll.ErrState)}
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
	name := d.names(info.Owner, list)[info.ID]
	if info.Owner != a.Caller().Owner {
		name = info.ID
	}
	_, at, err := d.Site.Far().URL(name, port) // it is for others
	if err != nil {
		return atoll.RouteLink{}, err
	}
	l, err := a.CreateRouteLink(ctx, info.ID, expires)
	if err != nil {
		return atoll.RouteLink{}, err
	}
	l.Port = port
	l.Secret, err = d.Access.Sign(proxy.Grant{Key: l.ID, Project: name, Sandbox: info.ID, Open: l.Expires, Until: l.Expires})
	if err != nil {
		return atoll.RouteLink{}, err
	}
	l.URL = at + "?" + url.Values{proxy.AccessParam: {l.Secret}}.Encode()
	return l, nil
}
