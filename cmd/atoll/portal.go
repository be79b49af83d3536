package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/proxy"
	"github.com/atoll-sandbox/atoll/internal/route"
)

const (
	// defaultProxy is where ports of sandboxes have names if nobody says
	// otherwise; if it is taken, that is any free port.
	defaultProxy = "127.0.0.1:7080"
	// proxyOff means that they have none.
	proxyOff = "off"
)

// parseProxy reads an address for the proxy, or off.
func parseProxy(text string) (string, error) {
	if text == proxyOff {
		return text, nil
	}
	address, err := parseListen(text)
	if err != nil {
		return "", errors.New(err.Error() + "; or off")
	}
	return address, nil
}

// portal is the names of ports of sandboxes, as a server has them.
type portal struct {
	proxy    *proxy.Proxy
	listener net.Listener
	log      *slog.Logger
}

// openPortal opens what gives ports their names; nil: they have none.
func (a *app) openPortal(ctx context.Context, f *fleet.Fleet, log *slog.Logger) (*portal, error) {
	l, err := a.listenProxy(ctx)
	if err != nil || l == nil {
		return nil, err
	}
	handler := &proxy.Proxy{
		Finder: route.Finder{Source: route.Of(f.For(passerBy()))},
		Names:  proxy.Names{Domains: getList[string](a.config, "proxy.domains")},
	}
	return &portal{proxy: handler, listener: l, log: log}, nil
}

// passerBy is whoever reaches a proxy that lets everybody in: he gets where the
// people of this machine do without a token, and to nobody else's.
func passerBy() fleet.Caller {
	return fleet.Caller{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost}}
}

// listenProxy opens the proxy's address; nil: there is none.
func (a *app) listenProxy(ctx context.Context) (net.Listener, error) {
	s := a.config.settings["proxy.listen"]
	address := get[string](a.config, "proxy.listen")
	if address == proxyOff {
		return nil, nil
	}
	if s.origin == "default" {
		l, err := listenOr(ctx, address, nil)
		if err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
		return l, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, problem{s.origin, "proxy.listen: " + err.Error()}
	}
	return l, nil
}

// address is where the proxy listens; empty: there is none.
func (p *portal) address() string {
	if p == nil {
		return ""
	}
	return p.listener.Addr().String()
}

// run serves until ctx is done.
func (p *portal) run(ctx context.Context) error {
	p.log.Info("ports have names", "proxy", p.address(), "such as", "PORT-NAME."+p.domain())
	return p.proxy.Serve(ctx, p.listener, proxy.ServeOptions{})
}

func (p *portal) domain() string {
	if d := p.proxy.Names.Domains; len(d) > 0 {
		return d[0]
	}
	return proxy.Local
}

// close ends what run has not.
func (p *portal) close() error {
	if p == nil {
		return nil
	}
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(p.proxy.Close(), err)
}
