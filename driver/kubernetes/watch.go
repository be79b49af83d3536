package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes/kubeapi"
)

// podWatch watches the pods of a target's sandboxes: one watch for all of them, which starts with the first
// waiter and ends when there was none for a while.
type podWatch struct {
	core      kubeapi.Core
	namespace string
	selector  string

	mu       sync.Mutex
	known    map[string]*corev1.Pod // guarded by mu, as all below; by name; nil until listed
	waiting  map[*waiter]bool
	followed map[*follower]bool
	end      context.CancelFunc // of the watch; nil: there is none
	idle     *time.Timer        // ends the watch
}

// isEnding reports whether a pod has ended or is being removed.
func isEnding(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil || hasEnded(pod) }

// waiter waits for one pod.
type waiter struct {
	name    string
	uid     types.UID
	changed chan struct{} // with a buffer of one: something changed

	// guarded by podWatch.mu
	news  *corev1.Pod // the newest version
	gone  bool
	doubt bool  // it may have been removed: the API has to be asked
	fault error // why there is no watch
}

const (
	// idleTime is how long the watch continues without waiters.
	idleTime = 30 * time.Second
	// checkTime is how long a waiter gets no event before it asks the API itself: events may be lost.
	checkTime = 10 * time.Second
	// watchTime is how long one watch lasts; then another follows.
	watchTime = 5 * time.Minute
)

// follower collects the ids of sandboxes whose pods have ended or were removed.
type follower struct {
	changed chan struct{} // with a buffer of one: something changed

	// guarded by podWatch.mu
	ids   map[string]bool
	fault error // why there is no watch
}

// addFollower adds a follower, and starts the watch if there is none.
func (p *podWatch) addFollower() *follower {
	f := &follower{changed: make(chan struct{}, 1), ids: make(map[string]bool)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.followed == nil {
		p.followed = make(map[*follower]bool)
	}
	p.followed[f] = true
	p.startWatch()
	return f
}

// removeFollower removes a follower.
func (p *podWatch) removeFollower(f *follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.followed, f)
	p.stopLater()
}

// takeChanges returns the ids that a follower has collected, or why there is no watch.
func (p *podWatch) takeChanges(f *follower) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := slices.Sorted(maps.Keys(f.ids))
	clear(f.ids)
	return ids, f.fault
}

// notifyFollowers reports a pod that has ended or was removed. The caller holds mu.
func (p *podWatch) notifyFollowers(pod *corev1.Pod) {
	for f := range p.followed {
		f.ids[pod.Labels[labelID]] = true
		signalChange(f.changed)
	}
}

// signalChange makes a channel with a buffer of one readable.
func signalChange(changed chan struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// waitPod waits until f returns true or an error, which it returns. It calls f with each version of a pod,
// beginning with first, and with nil when the pod was removed.
func (p *podWatch) waitPod(ctx context.Context, first *corev1.Pod, f func(*corev1.Pod) (bool, error)) (*corev1.Pod, error) {
	if done, err := f(first); done || err != nil {
		return first, err
	}
	w := p.addWaiter(first)
	defer p.removeWaiter(w)
	check := time.NewTimer(checkTime)
	defer check.Stop()
	last := first
	for {
		doubt := false
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-check.C:
			doubt = true
		case <-w.changed:
		}
		now, err := p.nextVersion(ctx, w, doubt)
		if err != nil {
			return last, err
		}
		if now != nil {
			last = now
		}
		if done, err := f(now); done || err != nil {
			return now, err
		}
		check.Reset(checkTime)
	}
}

// nextVersion returns the newest version for a waiter; nil when the pod was removed.
func (p *podWatch) nextVersion(ctx context.Context, w *waiter, doubt bool) (*corev1.Pod, error) {
	p.mu.Lock()
	now, gone, fault := w.news, w.gone, w.fault
	doubt = doubt || w.doubt
	w.doubt = false
	p.mu.Unlock()
	if gone {
		return nil, nil
	}
	if fault != nil {
		return nil, fault
	}
	if !doubt {
		return now, nil
	}
	found, err := p.core.Pods(p.namespace).Get(withoutLogs(ctx), w.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && found.UID != w.uid:
		return nil, nil
	case err == nil:
		return found, nil
	case isTransient(err): // it is tried again later
		return now, nil
	}
	return nil, markError(err)
}

// newestVersion returns a pod as the watch last saw it; nil if there is none.
func (p *podWatch) newestVersion(name string) *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[name]
}

// addWaiter adds a waiter for a pod, and starts the watch if there is none.
func (p *podWatch) addWaiter(first *corev1.Pod) *waiter {
	w := &waiter{name: first.Name, uid: first.UID, changed: make(chan struct{}, 1), news: first}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = make(map[*waiter]bool)
	}
	p.waiting[w] = true
	if !p.startWatch() {
		if pod := p.known[w.name]; pod != nil {
			w.setNews(pod)
		}
	}
	return w
}

