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
	"github.com/atoll-sandbox/atoll/driver/kubernetes/kubeapi"
)

// place is a namespace of a context.
type place struct{ context, namespace string }

// target is a namespace of a cluster with the clients of its API.
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
	pods    *podWatch // the watch of its sandboxes' pods

	access access // how pods are reached

	answered  atomic.Bool   // the API has answered at least once
	agents    atomic.Bool   // kubernetes-sigs/agent-sandbox is installed
	ready     atomic.Bool   // the namespace is prepared
	preparing chan struct{} // holds a token while the namespace is prepared
}

// targetOf returns the target of an owner's sandboxes. It makes no requests.
func (d *Driver) targetOf(o atoll.Owner) (*target, error) {
	if at, ok := d.Apps[o.App]; ok && o.App != "" {
		return d.targetAt(place{orDefault(at.Context, d.Context), orDefault(at.Namespace, d.ownNamespace())}, at.Quota)
	}
	if d.NamespacePerApp && o.App != "" {
		return d.targetAt(place{d.Context, appNamespace(d.ownNamespace(), o.App)}, d.Quota)
	}
	return d.targetAt(place{d.Context, d.ownNamespace()}, d.Quota)
}

// allTargets returns every target that is known beforehand, the driver's own first.
func (d *Driver) allTargets() ([]*target, error) {
	own, err := d.targetOf(atoll.Owner{})
	if err != nil {
		return nil, err
	}
	list := []*target{own}
	for _, app := range slices.Sorted(maps.Keys(d.Apps)) {
		t, err := d.targetOf(atoll.Owner{App: app})
		if err != nil {
			return nil, fmt.Errorf("app %s: %w", app, err)
		}
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list, nil
}

func (d *Driver) ownNamespace() string { return orDefault(d.Namespace, DefaultNamespace) }

func orDefault[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

// maxLabel is the maximum length of a namespace's name.
const maxLabel = 63

// appNamespace returns the namespace of an app. Two apps never have the same: a name that is not valid for
// a namespace ends with a hash, and one that looks like such a name gets a hash too.
func appNamespace(namespace, app string) string {
	plain := len(namespace)+1+len(app) <= maxLabel && strings.Trim(app, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && !strings.HasSuffix(app, "-")
	if i := strings.LastIndexByte(app, '-'); plain && len(app)-i-1 != hashDigits {
		return namespace + "-" + app
	}
	slug := []byte(strings.ToLower(app))
	for i, c := range slug {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			slug[i] = '-'
		}
	}
	room := max(0, maxLabel-len(namespace)-hashDigits-2)
	words := strings.Trim(string(slug[:min(len(slug), room)]), "-")
	return namespace + "-" + strings.TrimPrefix(words+"-"+hash(app)[:hashDigits], "-")
}

// hashDigits is the number of digits of a hash in a namespace's name.
const hashDigits = 16

// hash returns a one-way hash of a text, as characters that a label may have.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// targetAt returns the only target of a place.
func (d *Driver) targetAt(at place, quota map[string]string) (*target, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.targets[at]; t != nil {
		return t, nil
	}
	config, err := d.restConfig(at.context)
	if err != nil {
		return nil, err
	}
	home, err := d.homeName()
	if err != nil {
		return nil, err
	}
	t := &target{place: at, d: d, quota: quota, home: home, config: config, preparing: make(chan struct{}, 1)}
	if err := t.makeClients(); err != nil {
		return nil, err
	}
	t.pods = &podWatch{core: t.core, namespace: at.namespace, selector: labelHome + "=" + home}
	if d.targets == nil {
		d.targets = make(map[place]*target)
	}
	d.targets[at] = t
	return t, nil
}

// restConfig returns the configuration of a context's API.
func (d *Driver) restConfig(name string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = d.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("there is no kubeconfig") // client-go names an obsolete variable
	}
	if err != nil {
		return nil, fmt.Errorf("%w: no cluster is known: %w: name a kubeconfig ($KUBECONFIG, kubernetes.kubeconfig) and a context of it, or run in a pod with a service account", atoll.ErrUnavailable, err)
	}
	config.QPS = -1 // the server limits requests itself
	config.UserAgent = "atoll"
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// makeClients creates the clients of the API.
func (t *target) makeClients() error {
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

// String returns a place for messages.
func (p place) String() string {
	if p.context == "" {
		return p.namespace
	}
	return p.context + "/" + p.namespace
}

// lock waits until no other goroutine prepares the namespace.
func (t *target) lock(ctx context.Context) error {
	select {
	case t.preparing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *target) unlock() { <-t.preparing }
