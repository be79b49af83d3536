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
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// watchObject calls f with each version of a claim or Sandbox, and with nil when it was removed, until
// f returns true or an error.
func (t *target) watchObject(ctx context.Context, at, name string, f func(*agentClaim) (bool, error)) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		now := &agentClaim{}
		err := t.callJSON(ctx, http.MethodGet, at+"/"+name, nil, now)
		if errors.Is(err, atoll.ErrNotFound) {
			now, err = nil, nil
		}
		if err != nil {
			return err
		}
		if done, err := f(now); done || err != nil || now == nil {
			return err
		}
		if done, err := t.watchOnce(ctx, at, name, now.ResourceVersion, f); done || err != nil {
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

// watchOnce calls f for the events of one watch. The end of a watch is not an error: the caller reads
// the object again.
func (t *target) watchOnce(ctx context.Context, at, name, version string, f func(*agentClaim) (bool, error)) (bool, error) {
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
		var now *agentClaim
		switch event.Type {
		case "ADDED", "MODIFIED":
			now = &agentClaim{}
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

// readAgentState is readState for a pod of agent-sandbox.
func (p *pod) readAgentState(ctx context.Context) (podState, error) {
	claim := &agentClaim{}
	if err := p.t.callJSON(ctx, http.MethodGet, p.t.claimPath(podName(p.id)), nil, claim); err != nil {
		return podState{}, err
	}
	p.setPodName(claim.Status.Sandbox.Name)
	f := podStateOfClaim(claim)
	if p.incomplete && f.state == atoll.Running {
		return podState{state: atoll.Failed, reason: "incomplete", message: incompleteText, since: f.since}, nil
	}
	switch {
	case f.state == atoll.Running:
		found, err := p.get(ctx)
		if errors.Is(err, atoll.ErrNotFound) { // the claim is older than its Sandbox
			return p.readSandboxState(ctx)
		}
		if err != nil {
			return podState{}, err
		}
		if f = podStateOf(found); f.state == atoll.Running {
			p.setKnown(f.state, found.UID)
		}
	case f.state == atoll.Starting && claim.Status.Sandbox.Name != "":
		found, err := p.get(ctx)
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			return podState{}, err
		}
		if err == nil && p.runsUnready(found) {
			return podStateOf(found), nil
		}
	case f.state == atoll.Stopped:
		p.setKnown(f.state, "")
	}
	return f, nil
}

// readSandboxState reads the state from the Sandbox of the claim.
func (p *pod) readSandboxState(ctx context.Context) (podState, error) {
	sandbox := &agentClaim{}
	if err := p.t.callJSON(ctx, http.MethodGet, p.t.sandboxPath(p.podName()), nil, sandbox); err != nil {
		return podState{}, err
	}
	f := podStateOfClaim(sandbox)
	switch f.state {
	case atoll.Running: // its pod is gone, as the caller has seen
		f.state, f.ready, f.reason, f.message = atoll.Starting, false, string(atoll.Starting), "its pod is being replaced"
	case atoll.Stopped:
		p.setKnown(f.state, "")
	}
	return f, nil
}

// runsUnready reports whether a pod runs although its claim is not ready: its node does not answer, or answers
// again and the claim is not up to date.
func (p *pod) runsUnready(found *corev1.Pod) bool {
	f := podStateOf(found)
	return f.state == atoll.Running && (!f.ready || p.hasAnswered(found.UID))
}

// podStateOfClaim returns the state of a claim.
func podStateOfClaim(claim *agentClaim) podState {
	c := claim.findCondition("Ready")
	f := podState{state: atoll.Starting, reason: string(atoll.Starting), message: oneLine(c.Reason + ": " + c.Message), since: claim.CreationTimestamp.Time}
	if !c.LastTransitionTime.IsZero() {
		f.since = c.LastTransitionTime.Time
	}
	switch {
	case claim.DeletionTimestamp != nil:
		f.state, f.message = atoll.Stopping, "its claim is being removed"
	case c.Status == metav1.ConditionTrue:
		f.state, f.ready, f.message = atoll.Running, true, ""
	case c.Reason == "SandboxSuspended" || claim.findCondition("Suspended").Status == metav1.ConditionTrue:
		f.state, f.message = atoll.Stopped, "start it first"
	case hopelessClaims[c.Reason] != nil:
		f.state, f.reason = atoll.Failed, "ended"
		return f
	}
	f.reason = string(f.state)
	return f
}

// setMode makes agent-sandbox suspend or resume a Sandbox.
func (p *pod) setMode(ctx context.Context, mode string) error {
	err := p.t.callJSON(ctx, http.MethodPatch, p.t.sandboxPath(p.podName()), map[string]any{"spec": map[string]any{"operatingMode": mode}}, nil)
	if err != nil {
		return fmt.Errorf("Sandbox %s: %w", p.podName(), err)
	}
	return nil
}

// suspendPod ends the pod; its volumes remain.
func (p *pod) suspendPod(ctx context.Context) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	if err := p.setMode(ctx, suspendedMode); err != nil {
		return err
	}
	err := p.t.watchObject(ctx, p.t.sandboxPath(""), p.podName(), func(now *agentClaim) (bool, error) {
		if now == nil {
			return false, fmt.Errorf("%w: its Sandbox was removed", atoll.ErrNotFound)
		}
		return now.findCondition("Ready").Status != metav1.ConditionTrue && now.findCondition("Suspended").Status == metav1.ConditionTrue, nil
	})
	if err == nil {
		err = p.waitForClaimedPodGone(ctx)
	}
	if err != nil {
		return err
	}
	p.setKnown(atoll.Stopped, "")
	p.closeConnections()
	return nil
}

// resumePod makes agent-sandbox create the pod again.
func (p *pod) resumePod(ctx context.Context) error {
	ctx, cancel := guest.WithCreateTimeout(ctx, p.spec.Timeouts.Create)
	defer cancel()
	p.changing.Lock()
	defer p.changing.Unlock()
	p.closeConnections()
	if err := p.setMode(ctx, runningMode); err != nil {
		return err
	}
	err := p.t.watchObject(ctx, p.t.sandboxPath(""), p.podName(), func(now *agentClaim) (bool, error) {
		if now == nil {
			return false, fmt.Errorf("%w: its Sandbox was removed", atoll.ErrNotFound)
		}
		c := now.findCondition("Ready")
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
	p.setKnown(atoll.Starting, found.UID)
	return p.bootPod(ctx, found)
}

// listClaims returns the claims with some labels in a namespace, or in all. There are none if
// agent-sandbox is not installed, or if listing its claims is not allowed.
func (t *target) listClaims(ctx context.Context, namespace, selector string) ([]agentClaim, error) {
	if ok, err := t.hasAgentSandbox(ctx); !ok {
		return nil, ignoreDenied(err)
	}
	var all []agentClaim
	for more := ""; ; {
		var page1 struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []agentClaim    `json:"items"`
		}
		err := t.callAPI(ctx, func(ctx context.Context) error {
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
func readClaim(d *Driver, t *target, claim *agentClaim) (*pod, error) {
	p, err := readPod(d, t, &claim.ObjectMeta)
	if err != nil {
		return nil, err
	}
	p.agent = &agentPod{name: claim.Status.Sandbox.Name, container: claim.Annotations[noteContainer]}
	return p, nil
}

// loadEnv reads the environment of a sandbox whose pod does not have it. Without its Secret, a sandbox can
// only be removed.
func (p *pod) loadEnv(ctx context.Context) error {
	if p.agent == nil || !p.secret {
		return nil
	}
	var found *corev1.Secret
	err := p.t.callAPI(ctx, func(ctx context.Context) (err error) {
		found, err = p.t.core.Secrets(p.t.namespace).Get(ctx, podName(p.id), metav1.GetOptions{})
		return err
	})
	if errors.Is(err, atoll.ErrNotFound) {
		p.incomplete = true
		return nil
	}
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