// startWatch starts the watch, and reports whether there was none. The caller holds mu.
func (p *podWatch) startWatch() bool {
	if p.idle != nil {
		p.idle.Stop()
		p.idle = nil
	}
	if p.end != nil {
		return false
	}
	ctx, end := context.WithCancel(withoutLogs(context.Background()))
	p.end = end
	go p.run(ctx)
	return true
}

// stopLater makes the watch end after a while if nothing needs it. The caller holds mu.
func (p *podWatch) stopLater() {
	if !p.isNeeded() && p.end != nil && p.idle == nil {
		p.idle = time.AfterFunc(idleTime, p.stopIdle)
	}
}

// isNeeded reports whether there are waiters or followers. The caller holds mu.
func (p *podWatch) isNeeded() bool { return len(p.waiting)+len(p.followed) > 0 }

// removeWaiter removes a waiter.
func (p *podWatch) removeWaiter(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, w)
	p.stopLater()
}

// stopIdle ends the watch if nothing needs it.
func (p *podWatch) stopIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isNeeded() && p.end != nil {
		p.end()
		p.end, p.known, p.idle = nil, nil, nil
	}
}

// setNews gives a waiter the pod that has the name it waits for.
func (w *waiter) setNews(pod *corev1.Pod) {
	if pod.UID == w.uid {
		w.news = pod
	} else if !pod.CreationTimestamp.Before(&w.news.CreationTimestamp) {
		w.gone = true
	}
	w.signal()
}

func (w *waiter) signal() { signalChange(w.changed) }

// run lists and watches until ctx is done, or the API denies it permanently.
func (p *podWatch) run(ctx context.Context) {
	version := ""
	listed := false
	for pause := 20 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 2*time.Second) {
		begin := time.Now()
		err := p.listAndWatch(ctx, &version)
		listed = listed || version != ""
		if ctx.Err() != nil {
			return
		}
		// An API server that has just started does not know permissions yet: what was allowed before
		// will be allowed again.
		if !listed && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) {
			p.failWaiters(ctx, fmt.Errorf("watching pods of namespace %s: %w", p.namespace, markError(err)))
			return
		}
		if time.Since(begin) > checkTime {
			pause = 20 * time.Millisecond
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
}

// failWaiters makes all waiters fail since there is no watch.
func (p *podWatch) failWaiters(ctx context.Context, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return // another watch has replaced it
	}
	for w := range p.waiting {
		w.fault = err
		w.signal()
	}
	for f := range p.followed {
		f.fault = err
		signalChange(f.changed)
	}
	p.end()
	p.end, p.known = nil, nil
}

// listAndWatch lists the pods if no version of the list is known, and watches until the watch ends.
func (p *podWatch) listAndWatch(ctx context.Context, version *string) error {
	if *version == "" {
		var err error
		if *version, err = p.list(ctx); err != nil {
			return err
		}
	}
	seconds := int64((watchTime + rand.N(watchTime)).Seconds())
	w, err := p.core.Pods(p.namespace).Watch(ctx, metav1.ListOptions{
		LabelSelector: p.selector, ResourceVersion: *version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err != nil {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			*version = ""
		}
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			*version = "" // a new list is needed
			return apierrors.FromObject(event.Object)
		}
		if pod, ok := event.Object.(*corev1.Pod); ok {
			*version = pod.ResourceVersion
			p.handleEvent(ctx, event.Type, pod)
		}
	}
	return nil
}

// list replaces the known pods and returns the version of the list.
func (p *podWatch) list(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, apiTimeout, fmt.Errorf("%w: no list of pods within %v", atoll.ErrUnavailable, apiTimeout))
	defer cancel()
	list, err := p.core.Pods(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: p.selector})
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	before := p.known
	p.known = make(map[string]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pod := &list.Items[i]
		pod.ManagedFields = nil
		p.known[pod.Name] = pod
		if isEnding(pod) {
			p.notifyFollowers(pod)
		}
	}
	for name, pod := range before { // removed while there was no watch
		if now := p.known[name]; now == nil || now.UID != pod.UID {
			p.notifyFollowers(pod)
		}
	}
	for w := range p.waiting {
		if pod := p.known[w.name]; pod != nil {
			w.setNews(pod)
		} else { // the pod may be newer than the list
			w.doubt = true
			w.signal()
		}
	}
	return list.ResourceVersion, nil
}

// handleEvent records an event and notifies the waiters.
func (p *podWatch) handleEvent(ctx context.Context, what watch.EventType, pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil || what == watch.Bookmark {
		return
	}
	pod.ManagedFields = nil
	if what == watch.Deleted || isEnding(pod) {
		p.notifyFollowers(pod)
	}
	if what == watch.Deleted {
		if now := p.known[pod.Name]; now != nil && now.UID == pod.UID {
			delete(p.known, pod.Name)
		}
	} else {
		p.known[pod.Name] = pod
	}
	for w := range p.waiting {
		switch {
		case w.name != pod.Name:
		case what != watch.Deleted:
			w.setNews(pod)
		case w.uid == pod.UID:
			w.gone = true
			w.signal()
		}
	}
}
