package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-sandbox/atoll"
)

// follow calls f with each version of a claim or Sandbox that a watch shows, with
// nil when it is not there any more, until f says that it is enough.
func (t *target) follow(ctx context.Context, at, name string, f func(*borrowing) (bool, error)) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		now := &borrowing{}
		err := t.speak(ctx, http.MethodGet, at+"/"+name, nil, now)
		if errors.Is(err, atoll.ErrNotFound) {
			now, err = nil, nil
		}
		if err != nil {
			return err
		}
		if done, err := f(now); done || err != nil || now == nil {
			return err
		}
		if done, err := t.watchOne(ctx, at, name, now.ResourceVersion, f); done || err != nil {
			return err
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		}
	}
}

// watchOne does that for one watch. That a watch ends, or can't be had, is no
// error: what is there is asked for again.
func (t *target) watchOne(ctx context.Context, at, name, version string, f func(*borrowing) (bool, error)) (bool, error) {
	body, err := t.core.RESTClient().Get().AbsPath(at).SetHeader("Accept", "application/json").
		Param("watch", "true").Param("fieldSelector", "metadata.name="+name).Param("resourceVersion", version).Param("timeoutSeconds", "60").Stream(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // see above
	}
	defer func() { _ = body.Close() }() // it was only read
	for in := json.NewDecoder(body); ; {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := in.Decode(&event); err != nil {
			return false, context.Cause(ctx)
		}
		var now *borrowing
		switch event.Type {
		case "ADDED", "MODIFIED":
			now = &borrowing{}
			if err := json.Unmarshal(event.Object, now); err != nil {
				return false, err
			}
		case "DELETED":
		default:
			return false, nil
		}
		if done, err := f(now); done || err != nil {
			return done, err
		}
	}
}

// lookBorrowed is look for a pod of agent-sandbox.
func (p *pod) lookBorrowed(ctx context.Context) (fact, error) {
	claim := &borrowing{}
	if err := p.t.speak(ctx, http.MethodGet, p.t.claimPath(podName(p.id)), nil, claim); err != nil {
		return fact{}, err
	}
	p.rename(claim.Status.Sandbox.Name)
	f := factOfClaim(claim)
	if f.state == atoll.Running {
		found, err := p.get(ctx)
		if err != nil {
			return fact{}, err
		}
		if f = factOf(found); f.state == atoll.Running {
			p.learn(f.state, found.UID)
		}
	}
	if f.state == atoll.Stopped {
		p.learn(f.state, "")
	}
	return f, nil
}

// factOfClaim reads what agent-sandbox says of a claim.
func factOfClaim(claim *borrowing) fact {
	c := claim.condition("Ready")
	f := fact{state: atoll.Starting, reason: string(atoll.Starting), message: oneLine(c.Reason + ": " + c.Message), since: claim.CreationTimestamp.Time}
	if !c.LastTransitionTime.IsZero() {
		f.since = c.LastTransitionTime.Time
	}
	switch {
	case claim.DeletionTimestamp != nil:
		f.state, f.message = atoll.Stopping, "its claim is being removed"
	case c.Status == metav1.ConditionTrue:
		f.state, f.ready, f.message = atoll.Running, true, ""
	case c.Reason == "SandboxSuspended":
		f.state, f.message = atoll.Stopped, "start it first"
	case hopelessClaims[c.Reason] != nil:
		f.state, f.reason = atoll.Failed, "ended"
		return f
	}
	f.reason = string(f.state)
	return f
}

// setMode tells agent-sandbox to suspend or to resume a Sandbox.
func (p *pod) setMode(ctx context.Context, mode string) error {
	err := p.t.speak(ctx, http.MethodPatch, p.t.sandboxPath(p.podName()), map[string]any{"spec": map[string]any{"operatingMode": mode}}, nil)
	if err != nil {
		return fmt.Errorf("Sandbox %s: %w", p.podName(), err)
	}
	return nil
}

