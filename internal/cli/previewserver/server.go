// Package previewserver serves ports of sandboxes by host names, on the machine that
// atoll runs on.
package previewserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview"
	"github.com/atoll-sandbox/atoll/internal/preview/caddy"
	"github.com/atoll-sandbox/atoll/internal/preview/mdns"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

const (
	// mdnsDomain is the default domain of names on a local network.
	mdnsDomain = "sandbox.local"
)

// Server is the names of ports of sandboxes, as a server has them.
type Server struct {
	Proxy      *proxy.Proxy
	routes     *preview.Registry
	options    proxy.ServeOptions
	listener   net.Listener
	publishers []*proxy.Publisher
	closers    []func() error
	log        *slog.Logger
}

// OpenServer opens what gives ports their names; nil: they have none.
func OpenServer(ctx context.Context, a *app.App, f *fleet.Fleet, log *slog.Logger) (_ *Server, err error) {
	l, err := ListenProxy(ctx, a)
	if err != nil || l == nil {
		return nil, err
	}
	p := &Server{listener: l, log: log, Proxy: &proxy.Proxy{}, routes: &preview.Registry{Fleet: f}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.options.TLS, err = proxyTLS(a, l, log); err != nil {
		return nil, err
	}
	p.Proxy.Names = proxy.Names{Domains: ProxyDomains(a)}
	p.Proxy.BehindProxy = config.Get[bool](a.Config, "proxy.behind") || config.Get[string](a.Config, "proxy.caddy") != ""
	switch config.Get[string](a.Config, "proxy.access") {
	case config.AccessOpen:
		p.options.Public = true
	case config.AccessLinks:
		p.Proxy.Access = preview.LinkAccess(f)
		p.routes.OnlyLinks = true
	default:
		if !IsLocalListener(l) || p.Proxy.BehindProxy {
			p.Proxy.Access = preview.LinkAccess(f)
		}
	}
	p.routes.Access, p.routes.Address = p.Proxy.Access, newSite(a, p)
	p.Proxy.Finder = p.routes.Finder()
	if err := errors.Join(publishCaddy(a, p), publishLocal(a, p)); err != nil {
		return nil, err
	}
	return p, nil
}

// IsLocalListener reports whether only programs of this machine reach a listener.
func IsLocalListener(l net.Listener) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// ListenProxy opens the proxy's address; nil: there is none.
func ListenProxy(ctx context.Context, a *app.App) (net.Listener, error) {
	s := a.Config.Settings["proxy.listen"]
	address := config.Get[string](a.Config, "proxy.listen")
	if address == config.ProxyOff {
		return nil, nil
	}
	open := api.ListenTCP
	if s.Origin == "default" {
		open = Listen
	}
	l, err := open(ctx, address, nil)
	if err != nil {
		return nil, config.Problem{Location: s.Origin, Message: "proxy.listen: " + config.TextWithoutKind(err)}
	}
	return l, nil
}

// proxyTLS is with what the proxy is served; nil: without TLS. The server's own
// certificate counts only where others than this machine reach the proxy.
func proxyTLS(a *app.App, l net.Listener, log *slog.Logger) (*tls.Config, error) {
	cert, key := config.Get[string](a.Config, "proxy.tls.cert"), config.Get[string](a.Config, "proxy.tls.key")
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("%w: proxy.tls.cert and proxy.tls.key belong together", atoll.ErrInvalid)
	}
	if cert != "" {
		return (&api.TLSFiles{Cert: cert, Key: key, Log: log}).Config()
	}
	if IsLocalListener(l) || config.Get[bool](a.Config, "proxy.behind") {
		return nil, nil
	}
	files, err := TLSConfig(a, log)
	if err != nil || files == nil {
		return nil, err
	}
	return files.Config()
}

// ProxyDomains are what names of ports end in.
func ProxyDomains(a *app.App) []string {
	domains := config.List[string](a.Config, "proxy.domains")
	if len(domains) == 0 {
		domains = []string{proxy.Local}
	}
	if len(config.List[string](a.Config, "proxy.mdns")) > 0 && !slices.ContainsFunc(domains, isLocalName) {
		domains = append(domains, mdnsDomain)
	}
	return domains
}

// isLocalName reports whether multicast DNS is asked for a domain's names.
func isLocalName(domain string) bool {
	return domain == mdns.Domain || strings.HasSuffix(domain, "."+mdns.Domain)
}

// newSite is how browsers call the proxy.
func newSite(a *app.App, p *Server) preview.Address {
	s := preview.Address{Names: p.Proxy.Names, Scheme: "http"}
	if p.options.TLS != nil {
		s.Scheme = "https"
	}
	if tcp, ok := p.listener.Addr().(*net.TCPAddr); ok {
		s.Port = tcp.Port
	}
	o := config.Get[config.ExternalURL](a.Config, "proxy.public")
	if o.Port == 0 && p.Proxy.BehindProxy {
		o = config.ExternalURL{Scheme: "https", Port: 443}
	}
	if o.Port != 0 {
		s.Scheme, s.Port = o.Scheme, o.Port
	}
	return s
}

// publishCaddy has a Caddy that runs lead names here.
func publishCaddy(a *app.App, p *Server) error {
	admin := config.Get[string](a.Config, "proxy.caddy")
	if admin == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(p.Address())
	if err != nil {
		return err
	}
	at := p.Address()
	if tcp, ok := p.listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		at = net.JoinHostPort("127.0.0.1", port)
	}
	domains := slices.DeleteFunc(slices.Clone(p.Proxy.Names.Domains), isLocalName)
	id := "atoll-" + port // of several homes that use one Caddy each has its own
	said := config.Get[config.ExternalURL](a.Config, "proxy.public")
	p.publishers = append(p.publishers, &proxy.Publisher{Names: proxy.Names{Domains: domains}, Provider: &caddy.Provider{
		Admin: admin, ID: id, Upstream: proxy.Upstream(at), Port: p.routes.Address.Port, SoleServer: said.Port != 0,
	}})
	return nil
}

