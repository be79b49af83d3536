// Package preview maps the sandboxes of a fleet to host names: it resolves names for
// the proxy, lists the URLs of open ports and creates access links.
package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// Source finds sandboxes on behalf of one caller.
type Source interface {
	// Open returns a sandbox by its id or, if there is none, by its name, and its labels.
	Open(ctx context.Context, key string) (atoll.Sandbox, map[string]string, error)
	// FindByLabel returns the sandboxes that have a label, oldest first.
	FindByLabel(ctx context.Context, key, value string) ([]atoll.Info, error)
}

// SourceOf returns the source of an account's sandboxes.
func SourceOf(a *fleet.Account) Source { return accountSource{a} }

type accountSource struct{ a *fleet.Account }

func (s accountSource) Open(ctx context.Context, key string) (atoll.Sandbox, map[string]string, error) {
	sb, err := s.a.Open(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	return sb, sb.Labels(), nil
}

func (s accountSource) FindByLabel(ctx context.Context, key, value string) ([]atoll.Info, error) {
	return s.a.List(ctx, fleet.Filter{Labels: map[string]string{key: value}})
}

// Finder finds the sandboxes of a source by their ids, then by their names, then by
// the names of their projects. So a name never hides another sandbox's
// id, and a renamed sandbox never hides a project. If several sandboxes
// belong to one project, the oldest is found.
type Finder struct{ Source Source }

var _ proxy.Finder = Finder{}

// Find returns the sandbox for a name in a host name.
func (f Finder) Find(ctx context.Context, name string) (proxy.Target, error) {
	sb, labels, err := f.Source.Open(ctx, name)
	if err == nil {
		return proxy.NewTarget(sb, mainPort(labels)), nil
	}
	if !errors.Is(err, atoll.ErrNotFound) {
		return nil, err
	}
	list, lerr := f.Source.FindByLabel(ctx, project.Label, name)
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
	return proxy.NewTarget(sb, mainPort(labels)), nil
}

// mainPort returns the port that a sandbox's host name without port leads to; 0: the one
// that was opened first.
func mainPort(labels map[string]string) int {
	port, err := strconv.ParseUint(labels[project.LabelPort], 10, 16)
	if err != nil {
		return 0 // an invalid label is ignored
	}
	return int(port)
}

// HostNames returns the name of each sandbox in host names, by id. The list is all
// sandboxes of one owner, oldest first. A sandbox whose name can't be part of a host
// name is named by its id, which always can.
func HostNames(list []atoll.Info) map[string]string {
	ids, taken := make(map[string]bool), make(map[string]bool)
	for i := range list {
		ids[list[i].ID] = true
		taken[list[i].ID], taken[list[i].Name] = true, true
	}
	names := make(map[string]string, len(list))
	for i := range list {
		info := &list[i]
		names[info.ID] = info.ID
		if isHostLabel(info.Name) && !ids[info.Name] {
			names[info.ID] = info.Name
		}
		if p := info.Labels[project.Label]; isHostLabel(p) && (!taken[p] || p == info.Name) {
			taken[p], names[info.ID] = true, p
		}
	}
	return names
}

// isHostLabel reports whether a name can be part of a host name.
func isHostLabel(name string) bool {
	_, err := proxy.Names{}.HostName(name, 65535)
	return err == nil
}

// Address is the public address of a proxy.
type Address struct {
	Names  proxy.Names
	Scheme string // "http" or "https"
	Port   int    // in URLs; omitted if it is the scheme's default
}

// ForRemote returns the site for other hosts: without names below localhost, which lead
// every host to itself, unless there are no others.
func (s Address) ForRemote() Address {
	far := slices.DeleteFunc(slices.Clone(s.Names.Domains), func(d string) bool { return d == proxy.Local })
	if len(far) > 0 {
		s.Names.Domains = far
	}
	return s
}

// Origins returns the origins of all ports, as a content security policy names them: "http://*.localhost:8080".
func (s Address) Origins() []string {
	domains := s.Names.Domains
	if len(domains) == 0 {
		domains = []string{proxy.Local}
	}
	var list []string
	for _, domain := range domains {
		list = append(list, s.origin("*."+domain))
	}
	return list
}

// URL returns the host name and URL of a port; port 0 is the main one.
func (s Address) URL(name string, port int) (host, url string, err error) {
	host, err = s.Names.HostName(name, port)
	if err != nil {
		return "", "", err
	}
	return host, s.origin(host) + "/", nil
}

// origin returns the origin of a host name.
func (s Address) origin(host string) string {
	text := s.Scheme + "://" + host
	if usual := map[string]int{"http": 80, "https": 443}[s.Scheme]; s.Port != usual {
		text += fmt.Sprintf(":%d", s.Port)
	}
	return text
}
