package preview

import (
	"context"
	"net/http"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

// KeyNames name where clients of vendors' SDKs send the port key of a sandbox.
type KeyNames struct {
	Headers []string
	Params  []string // of the URL
}

// NewAdmitter returns the check of requests that need no link's token: to sandboxes whose ports are public, to
// host names of links, and with the port key of the sandbox.
func (d *Registry) NewAdmitter(names KeyNames) *proxy.Admitter {
	d.admitter = &proxy.Admitter{Headers: names.Headers, Params: names.Params, Find: func(r *http.Request, n proxy.Name) (*proxy.Admission, error) {
		return d.admit(r, n, names)
	}}
	return d.admitter
}

// admit returns the admission of a request; nil: it has none.
func (d *Registry) admit(r *http.Request, n proxy.Name, names KeyNames) (*proxy.Admission, error) {
	keys := shownKeys(r, names)
	find := func(ctx context.Context) (string, error) { return d.findAdmitted(ctx, n, keys) }
	id, err := find(r.Context())
	if err != nil || id == "" {
		return nil, err
	}
	sb, labels, err := SourceOf(d.Fleet.Account(fleet.LocalCaller())).Open(r.Context(), id)
	if err != nil {
		return nil, err
	}
	valid := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), keyTimeout)
		defer cancel()
		now, err := find(ctx)
		return err == nil && now == id // a failed lookup ends the request
	}
	return &proxy.Admission{Target: proxy.NewTarget(sb, mainPort(labels)), Valid: valid}, nil
}

// findAdmitted returns the id of the sandbox that a request may reach without a link's token; empty: none.
func (d *Registry) findAdmitted(ctx context.Context, n proxy.Name, keys []string) (string, error) {
	if id, err := d.Fleet.FindRouteLinkHost(ctx, n.Project, n.Port); err != nil || id != "" {
		return id, err
	}
	if atoll.CheckID(n.Project) != nil {
		return "", nil
	}
	for _, k := range keys {
		if ok, err := d.Fleet.CheckPortKey(ctx, n.Project, k); err != nil || ok {
			return n.Project, err
		}
	}
	if d.OnlyLinks {
		return "", nil
	}
	if ok, err := d.Fleet.HasPublicPorts(ctx, n.Project); err != nil || ok {
		return n.Project, err
	}
	return "", nil
}

// maxKeys is the number of port keys of one request that are checked.
const maxKeys = 4

// shownKeys returns the port keys that a request shows.
func shownKeys(r *http.Request, names KeyNames) []string {
	var keys []string
	for _, h := range names.Headers {
		keys = append(keys, r.Header.Values(h)...)
	}
	if len(names.Params) > 0 && r.URL.RawQuery != "" {
		q := r.URL.Query()
		for _, p := range names.Params {
			keys = append(keys, q[p]...)
		}
	}
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == "" })
	return keys[:min(len(keys), maxKeys)]
}