// publishLocal tells local networks of names, by multicast DNS.
func publishLocal(a *app.App, p *Server) error {
	interfaces := config.List[string](a.Config, "proxy.mdns")
	if len(interfaces) == 0 {
		return nil
	}
	if IsLocalListener(p.listener) {
		return config.Problem{Location: a.Config.Settings["proxy.mdns"].Origin, Message: "proxy.mdns: the names would lead to this machine's addresses on " + strings.Join(interfaces, ", ") + ", and proxy.listen is " + p.Address() + ", which nobody reaches there: let it be 0.0.0.0:7080"}
	}
	var domains []string
	for _, d := range p.Proxy.Names.Domains {
		if isLocalName(d) {
			domains = append(domains, d)
			for _, limit := range mdns.Limits(d) {
				p.log.Warn("names on the local network", "domain", d, "limit", limit)
			}
		}
	}
	m := &multicast{interfaces: interfaces, avahi: &mdns.Avahi{Interfaces: interfaces}}
	p.closers = append(p.closers, m.Close)
	p.publishers = append(p.publishers, &proxy.Publisher{Names: proxy.Names{Domains: domains}, Provider: m})
	return nil
}

// multicast publishes names through Avahi, if that runs, else by itself.
type multicast struct {
	interfaces []string
	avahi      *mdns.Avahi

	mu  sync.Mutex
	own *mdns.Responder // nil: Avahi's; guarded by mu
}

// Publish makes the routes known.
func (m *multicast) Publish(ctx context.Context, routes []proxy.Route) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.own == nil {
		err := m.avahi.Publish(ctx, routes)
		if !errors.Is(err, atoll.ErrUnavailable) {
			return err
		}
		_ = m.avahi.Close() // names have one who tells them
		var oerr error
		if m.own, oerr = mdns.Open(m.interfaces); oerr != nil {
			m.own = nil
			return errors.Join(oerr, err)
		}
	}
	return m.own.Publish(ctx, routes)
}

// listConflicts are the names that other machines have. What can't be asked now is asked
// again.
func (m *multicast) listConflicts(ctx context.Context) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []mdns.Status
	if m.own != nil {
		all = m.own.Names()
	} else if list, err := m.avahi.Names(ctx); err == nil {
		all = list
	}
	var hosts []string
	for _, s := range all {
		if s.State == mdns.Conflict {
			hosts = append(hosts, s.Host)
		}
	}
	return hosts
}

// Close takes all names back.
func (m *multicast) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.avahi.Close()
	if m.own != nil {
		err = errors.Join(err, m.own.Close())
		m.own = nil
	}
	return err
}

// Routes returns the registry to which host names are announced; nil if there is none.
func (p *Server) Routes() *preview.Registry {
	if p == nil {
		return nil
	}
	return p.routes
}

// Address is where the proxy listens; empty: there is none.
func (p *Server) Address() string {
	if p == nil {
		return ""
	}
	return p.listener.Addr().String()
}

// Run serves until ctx is done.
func (p *Server) Run(ctx context.Context) error {
	_, url, err := p.routes.Address.URL("name", 3000)
	if err != nil {
		return err
	}
	who := "all who reach it"
	if p.Proxy.Access != nil {
		who = "who has a link"
	}
	p.log.Info("ports have names", "proxy", p.Address(), "as", url, "for", who)
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var publishing sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { _ = p.routes.Run(ctx) }) // it ends with ctx
	for _, pub := range p.publishers {
		publishing.Go(func() { _ = p.routes.Publish(ctx, pub) }) // likewise
		wg.Go(func() {
			if err := pub.Run(ctx); err != nil {
				p.log.Warn("names could not be taken back", "err", err)
			}
		})
		wg.Go(func() { p.watchRoutes(ctx, pub) })
	}
	err = p.Proxy.Serve(ctx, p.listener, p.options)
	stop()
	publishing.Wait()
	return err
}

// complainEvery is how often a log tells that names can't be published.
const complainEvery = 5 * time.Second

// watchRoutes logs why names are not published, once for each reason.
func (p *Server) watchRoutes(ctx context.Context, pub *proxy.Publisher) {
	t := time.NewTicker(complainEvery)
	defer t.Stop()
	told, taken := "", map[string]bool{}
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if m, ok := pub.Provider.(*multicast); ok {
			taken = p.tellConflicts(m.listConflicts(ctx), taken)
		}
		text := ""
		if err := pub.Err(); err != nil {
			text = err.Error()
		}
		if text != told && text != "" {
			p.log.Warn("names are not published", "err", text)
		}
		told = text
	}
}

// tellConflicts logs names that other machines have, once for each time. It returns
// those that they have now.
func (p *Server) tellConflicts(hosts []string, before map[string]bool) map[string]bool {
	now := make(map[string]bool, len(hosts))
	for _, h := range hosts {
		now[h] = true
		if !before[h] {
			p.log.Warn("another machine on the local network has this name: it keeps it, and leads elsewhere", "host", h)
		}
	}
	return now
}

// Close ends what run has not.
func (p *Server) Close() error {
	if p == nil {
		return nil
	}
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	errs := []error{p.Proxy.Close(), err}
	for _, c := range p.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
