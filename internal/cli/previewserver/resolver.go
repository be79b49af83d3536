package previewserver

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/preview/mdns"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

const (
	// resolveTime bounds the question for one name.
	resolveTime = 3 * time.Second
	// localhostProbe is an unused name below localhost.
	localhostProbe = "atoll-doctor." + proxy.Local
)

// ResolvesLocalhost reports whether programs of this machine find names below localhost:
// browsers and curl know by themselves where those lead, others ask the C library.
func ResolvesLocalhost(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	var found []string
	if getent, err := exec.LookPath("getent"); err == nil { // Go's own resolver is not what they ask
		out, err := exec.CommandContext(ctx, getent, "ahosts", localhostProbe).Output()
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(out)) {
			found = append(found, strings.Fields(line + " -")[0])
		}
	} else if found, err = net.DefaultResolver.LookupHost(ctx, localhostProbe); err != nil {
		return false
	}
	for _, text := range found {
		if addr, err := netip.ParseAddr(text); err != nil || !addr.IsLoopback() { // of a provider who answers for all that is not there
			return false
		}
	}
	return len(found) > 0
}

// MDNSReach returns the names below local that this machine's resolver finds.
func MDNSReach() (mdns.Reach, error) {
	if runtime.GOOS == "darwin" {
		return mdns.AnyLabels, nil
	}
	conf, err := config.ReadSmallFile("/etc/nsswitch.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return mdns.None, err
	}
	allow, err := config.ReadSmallFile("/etc/mdns.allow")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return mdns.None, err
	}
	return mdns.ParseReach(string(conf), string(allow)), nil
}

// UnresolvedNames returns a hint if programs of this machine cannot resolve the host names of
// routes; "" if they can.
func UnresolvedNames(ctx context.Context, routes []Route) string {
	for _, r := range routes {
		u, err := url.Parse(r.URL)
		if err != nil {
			continue
		}
		_, domain, _ := strings.Cut(u.Hostname(), ".")
		switch {
		case domain == proxy.Local && !ResolvesLocalhost(ctx):
			return "browsers and curl find names below localhost by themselves, other programs here don't ('atoll doctor')"
		case isLocalName(domain):
			reach, err := MDNSReach()
			if err == nil && (reach == mdns.None || reach == mdns.TwoLabels && domain != mdns.Domain) {
				return "this machine does not find names below " + domain + " ('atoll doctor')"
			}
		}
		return "" // the others end likewise
	}
	return ""
}

// DescribeLinkLimits says from where a link is not opened; empty: from everywhere that
// reaches the server.
func DescribeLinkLimits(link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return ""
	}
	_, domain, _ := strings.Cut(u.Hostname(), ".")
	switch {
	case domain == proxy.Local:
		return "it leads to localhost: it opens on the server's own machine, or through a tunnel to its port; 'atoll serve --domain' is for names that other machines find"
	case isLocalName(domain):
		if limits := mdns.Limits(domain); len(limits) > 0 {
			return limits[0]
		}
	}
	return ""
}

// openHere returns the URL of a link as this machine's browser finds it, whose port is
// among the routes; else the link's own.
func openHere(a *app.App, l atoll.RouteLink, list []atoll.Route) (string, error) {
	away, err := a.IsRemote()
	if err != nil {
		return "", err
	}
	for _, r := range list {
		if r.Port == l.Port && !away {
			return r.URL + "?" + url.Values{proxy.AccessParam: {l.Secret}}.Encode(), nil
		}
	}
	return l.URL, nil
}
