package kubernetes

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// followRetry is the time until a watch is tried again that is not allowed.
const followRetry = time.Minute

// WatchStates reports sandboxes whose pods have ended or were removed, by whatever, within moments.
// (Pods of kubernetes-sigs/agent-sandbox don't have this fleet's label, and are not watched.)
func (d *Driver) WatchStates(ctx context.Context, f func(id string)) error {
	places, err := d.searchTargets()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	ids := make(chan string)
	for _, s := range places {
		wg.Go(func() {
			for ctx.Err() == nil {
				if s.t.followPods(ctx, s.podWatch(), ids) == nil {
					return
				}
				again := time.NewTimer(followRetry)
				select {
				case <-again.C:
				case <-ctx.Done():
					again.Stop()
				}
			}
		})
	}
	go func() {
		wg.Wait()
		close(ids)
	}()
	for id := range ids {
		if ctx.Err() == nil {
			f(id)
		}
	}
	return nil
}

// podWatch returns the watch of the pods of a place.
func (s search) podWatch() *podWatch {
	if !s.all {
		return s.t.pods
	}
	return &podWatch{core: s.t.core, namespace: metav1.NamespaceAll, selector: s.t.pods.selector}
}

// followPods sends the ids of sandboxes whose pods have ended or were removed, until ctx is done. An error
// means that the API allows no watch.
func (t *target) followPods(ctx context.Context, pods *podWatch, ids chan<- string) error {
	f := pods.addFollower()
	defer pods.removeFollower(f)
	for {
		select {
		case <-f.changed:
		case <-ctx.Done():
			return nil
		}
		changed, err := pods.takeChanges(f)
		if err != nil {
			return err
		}
		for _, id := range changed {
			select {
			case ids <- id:
			case <-ctx.Done():
				return nil
			}
		}
	}
}
