package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/proxy"
	"github.com/atoll-sandbox/atoll/internal/proxy/caddy"
	"github.com/atoll-sandbox/atoll/internal/proxy/mdns"
	"github.com/atoll-sandbox/atoll/internal/route"
	"github.com/atoll-sandbox/atoll/internal/server"
)

const (
	// defaultProxy is where ports of sandboxes have names if nobody says
	// otherwise; if it is taken, that is any free port.
	defaultProxy = "127.0.0.1:7080"
	// proxyOff means that they have none.
	proxyOff = "off"
	// mdnsDomain is what names end in on a local network if nobody says otherwise.
	mdnsDomain = "sandbox.local"
)

// Who comes in where ports have names.
const (
	accessAuto  = "auto"  // links, but on this machine's own addresses nothing in front
	accessLinks = "links" // who has a link
	accessOpen  = "open"  // all who reach it
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

// outside is how browsers call the proxy.
type outside struct {
	scheme string
	port   int
}

// parseOutside reads http, https, or one of them with a port: https:8443.
func parseOutside(text string) (outside, error) {
	scheme, port, found := strings.Cut(text, ":")
	o := outside{scheme, map[string]int{"http": 80, "https": 443}[scheme]}
	if found {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			o.port = 0
		} else if o.port != 0 {
			o.port = int(n)
		}
	}
	if o.port == 0 {
		return o, errors.New("must be http, https, or one of them with a port, like https:8443")
	}
	return o, nil
}

// parseCaddy reads where Caddy's admin API is: a URL, or the path of its socket.
func parseCaddy(text string) (string, error) {
	rest, ok := strings.CutPrefix(text, "http://")
	if !ok && strings.HasPrefix(text, "/") {
		return text, nil
	}
	if !ok || rest == "" || strings.ContainsAny(rest, "/?#@") {
		return "", errors.New("must be like http://localhost:2019, or the path of a socket")
	}
	return text, nil
}

// portal is the names of ports of sandboxes, as a server has them.
type portal struct {
	proxy      *proxy.Proxy
	desk       *route.Desk
	options    proxy.ServeOptions
	listener   net.Listener
	publishers []*proxy.Publisher
	closers    []func() error
	log        *slog.Logger
}

// openPortal opens what gives ports their names; nil: they have none.
func (a *app) openPortal(ctx context.Context, f *fleet.Fleet, log *slog.Logger) (_ *portal, err error) {
	l, err := a.listenProxy(ctx)
	if err != nil || l == nil {
		return nil, err
	}
	p := &portal{listener: l, log: log, proxy: &proxy.Proxy{}, desk: &route.Desk{Fleet: f}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.options.TLS, err = a.proxyTLS(l, log); err != nil {
		return nil, err
	}
	p.proxy.Names = proxy.Names{Domains: a.proxyDomains()}
	p.proxy.Front = get[bool](a.config, "proxy.behind") || get[string](a.config, "proxy.caddy") != ""
	switch get[string](a.config, "proxy.access") {
	case accessOpen:
		p.options.Open = true
	case accessLinks:
		p.proxy.Access = route.Links(f)
	default:
		if !ours(l) || p.proxy.Front {
			p.proxy.Access = route.Links(f)
		}
	}
	p.desk.Access, p.desk.Site = p.proxy.Access, a.site(p)
	p.proxy.Finder = p.desk.Finder()
	if err := errors.Join(a.publishCaddy(p), a.publishLocal(p)); err != nil {
		return nil, err
	}
	return p, nil
}

// ours reports whether only programs of this machine reach a listener.
func ours(l net.Listener) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// listenProxy opens the proxy's address; nil: there is none.
func (a *app) listenProxy(ctx context.Context) (net.Listener, error) {
	s := a.config.settings["proxy.listen"]
	address := get[string](a.config, "proxy.listen")
	if address == proxyOff {
		return nil, nil
	}
	open := server.ListenTCP
	if s.origin == "default" {
		open = listenOr
	}
	l, err := open(ctx, address, nil)
	if err != nil {
		return nil, problem{s.origin, "proxy.listen: " + bare(err)}
	}
	return l, nil
}

// proxyTLS is with what the proxy is served; nil: without TLS. The server's own
// certificate counts only where others than this machine reach the proxy.
func (a *app) proxyTLS(l net.Listener, log *slog.Logger) (*tls.Config, error) {
	cert, key := get[string](a.config, "proxy.tls.cert"), get[string](a.config, "proxy.tls.key")
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("%w: proxy.tls.cert and proxy.tls.key belong together", atoll.ErrInvalid)
	}
	if cert != "" {
		return (&server.TLSFiles{Cert: cert, Key: key, Log: log}).Config()
	}
	if ours(l) || get[bool](a.config, "proxy.behind") {
		return nil, nil
	}
	files, err := a.tlsFiles(log)
	if err != nil || files == nil {
		return nil, err
	}
	return files.Config()
}

