package kubernetes

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
)

// home returns what tells this fleet's sandboxes from those of others in the same
// cluster.
func (d *Driver) home() (string, error) {
	if d.Home != "" {
		return d.Home, atoll.CheckName(d.Home)
	}
	key, err := d.key()
	if err != nil {
		return "", err
	}
	public := key.Public().(ed25519.PublicKey) //nolint:forcetypeassert // it is its
	return hash(hex.EncodeToString(public)), nil
}

// Open finds a sandbox by its pod, or by its volume where it is stopped.
func (d *Driver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	p, err := d.open(ctx, id)
	if err != nil {
		return nil, &atoll.Error{Op: "open", ID: id, Err: err}
	}
	return p.handle(), nil
}

func (d *Driver) open(ctx context.Context, id string) (*pod, error) {
	if atoll.CheckID(id) != nil {
		return nil, atoll.ErrNotFound
	}
	places, err := d.searched()
	if err != nil {
		return nil, err
	}
	for _, s := range places {
		found, err := d.find(ctx, s, labelID+"="+id+","+labelHome+"="+s.t.home)
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			return one.pod, one.pod.recall(ctx)
		}
	}
	return nil, atoll.ErrNotFound
}

// List lists the sandboxes of all targets.
func (d *Driver) List(ctx context.Context) ([]atoll.Status, error) {
	places, err := d.searched()
	if err != nil {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	list := []atoll.Status{}
	for _, s := range places {
		found, err := d.find(ctx, s, labelHome+"="+s.t.home)
		if err != nil {
			return nil, &atoll.Error{Op: "list", Err: fmt.Errorf("%v: %w", s.t.place, err)}
		}
		for _, one := range found {
			list = append(list, one.pod.status(one.fact))
		}
	}
	slices.SortFunc(list, func(a, b atoll.Status) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// search is where sandboxes are looked for.
type search struct {
	t   *target
	all bool // in every namespace of the cluster: those of apps are not known beforehand
}

// searched returns where sandboxes can be.
func (d *Driver) searched() ([]search, error) {
	targets, err := d.allTargets()
	if err != nil {
		return nil, err
	}
	var list []search
	for _, t := range targets {
		all := d.Apart && t.context == d.Context
		if !all || t == targets[0] {
			list = append(list, search{t, all})
		}
	}
	return list, nil
}

// found is a sandbox that a list has shown.
type found struct {
	pod  *pod
	fact fact
}

// find returns the sandboxes whose objects have the labels, by their ids.
func (d *Driver) find(ctx context.Context, s search, selector string) (map[string]found, error) {
	all := make(map[string]found)
	at := func(namespace string) *target {
		if !s.all || namespace == s.t.namespace {
			return s.t
		}
		t, err := d.targetAt(place{s.t.context, namespace}, d.Quota)
		if err != nil {
			return s.t // as that of the search worked, so does this
		}
		return t
	}
	add := func(meta *metav1.ObjectMeta, f fact) {
		p, err := readPod(d, at(meta.Namespace), meta)
		if err != nil {
			return // not of ours
		}
		p.uid, p.known = meta.UID, f.state
		all[p.id] = found{p, f}
	}
	addClaim := func(c *borrowing) {
		p, err := readClaim(d, at(c.Namespace), c)
		if err != nil {
			return // not of ours
		}
		f := factOfClaim(c)
		p.known = f.state
		all[p.id] = found{p, f}
	}
	namespace := s.t.namespace
	if s.all {
		namespace = metav1.NamespaceAll
	}
	volumes, err := list(ctx, s.t, selector, func(ctx context.Context, o metav1.ListOptions) ([]corev1.PersistentVolumeClaim, string, error) {
		l, err := s.t.core.PersistentVolumeClaims(namespace).List(ctx, o)
		return l.Items, l.Continue, err
	})
	if err != nil && !(errors.Is(err, atoll.ErrDenied) && !lasting(d.storageOf(&atoll.Spec{}))) { // who has no volumes need not see them
		return nil, err
	}
	for i := range volumes {
		if v := &volumes[i]; v.DeletionTimestamp == nil {
			add(&v.ObjectMeta, stopped(v))
		}
	}
	pods, err := list(ctx, s.t, selector, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Pod, string, error) {
		l, err := s.t.core.Pods(namespace).List(ctx, o)
		return l.Items, l.Continue, err
	})
	if err != nil {
		return nil, err
	}
	for i := range pods {
		_, kept := all[pods[i].Labels[labelID]]
		if pods[i].DeletionTimestamp == nil || kept { // else it is as good as gone
			add(&pods[i].ObjectMeta, factOf(&pods[i]))
		}
	}
	claims, err := s.t.claims(ctx, namespace, selector)
	for i := range claims {
		if c := &claims[i]; c.DeletionTimestamp == nil {
			addClaim(c)
		}
	}
	return all, err
}

// page is how many objects one answer has.
const page = 500

// list returns all objects that have the labels.
func list[T any](ctx context.Context, t *target, selector string, next func(ctx context.Context, o metav1.ListOptions) ([]T, string, error)) ([]T, error) {
	var all []T
	o := metav1.ListOptions{LabelSelector: selector, Limit: page}
	for {
		err := t.ask(ctx, func(ctx context.Context) error {
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
