package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/daytona"
	"github.com/atoll-sandbox/atoll/internal/api/e2b"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/previewserver"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview"
)

// e2bOptions returns the options of E2B's API; nil: it is not served.
func (a commands) e2bOptions(ctx context.Context, f *fleet.Fleet, p *previewserver.Server) *e2b.Options {
	c := a.Config
	if !config.Get[bool](c, "serve.e2b") {
		return nil
	}
	o := &e2b.Options{Domain: func() string { return domainOf(p.Routes()) }, PublicPorts: p.Routes() == nil || !p.Routes().OnlyLinks}
	o.Template.Driver = cmp.Or(config.Get[string](c, "e2b.driver"), a.DriverName, bestDriver(ctx, f))
	o.Template.Image = config.Get[string](c, "e2b.image")
	return o
}

// bestDriver returns the driver of sandboxes for clients that expect real programs: namespace where it
// works, else the default one.
func bestDriver(ctx context.Context, f *fleet.Fleet) string {
	for _, d := range f.Drivers(ctx) {
		if d.Name == "namespace" && d.Features != nil {
			return d.Name
		}
	}
	return ""
}

// domainOf returns the domain of the host names of ports, with the port if browsers need one.
func domainOf(r *preview.Registry) string {
	if r == nil {
		return ""
	}
	_, url, err := r.Address.ForRemote().URL("x", 1)
	_, host, ok := strings.Cut(url, "://")
	if err != nil || !ok {
		return ""
	}
	_, domain, _ := strings.Cut(strings.TrimSuffix(host, "/"), ".")
	return domain
}

// daytonaOptions returns the options of Daytona's API; nil: it is not served.
func (a commands) daytonaOptions(ctx context.Context, f *fleet.Fleet) *daytona.Options {
	c := a.Config
	if !config.Get[bool](c, "serve.daytona") {
		return nil
	}
	o := &daytona.Options{}
	o.Template.Driver = cmp.Or(config.Get[string](c, "daytona.driver"), a.DriverName, bestDriver(ctx, f))
	o.Template.Image = config.Get[string](c, "daytona.image")
	return o
}

// printEnvironment prints the environment that clients of the vendors' APIs need.
func (a commands) printEnvironment(listeners []net.Listener) {
	lines := make(map[string]string)
	if config.Get[bool](a.Config, "serve.e2b") {
		lines["--e2b"] = "export E2B_API_URL=%[1]s\nexport E2B_SANDBOX_URL=%[1]s\nexport E2B_VOLUME_API_URL=%[1]s\nexport E2B_API_KEY=$(atoll token create --e2b)\n"
	}
	if config.Get[bool](a.Config, "serve.daytona") {
		lines["--daytona"] = "export DAYTONA_API_URL=%[1]s/api\nexport DAYTONA_API_KEY=$(atoll token create --daytona)\n"
	}
	for _, flag := range slices.Sorted(maps.Keys(lines)) {
		addr := a.clientAddress(listeners)
		if addr == "" {
			fmt.Fprintf(a.Err, "atoll: %v\n", fmt.Errorf("%w: %s: its clients need an address: add --listen 127.0.0.1:8484", atoll.ErrInvalid, flag))
			continue
		}
		fmt.Fprintf(a.Out, lines[flag], addr)
	}
}

// clientAddress returns the URL of the first listener that clients of other programs reach; empty: none.
func (a commands) clientAddress(listeners []net.Listener) string {
	for _, l := range listeners {
		if _, ok := l.Addr().(*net.TCPAddr); !ok {
			continue
		}
		addr := a.addressText(l)
		if !strings.Contains(addr, "://") {
			addr = "http://" + addr
		}
		return addr
	}
	return ""
}
