package server

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/atoll-sandbox/atoll"
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
	o := &e2b.Options{Domain: func() string { return domainOf(p.Routes()) }}
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

// printE2B prints the environment that clients of E2B's API need.
func (a commands) printE2B(listeners []net.Listener) {
	for _, l := range listeners {
		addr := a.addressText(l)
		if _, ok := l.Addr().(*net.TCPAddr); !ok {
			continue
		}
		if !strings.Contains(addr, "://") {
			addr = "http://" + addr
		}
		fmt.Fprintf(a.Out, "export E2B_API_URL=%s\nexport E2B_SANDBOX_URL=%s\nexport E2B_VOLUME_API_URL=%s\nexport E2B_API_KEY=$(atoll token create --e2b)\n", addr, addr, addr)
		return
	}
	fmt.Fprintf(a.Err, "atoll: %v\n", fmt.Errorf("%w: --e2b: clients of E2B need an address: add --listen 127.0.0.1:8484", atoll.ErrInvalid))
}