// suspend ends the pod; what is in its volumes stays.
func (p *pod) suspend(ctx context.Context) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.setMode(ctx, suspendedMode); err != nil {
		return err
	}
	err := p.t.follow(ctx, p.t.sandboxPath(""), p.podName(), func(now *borrowing) (bool, error) {
		if now == nil {
			return false, fmt.Errorf("%w: its Sandbox is gone", atoll.ErrNotFound)
		}
		return now.condition("Ready").Reason == "SandboxSuspended" && now.condition("Suspended").Status == metav1.ConditionTrue, nil
	})
	if err == nil {
		err = p.awaitReturned(ctx)
	}
	if err != nil {
		return err
	}
	p.learn(atoll.Stopped, "")
	p.disconnect()
	return nil
}

// resume makes agent-sandbox make the pod anew.
func (p *pod) resume(ctx context.Context) error {
	ctx, cancel := limited(ctx, &p.spec)
	defer cancel()
	p.turn.Lock()
	defer p.turn.Unlock()
	p.disconnect()
	if err := p.setMode(ctx, runningMode); err != nil {
		return err
	}
	err := p.t.follow(ctx, p.t.sandboxPath(""), p.podName(), func(now *borrowing) (bool, error) {
		if now == nil {
			return false, fmt.Errorf("%w: its Sandbox is gone", atoll.ErrNotFound)
		}
		c := now.condition("Ready")
		if why := hopelessClaims[c.Reason]; why != nil {
			return false, fmt.Errorf("%w: %s: %s", why, c.Reason, oneLine(c.Message))
		}
		return c.Status == metav1.ConditionTrue, nil
	})
	if err != nil {
		return err
	}
	found, err := p.get(ctx)
	if err != nil {
		return err
	}
	p.learn(atoll.Starting, found.UID)
	return p.boot(ctx, found)
}

// claims returns the claims of a namespace, or of all, whose labels are these.
// Where agent-sandbox is not installed, or its claims are not to be seen, there
// are none.
func (t *target) claims(ctx context.Context, namespace, selector string) ([]borrowing, error) {
	if ok, err := t.hasAgents(ctx); !ok {
		return nil, ignoreDenied(err)
	}
	var all []borrowing
	for more := ""; ; {
		var page1 struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []borrowing     `json:"items"`
		}
		err := t.ask(ctx, func(ctx context.Context) error {
			at := t.agentPath(claimGroup, "sandboxclaims", namespace, "")
			if namespace == metav1.NamespaceAll {
				at = "/apis/" + claimGroup + "/" + agentVersion + "/sandboxclaims"
			}
			r := t.core.RESTClient().Get().AbsPath(at).SetHeader("Accept", "application/json").
				Param("labelSelector", selector).Param("limit", fmt.Sprint(page)).Param("continue", more).Do(ctx)
			if err := r.Error(); err != nil {
				return err
			}
			b, err := r.Raw()
			if err != nil {
				return err
			}
			return json.Unmarshal(b, &page1)
		})
		if err != nil {
			return nil, ignoreDenied(err)
		}
		all, more = append(all, page1.Items...), page1.Metadata.Continue
		if more == "" {
			return all, nil
		}
	}
}

func ignoreDenied(err error) error {
	if errors.Is(err, atoll.ErrDenied) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// readClaim reads a sandbox from a claim.
func readClaim(d *Driver, t *target, claim *borrowing) (*pod, error) {
	p, err := readPod(d, t, &claim.ObjectMeta)
	if err != nil {
		return nil, err
	}
	p.borrowed = &borrowed{name: claim.Status.Sandbox.Name, container: claim.Annotations[noteContainer]}
	return p, nil
}

// recall reads the environment of a sandbox whose pod does not know it.
func (p *pod) recall(ctx context.Context) error {
	if p.borrowed == nil || !p.secret {
		return nil
	}
	var found *corev1.Secret
	err := p.t.ask(ctx, func(ctx context.Context) (err error) {
		found, err = p.t.core.Secrets(p.t.namespace).Get(ctx, podName(p.id), metav1.GetOptions{})
		return err
	})
	var names []string
	if err == nil {
		err = json.Unmarshal(found.Data[namesKey], &names)
	}
	if err != nil {
		return fmt.Errorf("%w: the environment of the sandbox: %w", atoll.ErrUnavailable, err)
	}
	for i, name := range names {
		p.env = append(p.env, name+"="+string(found.Data[fmt.Sprint(i)]))
	}
	return nil
}
