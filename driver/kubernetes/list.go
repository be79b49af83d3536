package kubernetes

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
)

// homeName returns the label that distinguishes this fleet's sandboxes from those of others in the same
// cluster.
func (d *Driver) homeName() (string, error) {
	if d.Home != "" {
		return d.Home, atoll.CheckName(d.Home)
	}
	key, err := d.hostKey()
	if err != nil {
		return "", err
	}
	public := key.Public().(ed25519.PublicKey) //nolint:forcetypeassert // the public half of an Ed25519 key
	return hash(hex.EncodeToString(public)), nil
}

// Open returns a sandbox by its pod, or by its volume if it is stopped.
func (d *Driver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	p, err := d.open(ctx, id)
	if err != nil {
		return nil, &atoll.Error{Op: "open", ID: id, Err: err}
	}
	return p.asSandbox(), nil
}

func (d *Driver) open(ctx context.Context, id string) (*pod, error) {
	if atoll.CheckID(id) != nil {
		return nil, atoll.ErrNotFound
	}
	places, err := d.searchTargets()
	if err != nil {
		return nil, err
	}
	return d.openAnywhere(ctx, places, id)
}

// OpenOwned returns a sandbox of an owner. Clusters in which other owners' sandboxes are matter only if
// it is not in this owner's cluster, as after a change of Apps.
func (d *Driver) OpenOwned(ctx context.Context, id string, owner atoll.Owner) (atoll.Sandbox, error) {
	p, err := d.openOwned(ctx, id, owner)
	if err != nil {
		return nil, &atoll.Error{Op: "open", ID: id, Err: err}
	}
	return p.asSandbox(), nil
}

func (d *Driver) openOwned(ctx context.Context, id string, owner atoll.Owner) (*pod, error) {
	if atoll.CheckID(id) != nil {
		return nil, atoll.ErrNotFound
	}
	own, err := d.targetOf(owner)
	if err != nil {
		return nil, err
	}
	p, err := d.openIn(ctx, search{t: own}, id)
	if err == nil || p != nil || ctx.Err() != nil {
		return p, err
	}
	others, oerr := d.searchTargets()
	if oerr != nil {
		return nil, errors.Join(err, oerr)
	}
	others = slices.DeleteFunc(others, func(s search) bool { return s.t == own && !s.all })
	if p, oerr := d.openAnywhere(ctx, others, id); oerr == nil {
		return p, nil
	}
	return nil, err
}

// openAnywhere returns a sandbox from the place that has it. If none of those that answer has it, and
// some do not answer, that is ErrUnavailable, without their addresses: the caller may be a user of
// another cluster.
func (d *Driver) openAnywhere(ctx context.Context, places []search, id string) (*pod, error) {
	type answer struct {
		p   *pod
		err error
	}
	asking, cancel := placeTimeout(ctx, len(places))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answers := make(chan answer, len(places))
	for _, s := range places {
		wg.Go(func() {
			p, err := d.openIn(asking, s, id)
			answers <- answer{p, err}
		})
	}
	var errs []error
	for range places {
		switch a := <-answers; {
		case a.p != nil:
			return a.p, a.err
		case !errors.Is(a.err, atoll.ErrNotFound):
			errs = append(errs, a.err)
		}
	}
	switch {
	case len(errs) == 0:
		return nil, atoll.ErrNotFound
	case len(places) == 1:
		return nil, errs[0]
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("%w: it is not in the clusters that answer; %d of %d do not", atoll.ErrUnavailable, len(errs), len(places))
}

// openIn returns a sandbox of a place. An error with a sandbox means that it is there, but can't be
// opened.
func (d *Driver) openIn(ctx context.Context, s search, id string) (*pod, error) {
	found, err := d.findSandboxes(ctx, s, labelID+"="+id+","+labelHome+"="+s.t.home)
	if err != nil {
		return nil, err
	}
	one, ok := found[id]
	if !ok {
		return nil, atoll.ErrNotFound
	}
	if err := one.repairVolume(ctx); err != nil {
		return one.pod, err
	}
	return one.pod, one.pod.loadEnv(ctx)
}

// placeLimit bounds how long one of several places may take to answer.
const placeLimit = 5 * time.Second

// placeTimeout returns a context for requests to several places at once. One of them that does not answer
// must leave the caller enough time for the answers of the others.
func placeTimeout(ctx context.Context, places int) (context.Context, context.CancelFunc) {
	if places < 2 {
		return context.WithCancel(ctx)
	}
	limit := placeLimit
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)*3/4)
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: no answer within %v", atoll.ErrUnavailable, limit))
}