// proxyDomains are what names of ports end in.
func (a *app) proxyDomains() []string {
	domains := getList[string](a.config, "proxy.domains")
	if len(domains) == 0 {
		domains = []string{proxy.Local}
	}
	if len(getList[string](a.config, "proxy.mdns")) > 0 && !slices.ContainsFunc(domains, isLocalName) {
		domains = append(domains, mdnsDomain)
	}
	return domains
}

// isLocalName reports whether multicast DNS is asked for a domain's names.
func isLocalName(domain string) bool {
	return domain == mdns.Domain || strings.HasSuffix(domain, "."+mdns.Domain)
}

// site is how browsers call the proxy.
func (a *app) site(p *portal) route.Site {
	s := route.Site{Names: p.proxy.Names, Scheme: "http"}
	if p.options.TLS != nil {
		s.Scheme = "https"
	}
	if tcp, ok := p.listener.Addr().(*net.TCPAddr); ok {
		s.Port = tcp.Port
	}
	o := get[outside](a.config, "proxy.public")
	if o.port == 0 && p.proxy.Front {
		o = outside{"https", 443}
	}
	if o.port != 0 {
		s.Scheme, s.Port = o.scheme, o.port
	}
	return s
}

// publishCaddy has a Caddy that runs lead names here.
func (a *app) publishCaddy(p *portal) error {
	admin := get[string](a.config, "proxy.caddy")
	if admin == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(p.address())
	if err != nil {
		return err
	}
	at := p.address()
	if tcp, ok := p.listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		at = net.JoinHostPort("127.0.0.1", port)
	}
	domains := slices.DeleteFunc(slices.Clone(p.proxy.Names.Domains), isLocalName)
	id := "atoll-" + port // of several homes that use one Caddy each has its own
	said := get[outside](a.config, "proxy.public")
	p.publishers = append(p.publishers, &proxy.Publisher{Names: proxy.Names{Domains: domains}, Provider: &caddy.Provider{
		Admin: admin, ID: id, Upstream: proxy.Upstream(at), Port: p.desk.Site.Port, Only: said.port != 0,
	}})
	return nil
}

// publishLocal tells local networks of names, by multicast DNS.
func (a *app) publishLocal(p *portal) error {
	interfaces := getList[string](a.config, "proxy.mdns")
	if len(interfaces) == 0 {
		return nil
	}
	if ours(p.listener) {
		return problem{a.config.settings["proxy.mdns"].origin, "proxy.mdns: the names would lead to this machine's addresses on " + strings.Join(interfaces, ", ") + ", and proxy.listen is " + p.address() + ", which nobody reaches there: let it be 0.0.0.0:7080"}
	}
	var domains []string
	for _, d := range p.proxy.Names.Domains {
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

// conflicts are the names that other machines have. What can't be asked now is asked
// again.
func (m *multicast) conflicts(ctx context.Context) []string {
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

// routes is where people are told of names; nil: there are none.
func (p *portal) routes() *route.Desk {
	if p == nil {
		return nil
	}
	return p.desk
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
	_, url, err := p.desk.Site.URL("name", 3000)
	if err != nil {
		return err
	}
	who := "all who reach it"
	if p.proxy.Access != nil {
		who = "who has a link"
	}
	p.log.Info("ports have names", "proxy", p.address(), "as", url, "for", who)
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var publishing sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { _ = p.desk.Run(ctx) }) // it ends with ctx
	for _, pub := range p.publishers {
		publishing.Go(func() { _ = p.desk.Publish(ctx, pub) }) // likewise
		wg.Go(func() {
			if err := pub.Run(ctx); err != nil {
				p.log.Warn("names could not be taken back", "err", err)
			}
		})
		wg.Go(func() { p.watch(ctx, pub) })
	}
	err = p.proxy.Serve(ctx, p.listener, p.options)
	stop()
	publishing.Wait()
	return err
}

// complainEvery is how often a log tells that names can't be published.
const complainEvery = 5 * time.Second

// watch logs why names are not published, once for each reason.
func (p *portal) watch(ctx context.Context, pub *proxy.Publisher) {
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
			taken = p.tellConflicts(m.conflicts(ctx), taken)
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
func (p *portal) tellConflicts(hosts []string, before map[string]bool) map[string]bool {
	now := make(map[string]bool, len(hosts))
	for _, h := range hosts {
		now[h] = true
		if !before[h] {
			p.log.Warn("another machine on the local network has this name: it keeps it, and leads elsewhere", "host", h)
		}
	}
	return now
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
	errs := []error{p.proxy.Close(), err}
	for _, c := range p.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
