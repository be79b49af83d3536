package main

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
	"github.com/atoll-sandbox/atoll/internal/proxy"
	"github.com/atoll-sandbox/atoll/internal/proxy/mdns"
)

const (
	// resolveTime bounds the question for one name.
	resolveTime = 3 * time.Second
	// localhostProbe is a name below localhost that nobody has.
	localhostProbe = "atoll-doctor." + proxy.Local
)

// findsLocalhost reports whether programs of this machine find names below localhost:
// browsers and curl know by themselves where those lead, others ask the C library.
func findsLocalhost(ctx context.Context) bool {
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

// checkLocalhost says who finds names below localhost here.
func checkLocalhost(ctx context.Context) finding {
	if findsLocalhost(ctx) {
		return finding{Check: "names: localhost", OK: true, Detail: "all programs find NAME.localhost"}
	}
	return finding{
		Check: "names: localhost", Optional: true,
		Detail: "browsers and curl find NAME.localhost by themselves; other programs don't: this machine's resolver knows no names below localhost",
		Fix:    "apt-get install libnss-myhostname, or 'myhostname' in the line 'hosts:' of /etc/nsswitch.conf",
	}
}

// localReach is what this machine's resolver finds below local.
func localReach() (mdns.Reach, error) {
	if runtime.GOOS == "darwin" {
		return mdns.All, nil
	}
	conf, err := readSmall("/etc/nsswitch.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return mdns.None, err
	}
	allow, err := readSmall("/etc/mdns.allow")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return mdns.None, err
	}
	return mdns.Reads(string(conf), string(allow)), nil
}

// checkLocal says which names of a local network are found here.
func checkLocal() finding {
	f := finding{Check: "names: local", Optional: true}
	reach, err := localReach()
	switch {
	case err != nil:
		f.Detail, f.Fix = err.Error(), "see the message"
	case reach == mdns.All:
		f.OK, f.Detail = true, "this machine finds NAME.local and NAME.sandbox.local"
	case reach == mdns.Resolved:
		f.OK, f.Detail = true, "systemd-resolved is asked for NAME.local and NAME.sandbox.local: 'resolvectl mdns' says whether it asks the network"
	case reach == mdns.Two:
		f.Detail = "this machine finds NAME.local, but not NAME.sandbox.local: nss-mdns asks for names of two labels only, here and on other machines of its kind"
		f.Fix = "'atoll serve --mdns' with '--domain local'; or mdns4 for mdns4_minimal in /etc/nsswitch.conf, and a line '.local' in /etc/mdns.allow"
	default:
		f.Detail, f.Fix = "this machine finds no names of 'atoll serve --mdns': nothing in /etc/nsswitch.conf asks the local network", "apt-get install libnss-mdns"
	}
	return f
}

// notFound says which of the names in routes programs of this machine do not find;
// empty: none.
func notFound(ctx context.Context, routes []liveRoute) string {
	for _, r := range routes {
		u, err := url.Parse(r.URL)
		if err != nil {
			continue
		}
		_, domain, _ := strings.Cut(u.Hostname(), ".")
		switch {
		case domain == proxy.Local && !findsLocalhost(ctx):
			return "browsers and curl find names below localhost by themselves, other programs here don't ('atoll doctor')"
		case isLocalName(domain):
			reach, err := localReach()
			if err == nil && (reach == mdns.None || reach == mdns.Two && domain != mdns.Domain) {
				return "this machine does not find names below " + domain + " ('atoll doctor')"
			}
		}
		return "" // the others end likewise
	}
	return ""
}

// linkLimits says from where a link is not opened; empty: from everywhere that
// reaches the server.
func linkLimits(link string) string {
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
func (a *app) openHere(l atoll.RouteLink, list []atoll.Route) (string, error) {
	away, err := a.elsewhere()
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
