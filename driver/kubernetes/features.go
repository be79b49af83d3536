package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/atoll-sandbox/atoll"
)

// Probe reports what the cluster can do.
func (d *Driver) Probe(ctx context.Context) (atoll.Features, error) {
	f, err := d.probeFeatures(ctx)
	if err != nil {
		return atoll.Features{}, &atoll.Error{Op: "probe", Err: markUnavailable(err)}
	}
	return f, nil
}

// probeFeatures returns the features of the driver's own cluster or, while that does not answer, those of
// a cluster of an app: its sandboxes don't depend on the driver's own.
func (d *Driver) probeFeatures(ctx context.Context) (atoll.Features, error) {
	targets, err := d.allTargets()
	if err != nil {
		return atoll.Features{}, err
	}
	slices.SortStableFunc(targets[1:], func(a, b *target) int { return strings.Compare(a.context, b.context) })
	targets = slices.CompactFunc(targets, func(a, b *target) bool { return a.context == b.context }) // one of each cluster
	type answer struct {
		features atoll.Features
		err      error
	}
	ctx, cancel := placeTimeout(ctx, len(targets))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answers := make([]chan answer, len(targets))
	for i, t := range targets {
		answers[i] = make(chan answer, 1)
		wg.Go(func() {
			f, err := d.probeTarget(ctx, t)
			answers[i] <- answer{f, err}
		})
	}
	own := <-answers[0]
	if own.err == nil || errors.Is(own.err, atoll.ErrDenied) {
		return own.features, own.err
	}
	for _, other := range answers[1:] {
		if a := <-other; a.err == nil {
			a.features.Notes = append([]string{"the cluster of owners without one of their own does not answer"}, a.features.Notes...)
			return a.features, nil
		}
	}
	return own.features, own.err
}

// probeTarget returns the features of one cluster.
func (d *Driver) probeTarget(ctx context.Context, t *target) (atoll.Features, error) {
	v, err := t.serverVersion(ctx)
	if err != nil {
		return atoll.Features{}, fmt.Errorf("the cluster at %s: %w", t.config.Host, err)
	}
	pods := authorizationv1.ResourceAttributes{Namespace: t.namespace, Verb: "create", Resource: "pods"}
	if ok, why, err := t.isAllowed(ctx, pods); err != nil {
		return atoll.Features{}, fmt.Errorf("the cluster at %s: %w", t.config.Host, err)
	} else if !ok {
		return atoll.Features{}, fmt.Errorf("%w: no pods may be created in namespace %s of the cluster at %s: %s; `atoll doctor --driver kubernetes` says which rules are missing", atoll.ErrDenied, t.namespace, t.config.Host, why)
	}
	how, err := d.choosePlacement(ctx, t)
	if err != nil {
		return atoll.Features{}, err
	}
	f := d.featuresOf(how)
	if f.Runtimes, err = t.runtimeClasses(ctx); err != nil {
		return atoll.Features{}, err
	}
	f.Notes = append([]string{fmt.Sprintf("Kubernetes %s at %s, namespace %s, guest placed by %s", v.GitVersion, t.config.Host, t.namespace, how)}, f.Notes...)
	return f, nil
}

// serverVersion returns the version of the API server.
func (t *target) serverVersion(ctx context.Context) (version.Info, error) {
	var v version.Info
	err := t.callAPI(ctx, func(ctx context.Context) error {
		b, err := t.core.RESTClient().Get().AbsPath("/version").SetHeader("Accept", "application/json").Do(ctx).Raw()
		if err != nil {
			return err
		}
		return json.Unmarshal(b, &v)
	})
	return v, err
}

// isAllowed reports whether the API allows something.
func (t *target) isAllowed(ctx context.Context, what authorizationv1.ResourceAttributes) (ok bool, why string, err error) {
	var answer *authorizationv1.SelfSubjectAccessReview
	err = t.callAPI(ctx, func(ctx context.Context) (err error) {
		q := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
		answer, err = t.rights.SelfSubjectAccessReviews().Create(ctx, q, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return false, "", err
	}
	return answer.Status.Allowed, orDefault(answer.Status.Reason, "no rule allows it"), nil
}

// featuresOf returns the features of sandboxes with a placement of the guest. They don't depend on the
// cluster.
func (d *Driver) featuresOf(how Placement) atoll.Features {
	f := atoll.Features{
		Isolation: isolation, Programs: true, Persist: true, CPULimit: true, Images: true,
		Stop:     outlivesPod(d.storageOf(&atoll.Spec{})),
		Networks: []atoll.NetworkMode{atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkOpen},
		Lacks: map[string]string{
			"MountLimitIsQuota": "the cluster has no directories of this host",
			"StopKeepsRoot":     "only the volume outlives a pod: a stop keeps the working directory",
		},
		Notes: []string{
			"NetworkPolicies limit what a sandbox reaches, and the cluster's network plugin must enforce them: `atoll doctor --driver kubernetes` tests it",
			fmt.Sprintf("a pod that writes more than %d GiB outside of its volume is evicted by its node", DefaultDisk>>30),
			"where nodes have cgroup v2, a kubelet ends the whole pod when its memory is used up, unless it is set to end single processes (singleProcessOOMKill)",
		},
	}
	if d.storageOf(&atoll.Spec{}) != storageMemory {
		f.Lacks["FullDiskIsQuota"] = "a kubelet ends pods that pass their limit of disk; storage_class \"memory\" has a hard one"
	}
	if how == PlaceNone || !d.hasOwnUser(&atoll.Spec{}) {
		f.Lacks["ForkBombIsContained"] = "without a guest, and a user of the sandbox's own, the limit is that of the whole node, its kubelet's podPidsLimit"
	}
	if how == PlaceNone {
		plainFeatures(&f)
	} else {
		d.guestFeatures(&f, how)
	}
	f.Notes = slices.Clip(f.Notes)
	return f
}

// guestFeatures sets the features that every sandbox with a guest has.
func (d *Driver) guestFeatures(f *atoll.Features, _ Placement) {
	f.Files, f.Dial, f.Listen, f.TTY, f.Signals, f.Watch = true, true, true, true, true, true
	f.Stats, f.Notices, f.Terminal, f.Detach = true, true, true, true
	if f.Egress = d.canProxy(); f.Egress {
		f.Notes = append(f.Notes, proxyNote)
	}
}
