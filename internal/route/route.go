// Package route says by which host names the sandboxes of a fleet are reached:
// the proxy asks it who is meant, people are told what to open.
package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/proxy"
)

// Source is where sandboxes are, as one caller sees them.
type Source interface {
	// Open finds a sandbox by its id, else by its name, and returns its labels.
	Open(ctx context.Context, key string) (atoll.Sandbox, map[string]string, error)
	// Labelled returns the sandboxes that have a label, oldest first.
	Labelled(ctx context.Context, key, value string) ([]atoll.Info, error)
}

// Of returns the sandboxes of an account.
func Of(a *fleet.Account) Source { return account{a} }

type account struct{ a *fleet.Account }

func (s account) Open(ctx context.Context, key string) (atoll.Sandbox, map[string]string, error) {
	sb, err := s.a.Open(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	return sb, sb.Labels(), nil
}

func (s account) Labelled(ctx context.Context, key, value string) ([]atoll.Info, error) {
	return s.a.List(ctx, fleet.Filter{Labels: map[string]string{key: value}})
}

// Finder finds the sandboxes of a source by their ids, their names, and the
// names of their projects, in this order: so no sandbox is reached by what is
// another's id, and one that is renamed takes no project's place. Of several
// with one project, the oldest has its name.
type Finder struct{ Source Source }

var _ proxy.Finder = Finder{}

// Find returns the sandbox of a name that stands in host names.
func (f Finder) Find(ctx context.Context, name string) (proxy.Target, error) {
	sb, labels, err := f.Source.Open(ctx, name)
	if err == nil {
		return proxy.Of(sb, mainPort(labels)), nil
	}
	if !errors.Is(err, atoll.ErrNotFound) {
		return nil, err
	}
	list, lerr := f.Source.Labelled(ctx, project.Label, name)
	if lerr != nil {
		return nil, lerr
	}
	if len(list) == 0 {
		return nil, err
	}
	sb, labels, err = f.Source.Open(ctx, list[0].ID)
	if err != nil {
		return nil, err
	}
	return proxy.Of(sb, mainPort(labels)), nil
}

// mainPort is the port that a sandbox's plain name leads to; 0: the one that was
// opened first.
func mainPort(labels map[string]string) int {
	port, err := strconv.ParseUint(labels[project.LabelPort], 10, 16)
	if err != nil {
		return 0 // whoever made the label meant something else by it
	}
	return int(port)
}

// Labels returns by which name each sandbox of one owner is called in host names,
// by id. The list is all that the owner has, oldest first. What has no name that
// could be part of a host name is called by its id, which always can.
func Labels(list []atoll.Info) map[string]string {
	ids, taken := make(map[string]bool), make(map[string]bool)
	for i := range list {
		ids[list[i].ID] = true
		taken[list[i].ID], taken[list[i].Name] = true, true
	}
	names := make(map[string]string, len(list))
	for i := range list {
		info := &list[i]
		names[info.ID] = info.ID
		if usable(info.Name) && !ids[info.Name] {
			names[info.ID] = info.Name
		}
		if p := info.Labels[project.Label]; usable(p) && (!taken[p] || p == info.Name) {
			taken[p], names[info.ID] = true, p
		}
	}
	return names
}

// usable reports whether a name can be part of a host name.
func usable(name string) bool {
	_, err := proxy.Names{}.Host(name, 65535)
	return err == nil
}

// Site is where a proxy is found from outside.
type Site struct {
	Names  proxy.Names
	Scheme string // "http" or "https"
	Port   int    // as it stands in URLs; the scheme's usual one is left out
}

// Far returns the site as other machines find it: names below localhost lead each
// of them to itself, so they are left out if there are others.
func (s Site) Far() Site {
	far := slices.DeleteFunc(slices.Clone(s.Names.Domains), func(d string) bool { return d == proxy.Local })
	if len(far) > 0 {
		s.Names.Domains = far
	}
	return s
}

// URL returns where a browser finds a port; port 0 is the main one.
func (s Site) URL(name string, port int) (host, url string, err error) {
	host, err = s.Names.Host(name, port)
	if err != nil {
		return "", "", err
	}
	url = s.Scheme + "://" + host
	if usual := map[string]int{"http": 80, "https": 443}[s.Scheme]; s.Port != usual {
		url += fmt.Sprintf(":%d", s.Port)
	}
	return host, url + "/", nil
}
