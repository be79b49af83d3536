package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/kubeapi"
)

// place is a namespace of a context.
type place struct{ context, namespace string }

// target is a namespace of a cluster, and how it is spoken to.
type target struct {
	place
	d     *Driver
	quota map[string]string
	home  string

	config  *rest.Config
	core    kubeapi.Core
	net     kubeapi.Networking
	node    kubeapi.Node
	storage kubeapi.Storage
	rights  kubeapi.Authorization
	pods    *pods // what is known of its sandboxes

	places places // how guests get in

	answered atomic.Bool   // the API has, at least once
	agents   atomic.Bool   // kubernetes-sigs/agent-sandbox is installed
	ready    atomic.Bool   // the namespace is as it should be
	turn     chan struct{} // of one; held by who prepares
}

// target returns the place of an owner's sandboxes; it asks nobody.
func (d *Driver) target(o atoll.Owner) (*target, error) {
	if at, ok := d.Apps[o.App]; ok && o.App != "" {
		return d.targetAt(place{or(at.Context, d.Context), or(at.Namespace, d.namespace())}, at.Quota)
	}
	if d.Apart && o.App != "" {
		return d.targetAt(place{d.Context, apart(d.namespace(), o.App)}, d.Quota)
	}
	return d.targetAt(place{d.Context, d.namespace()}, d.Quota)
}

// allTargets returns every place that is known beforehand, the driver's own
// first.
func (d *Driver) allTargets() ([]*target, error) {
	own, err := d.target(atoll.Owner{})
	if err != nil {
		return nil, err
	}
	list := []*target{own}
	for _, app := range slices.Sorted(maps.Keys(d.Apps)) {
		t, err := d.target(atoll.Owner{App: app})
		if err != nil {
			return nil, fmt.Errorf("app %s: %w", app, err)
		}
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list, nil
}

func (d *Driver) namespace() string { return or(d.Namespace, DefaultNamespace) }

func or[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

// mostLabel is how long a name of a namespace can be.
const mostLabel = 63

// apart returns the namespace of an app. Two apps never have the same: a name
// that can't be a namespace's ends with a hash, and one that looks like such a
// name gets one too.
func apart(namespace, app string) string {
	plain := len(namespace)+1+len(app) <= mostLabel && strings.Trim(app, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && !strings.HasSuffix(app, "-")
	if i := strings.LastIndexByte(app, '-'); plain && len(app)-i-1 != hashed {
		return namespace + "-" + app
	}
	slug := []byte(strings.ToLower(app))
	for i, c := range slug {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			slug[i] = '-'
		}
	}
	room := max(0, mostLabel-len(namespace)-hashed-2)
	words := strings.Trim(string(slug[:min(len(slug), room)]), "-")
	return namespace + "-" + strings.TrimPrefix(words+"-"+hash(app)[:hashed], "-")
}

// hashed is how many digits of a hash stand in a namespace's name.
const hashed = 16

// hash returns what can't be turned back into a text, as letters of a label.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// targetAt returns the one target of a place.
func (d *Driver) targetAt(at place, quota map[string]string) (*target, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.targets[at]; t != nil {
		return t, nil
	}
	config, err := d.config(at.context)
	if err != nil {
		return nil, err
	}
	home, err := d.home()
	if err != nil {
		return nil, err
	}
	t := &target{place: at, d: d, quota: quota, home: home, config: config, turn: make(chan struct{}, 1)}
	if err := t.connect(); err != nil {
		return nil, err
	}
	t.pods = &pods{core: t.core, namespace: at.namespace, selector: labelHome + "=" + home}
	if d.targets == nil {
		d.targets = make(map[place]*target)
	}
	d.targets[at] = t
	return t, nil
}

// config reads how a context's cluster is reached.
func (d *Driver) config(name string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = d.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("there is no kubeconfig") // client-go names a variable of old
	}
	if err != nil {
		return nil, fmt.Errorf("%w: no cluster is known: %w: name a kubeconfig ($KUBECONFIG, kubernetes.kubeconfig) and a context of it, or run in a pod with a service account", atoll.ErrUnavailable, err)
	}
	config.QPS = -1 // the server has its own order of who is served when
	config.UserAgent = "atoll"
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// connect makes the clients.
func (t *target) connect() error {
	typed := rest.CopyConfig(t.config)
	typed.ContentType, typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	c, err := rest.HTTPClientFor(typed)
	if err != nil {
		return fmt.Errorf("%w: the kubeconfig: %w", atoll.ErrUnavailable, err)
	}
	api, err := kubeapi.New(typed, c)
	if err != nil {
		return fmt.Errorf("%w: the kubeconfig: %w", atoll.ErrUnavailable, err)
	}
	t.core, t.net, t.node, t.storage, t.rights = api.Core, api.Networking, api.Node, api.Storage, api.Authorization
	return nil
}

// String names a place for people.
func (p place) String() string {
	if p.context == "" {
		return p.namespace
	}
	return p.context + "/" + p.namespace
}

// lock waits for the turn to prepare.
func (t *target) lock(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *target) unlock() { <-t.turn }