// List returns the sandboxes of all targets, oldest first. If some targets do not answer, it returns
// those of the others and a *atoll.PartialListError.
func (d *Driver) List(ctx context.Context) ([]atoll.Status, error) {
	places, err := d.searchTargets()
	if err != nil {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	ctx, cancel := placeTimeout(ctx, len(places))
	defer cancel()
	lists, errs := make([][]atoll.Status, len(places)), make([]error, len(places))
	var wg sync.WaitGroup
	for i, s := range places {
		wg.Go(func() {
			found, err := d.findSandboxes(ctx, s, labelHome+"="+s.t.home)
			if err != nil {
				errs[i] = fmt.Errorf("%v: %w", s.t.place, err)
				return
			}
			for _, one := range found {
				lists[i] = append(lists[i], one.pod.statusFrom(one.podState))
			}
		})
	}
	wg.Wait()
	list := slices.Concat([]atoll.Status{}, slices.Concat(lists...))
	slices.SortFunc(list, func(a, b atoll.Status) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	if err := errors.Join(errs...); err != nil {
		partial := &atoll.PartialListError{Err: err, IsMissing: func(o atoll.Owner) bool { return d.isMissing(places, errs, o) }}
		return list, &atoll.Error{Op: "list", Err: partial}
	}
	return list, nil
}

// isMissing reports whether the place of an owner's sandboxes is among those that have not answered.
func (d *Driver) isMissing(places []search, errs []error, o atoll.Owner) bool {
	t, err := d.targetOf(o)
	if err != nil {
		return true
	}
	for i, s := range places {
		if s.t == t || s.all && s.t.context == t.context {
			return errs[i] != nil
		}
	}
	return true
}

// search is a place in which sandboxes are searched.
type search struct {
	t   *target
	all bool // search every namespace of the cluster: those of apps are not known beforehand
}

// searchTargets returns the places in which sandboxes can be.
func (d *Driver) searchTargets() ([]search, error) {
	targets, err := d.allTargets()
	if err != nil {
		return nil, err
	}
	var list []search
	for _, t := range targets {
		all := d.NamespacePerApp && t.context == d.Context
		if !all || t == targets[0] {
			list = append(list, search{t, all})
		}
	}
	return list, nil
}

// foundSandbox is a sandbox of a list.
type foundSandbox struct {
	pod      *pod
	podState podState
	object   *metav1.ObjectMeta // of the pod or, if it is stopped, of the volume; nil: of a claim
	volume   *metav1.ObjectMeta // nil: there is none
}

// repairVolume stores in the volume what the pod says: a process that was killed while it changed both
// may have changed only the pod, and a start reads the volume.
func (f *foundSandbox) repairVolume(ctx context.Context) error {
	if f.volume == nil || f.volume == f.object {
		return nil
	}
	labels, notes := make(map[string]any), make(map[string]any)
	copyChanges(labels, f.object.Labels, f.volume.Labels, labelOwner, labelPool)
	copyChanges(notes, f.object.Annotations, f.volume.Annotations, noteName, noteLabels, noteClaim, noteSpec)
	if len(labels)+len(notes) == 0 {
		return nil
	}
	return ignoreDenied(f.pod.patchVolume(ctx, map[string]any{"labels": labels, "annotations": notes}))
}

// copyChanges adds to a merge patch the keys that differ.
func copyChanges(patch map[string]any, now, was map[string]string, keys ...string) {
	for _, k := range keys {
		v, ok := now[k]
		switch old, had := was[k]; {
		case ok && v != old:
			patch[k] = v
		case !ok && had:
			patch[k] = nil // removes it
		}
	}
}

// findSandboxes returns the sandboxes whose objects have some labels, by their ids.
func (d *Driver) findSandboxes(ctx context.Context, s search, selector string) (map[string]foundSandbox, error) {
	all := make(map[string]foundSandbox)
	at := func(namespace string) *target {
		if !s.all || namespace == s.t.namespace {
			return s.t
		}
		t, err := d.targetAt(place{s.t.context, namespace}, d.Quota)
		if err != nil {
			return s.t // cannot happen: the target of the search has the same context
		}
		return t
	}
	add := func(meta *metav1.ObjectMeta, f podState) {
		p, err := readPod(d, at(meta.Namespace), meta)
		if err != nil {
			return // not one of this fleet
		}
		p.uid, p.known = meta.UID, f.state
		all[p.id] = foundSandbox{pod: p, podState: f, object: meta, volume: all[p.id].volume}
	}
	addClaim := func(c *agentClaim) {
		p, err := readClaim(d, at(c.Namespace), c)
		if err != nil {
			return // not one of this fleet
		}
		f := podStateOfClaim(c)
		p.known = f.state
		all[p.id] = foundSandbox{pod: p, podState: f}
	}
	namespace := s.t.namespace
	if s.all {
		namespace = metav1.NamespaceAll
	}
	volumes, err := listAll(ctx, s.t, selector, func(ctx context.Context, o metav1.ListOptions) ([]corev1.PersistentVolumeClaim, string, error) {
		l, err := s.t.core.PersistentVolumeClaims(namespace).List(ctx, o)
		return l.Items, l.Continue, err
	})
	if err != nil && !(errors.Is(err, atoll.ErrDenied) && !outlivesPod(d.storageOf(&atoll.Spec{}))) { // a driver without volumes need not see them
		return nil, err
	}
	for i := range volumes {
		if v := &volumes[i]; v.DeletionTimestamp == nil {
			add(&v.ObjectMeta, stoppedPodState(v))
			if one, ok := all[v.Labels[labelID]]; ok {
				one.volume = &v.ObjectMeta
				all[one.pod.id] = one
			}
		}
	}
	pods, err := listAll(ctx, s.t, selector, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Pod, string, error) {
		l, err := s.t.core.Pods(namespace).List(ctx, o)
		return l.Items, l.Continue, err
	})
	if err != nil {
		return nil, err
	}
	for i := range pods {
		_, kept := all[pods[i].Labels[labelID]]
		if pods[i].DeletionTimestamp == nil || kept { // otherwise it is being destroyed
			add(&pods[i].ObjectMeta, podStateOf(&pods[i]))
		}
	}
	claims, err := s.t.listClaims(ctx, namespace, selector)
	for i := range claims {
		if c := &claims[i]; c.DeletionTimestamp == nil {
			addClaim(c)
		}
	}
	return all, err
}

// page is the number of objects in one response.
const page = 500

// listAll returns all objects that have some labels.
func listAll[T any](ctx context.Context, t *target, selector string, next func(ctx context.Context, o metav1.ListOptions) ([]T, string, error)) ([]T, error) {
	var all []T
	o := metav1.ListOptions{LabelSelector: selector, Limit: page}
	for {
		err := t.callAPI(ctx, func(ctx context.Context) error {
			items, more, err := next(ctx, o)
			if err == nil {
				all, o.Continue = append(all, items...), more
			}
			return err
		})
		if err != nil || o.Continue == "" {
			return all, err
		}
	}
}
