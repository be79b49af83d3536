package kubernetes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/kubeapi"
)

// pods is what is known of the pods of a target's sandboxes: one watch for all
// of them, begun when somebody waits and ended when nobody has for a while.
type pods struct {
	core      kubeapi.Core
	namespace string
	selector  string

	mu      sync.Mutex
	known   map[string]*corev1.Pod // guarded by mu, as all below; by name, since synced
	waiting map[*waiter]bool
	end     context.CancelFunc // of the watch; nil: there is none
	idle    *time.Timer        // ends the watch
}

// waiter is somebody who waits for one pod.
type waiter struct {
	name    string
	uid     types.UID
	changed chan struct{} // of one: there is news

	// guarded by pods.mu
	news  *corev1.Pod // the newest version
	gone  bool
	doubt bool  // it may be gone: the API is to be asked
	fault error // why there is no watch
}

const (
	// lull is how long the watch goes on when nobody waits.
	lull = 30 * time.Second
	// checkTime is how long a waiter hears nothing before it asks the API itself:
	// no event is believed to be the only way to know.
	checkTime = 10 * time.Second
	// watchTime is how long one watch lasts; then another follows.
	watchTime = 5 * time.Minute
)

// await waits until a pod is as f says, which is called with each version of it,
// beginning with first, and with nil when it is not there any more. Its error is
// await's.
func (p *pods) await(ctx context.Context, first *corev1.Pod, f func(*corev1.Pod) (bool, error)) (*corev1.Pod, error) {
	if done, err := f(first); done || err != nil {
		return first, err
	}
	w := p.enter(first)
	defer p.leave(w)
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
		now, err := p.take(ctx, w, doubt)
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

// take returns what a waiter has to look at: nil when the pod is gone.
func (p *pods) take(ctx context.Context, w *waiter, doubt bool) (*corev1.Pod, error) {
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
	found, err := p.core.Pods(p.namespace).Get(quiet(ctx), w.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && found.UID != w.uid:
		return nil, nil
	case err == nil:
		return found, nil
	case transient(err): // the next time
		return now, nil
	}
	return nil, explain(err)
}

// newest returns a pod as the watch last saw it; nil if there is none.
func (p *pods) newest(name string) *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[name]
}

// enter begins to wait.
func (p *pods) enter(first *corev1.Pod) *waiter {
	w := &waiter{name: first.Name, uid: first.UID, changed: make(chan struct{}, 1), news: first}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = make(map[*waiter]bool)
	}
	p.waiting[w] = true
	if p.idle != nil {
		p.idle.Stop()
		p.idle = nil
	}
	if p.end == nil {
		ctx, end := context.WithCancel(quiet(context.Background()))
		p.end = end
		go p.run(ctx)
	} else if pod := p.known[w.name]; pod != nil {
		w.tell(pod)
	}
	return w
}

// leave ends waiting.
func (p *pods) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, w)
	if len(p.waiting) == 0 && p.end != nil && p.idle == nil {
		p.idle = time.AfterFunc(lull, p.rest)
	}
}

// rest ends the watch, if nobody waits.
func (p *pods) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 && p.end != nil {
		p.end()
		p.end, p.known, p.idle = nil, nil, nil
	}
}

// tell gives a waiter what is there under its pod's name.
func (w *waiter) tell(pod *corev1.Pod) {
	if pod.UID == w.uid {
		w.news = pod
	} else if !pod.CreationTimestamp.Before(&w.news.CreationTimestamp) {
		w.gone = true
	}
	w.wake()
}

func (w *waiter) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// run lists and watches until ctx is done, or the API will never let it.
func (p *pods) run(ctx context.Context) {
	version := ""
	listed := false
	for pause := 20 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 2*time.Second) {
		begin := time.Now()
		err := p.follow(ctx, &version)
		listed = listed || version != ""
		if ctx.Err() != nil {
			return
		}
		// An API server that has just begun knows no rights yet: what was allowed
		// before will be again.
		if !listed && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) {
			p.giveUp(ctx, fmt.Errorf("watching pods of namespace %s: %w", p.namespace, explain(err)))
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

// giveUp tells all who wait that there is no watch.
func (p *pods) giveUp(ctx context.Context, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return // another watch took its place
	}
	for w := range p.waiting {
		w.fault = err
		w.wake()
	}
	p.end()
	p.end, p.known = nil, nil
}

// follow lists the pods if no version of the list is known, and watches until the
// watch ends.
func (p *pods) follow(ctx context.Context, version *string) error {
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
			*version = "" // whatever it is, a list tells the truth
			return apierrors.FromObject(event.Object)
		}
		if pod, ok := event.Object.(*corev1.Pod); ok {
			*version = pod.ResourceVersion
			p.see(ctx, event.Type, pod)
		}
	}
	return nil
}

// list replaces what is known and returns its version.
func (p *pods) list(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, fmt.Errorf("%w: no list of pods within %v", atoll.ErrUnavailable, askTime))
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
	p.known = make(map[string]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pod := &list.Items[i]
		pod.ManagedFields = nil
		p.known[pod.Name] = pod
	}
	for w := range p.waiting {
		if pod := p.known[w.name]; pod != nil {
			w.tell(pod)
		} else { // it may be newer than the list
			w.doubt = true
			w.wake()
		}
	}
	return list.ResourceVersion, nil
}

// see takes note of an event.
func (p *pods) see(ctx context.Context, what watch.EventType, pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil || what == watch.Bookmark {
		return
	}
	pod.ManagedFields = nil
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
			w.tell(pod)
		case w.uid == pod.UID:
			w.gone = true
			w.wake()
		}
	}
}
