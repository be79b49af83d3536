package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/internal/grace"
)

// The part of the API of kubernetes-sigs/agent-sandbox, v1beta1, that this package uses.
const (
	sandboxGroup = "agents.x-k8s.io"
	claimGroup   = "extensions.agents.x-k8s.io"
	agentVersion = "v1beta1"

	suspendedMode = "Suspended"
	runningMode   = "Running"
)

// The annotation of a claim, and of a template, besides those of every sandbox.
const noteContainer = "atoll.dev/container" // the container in which programs run; empty: the first

// warmPool is a SandboxWarmPool.
type warmPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas *int32  `json:"replicas,omitempty"`
		Template nameRef `json:"sandboxTemplateRef"`
	} `json:"spec"`
}

type nameRef struct {
	Name string `json:"name"`
}

// sandboxTemplate is a SandboxTemplate.
type sandboxTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              sandboxTemplateSpec `json:"spec"`
}

type sandboxTemplateSpec struct {
	Pod     podTemplate `json:"podTemplate"`
	Network string      `json:"networkPolicyManagement,omitempty"`
}

type podTemplate struct {
	Meta podMeta        `json:"metadata,omitzero"`
	Spec corev1.PodSpec `json:"spec"`
}

type podMeta struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// agentClaim is a SandboxClaim or, with the fields that both have, a Sandbox.
type agentClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              agentClaimSpec   `json:"spec"`
	Status            agentClaimStatus `json:"status,omitzero"`
}

type agentClaimSpec struct {
	Pool *nameRef `json:"warmPoolRef,omitempty"`
	Pod  *podMeta `json:"additionalPodMetadata,omitempty"`
	Mode string   `json:"operatingMode,omitempty"` // of a Sandbox
}

type agentClaimStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Sandbox    nameRef            `json:"sandbox,omitzero"`
}

// findCondition returns a condition of a claim or Sandbox; its status is unknown if there is none.
func (b *agentClaim) findCondition(kind string) metav1.Condition {
	for _, c := range b.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown}
}

// agentPod is the part of a sandbox that belongs to agent-sandbox, which owns its pod.
type agentPod struct {
	name      string // of the Sandbox and its pod; empty: none yet; guarded by pod.mu
	container string // in which programs run
}

// podName returns the name of the sandbox's pod.
func (p *pod) podName() string {
	if p.agent == nil {
		return podName(p.id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.agent.name
}

// setPodName records the Sandbox that a claim has got.
func (p *pod) setPodName(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.agent.name = name
}

// guestID returns the id that the guest knows: pods of a warm pool know only their own name.
func (p *pod) guestID() string {
	if p.agent == nil {
		return p.id
	}
	return p.podName()
}

// containerName returns the container in which programs run.
func (p *pod) containerName() string {
	if p.agent == nil {
		return container
	}
	return p.agent.container
}

// agentPath returns the path of an object of agent-sandbox in the API.
func (t *target) agentPath(group, resource, namespace, name string) string {
	return path.Join("/apis", group, agentVersion, "namespaces", namespace, resource, name)
}

func (t *target) claimPath(name string) string {
	return t.agentPath(claimGroup, "sandboxclaims", t.namespace, name)
}

func (t *target) sandboxPath(name string) string {
	return t.agentPath(sandboxGroup, "sandboxes", t.namespace, name)
}

// callJSON makes a request to the API in JSON. in and out may be nil.
func (t *target) callJSON(ctx context.Context, verb, at string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	return t.callAPI(ctx, func(ctx context.Context) error {
		r := t.core.RESTClient().Verb(verb).AbsPath(at).SetHeader("Accept", "application/json")
		switch {
		case verb == http.MethodPatch:
			r.SetHeader("Content-Type", string(types.MergePatchType)).Body(body)
		case in != nil:
			r.SetHeader("Content-Type", "application/json").Body(body)
		}
		answer := r.Do(ctx)
		if err := answer.Error(); err != nil || out == nil {
			return err
		}
		b, err := answer.Raw()
		if err != nil {
			return err
		}
		return json.Unmarshal(b, out)
	})
}

// hasAgentSandbox reports whether agent-sandbox is installed with its extensions. Only a positive
// answer is remembered.
func (t *target) hasAgentSandbox(ctx context.Context) (bool, error) {
	if t.agents.Load() {
		return true, nil
	}
	err := t.callJSON(ctx, http.MethodGet, path.Join("/apis", claimGroup, agentVersion), nil, nil)
	if errors.Is(err, atoll.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		t.agents.Store(true)
	}
	return err == nil, err
}

// claimTemplate creates a sandbox from a template of kubernetes-sigs/agent-sandbox.
func (d *Driver) claimTemplate(ctx context.Context, t *target, spec atoll.Spec) (atoll.Sandbox, error) {
	name := spec.Pod.Template
	if err := checkTemplateSpec(&spec); err != nil {
		return nil, fmt.Errorf("template %s: %w", name, err)
	}
	if ok, err := t.hasAgentSandbox(ctx); err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("template %s: %w by the cluster: install kubernetes-sigs/agent-sandbox with its extensions (%s/%s), or leave the template out", name, atoll.ErrUnsupported, claimGroup, agentVersion)
	}
	pool, template, err := t.findTemplate(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("template %s in namespace %s: %w", name, t.namespace, err)
	}
	p, err := d.newPod(ctx, t, Placement(orDefault(template.Spec.Pod.Meta.Annotations[notePlacement], string(PlaceNone))), spec)
	if err != nil {
		return nil, err
	}
	if len(template.Spec.Pod.Spec.Containers) == 0 {
		return nil, fmt.Errorf("template %s: %w: it has no container", name, atoll.ErrInvalid)
	}
	c := templateContainer(&template.Spec.Pod.Spec)
	p.agent = &agentPod{container: c.Name}
	p.port = parsePort(template.Spec.Pod.Meta.Annotations)
	p.spec.Dir = orDefault(spec.Dir, orDefault(c.WorkingDir, "/"))
	if r := template.Spec.Pod.Spec.RuntimeClassName; r != nil {
		if p.isolation, err = t.isolationOf(ctx, *r); err != nil {
			return nil, err
		}
	}
	if p.secret && p.how == PlaceNone {
		return nil, fmt.Errorf("template %s: env: %w without a guest in its image", name, atoll.ErrUnsupported)
	}
	sb := p.asSandbox()
	if err := p.claimFromWarmPool(ctx, pool); err != nil {
		return nil, err
	}
	return sb, nil
}

// templateContainer returns the container in which programs run: the one with atoll's name, or the
// first.
func templateContainer(spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		if spec.Containers[i].Name == container {
			return &spec.Containers[i]
		}
	}
	return &spec.Containers[0]
}

// checkTemplateSpec reports fields of a spec that only the template determines.
func checkTemplateSpec(spec *atoll.Spec) error {
	var errs []error
	for what, set := range map[string]bool{
		"image": spec.Image != "", "runtime": spec.Runtime != "", "user": spec.User != "", "requests": spec.Requests != atoll.Resources{},
		"limits": spec.Limits != atoll.Resources{}, "pod.storage_class": spec.Pod.StorageClass != "",
		"network.mode": spec.Network.Mode != "" && spec.Network.Mode != atoll.NetworkNone,
	} {
		if set {
			errs = append(errs, fmt.Errorf("%s: %w: the template says it; leave it out", what, atoll.ErrUnsupported))
		}
	}
	return errors.Join(errs...)
}

// findTemplate returns the warm pool that a name means, and its template. A name may be qualified,
// "pool/NAME" or "template/NAME"; otherwise a pool is preferred. A template is claimed through a pool
// of its own that keeps no pods ready.
func (t *target) findTemplate(ctx context.Context, name string) (string, *sandboxTemplate, error) {
	kind, plain, ok := strings.Cut(name, "/")
	if !ok {
		kind, plain = "", name
	}
	switch kind {
	case "", "pool", "template":
	default:
		return "", nil, fmt.Errorf("%w: it must be NAME, pool/NAME or template/NAME", atoll.ErrInvalid)
	}
	if err := atoll.CheckName(plain); err != nil {
		return "", nil, err
	}
	if kind != "template" {
		var pool warmPool
		err := t.callJSON(ctx, http.MethodGet, t.agentPath(claimGroup, "sandboxwarmpools", t.namespace, plain), nil, &pool)
		if err == nil {
			found, err := t.getTemplate(ctx, pool.Spec.Template.Name)
			return plain, found, err
		}
		if kind == "pool" || !errors.Is(err, atoll.ErrNotFound) {
			return "", nil, fmt.Errorf("SandboxWarmPool %s: %w", plain, err)
		}
	}
	found, err := t.getTemplate(ctx, plain)
	if err != nil {
		return "", nil, err
	}
	none := int32(0)
	pool := warmPool{
		TypeMeta:   metav1.TypeMeta{APIVersion: claimGroup + "/" + agentVersion, Kind: "SandboxWarmPool"},
		ObjectMeta: metav1.ObjectMeta{Name: "atoll-" + plain, Labels: map[string]string{labelManaged: "atoll"}},
	}
	pool.Spec.Replicas, pool.Spec.Template.Name = &none, plain
	err = t.callJSON(ctx, http.MethodPost, t.agentPath(claimGroup, "sandboxwarmpools", t.namespace, ""), &pool, nil)
	if err != nil && !errors.Is(err, atoll.ErrExists) {
		return "", nil, fmt.Errorf("SandboxWarmPool %s: %w", pool.Name, err)
	}
	return pool.Name, found, nil
}

func (t *target) getTemplate(ctx context.Context, name string) (*sandboxTemplate, error) {
	var found sandboxTemplate
	err := t.callJSON(ctx, http.MethodGet, t.agentPath(claimGroup, "sandboxtemplates", t.namespace, name), nil, &found)
	if err != nil {
		return nil, fmt.Errorf("SandboxTemplate %s: %w", name, err)
	}
	return &found, nil
}

// claimFromWarmPool claims a pod from a warm pool and waits until it answers. When it fails, nothing is
// left.
func (p *pod) claimFromWarmPool(ctx context.Context, pool string) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	attempt := atoll.NewID()
	made, err := p.createAgentClaim(ctx, pool, attempt)
	if err == nil {
		err = p.waitForAgentClaim(ctx, made)
	}
	if err == nil {
		return nil
	}
	p.closeConnections()
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	p.setKnown("", "")
	if made != nil {
		err = errors.Join(err, p.deleteAgentClaim(lasting))
	}
	return err
}

// createAgentClaim creates the claim, and the secret that is removed with it.
func (p *pod) createAgentClaim(ctx context.Context, pool, attempt string) (*agentClaim, error) {
	meta, err := p.objectMeta(attempt)
	if err != nil {
		return nil, err
	}
	meta.Annotations[noteContainer] = p.agent.container
	delete(meta.Annotations, "cluster-autoscaler.kubernetes.io/safe-to-evict")
	wanted := &agentClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: claimGroup + "/" + agentVersion, Kind: "SandboxClaim"}, ObjectMeta: meta,
		Spec: agentClaimSpec{Pool: &nameRef{pool}, Pod: &podMeta{Annotations: map[string]string{labelID: p.id}}},
	}
	lasting, cancel := grace.Context(ctx, grace.ForCreate)
	defer cancel()
	made := &agentClaim{}
	err = p.t.callJSON(lasting, http.MethodPost, p.t.claimPath(""), wanted, made)
	if errors.Is(err, atoll.ErrExists) { // a first response may have been lost
		found := &agentClaim{}
		if ferr := p.t.callJSON(lasting, http.MethodGet, p.t.claimPath(podName(p.id)), nil, found); ferr == nil && found.Annotations[noteAttempt] == attempt {
			made, err = found, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("SandboxClaim: %w", err)
	}
	secret, _, err := p.secretOf(attempt)
	if err == nil {
		err = p.makeSecret(ctx, secret, []metav1.OwnerReference{{APIVersion: wanted.APIVersion, Kind: wanted.Kind, Name: made.Name, UID: made.UID}})
	}
	return made, errors.Join(err, context.Cause(ctx))
}

// hopelessClaims are reasons of a claim that will never be ready, and the errors that they mean.
var hopelessClaims = map[string]error{
	"TemplateNotFound": atoll.ErrNotFound, "WarmPoolNotFound": atoll.ErrNotFound, "InvalidMetadata": atoll.ErrUnsupported,
	"EnvVarsInjectionRejected": atoll.ErrDenied, "VolumeClaimTemplatesError": atoll.ErrInvalid,
	"ClaimExpired": atoll.ErrUnavailable, "SandboxExpired": atoll.ErrUnavailable, "PodFailed": atoll.ErrUnavailable, "PodSucceeded": atoll.ErrUnavailable,
}

// waitForAgentClaim waits until a claim is ready and its pod answers.
func (p *pod) waitForAgentClaim(ctx context.Context, made *agentClaim) error {
	last := metav1.Condition{Message: "no controller has looked at it: does agent-sandbox's run, with its extensions?"}
	watching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	go func() {
		defer close(over)
		cancel(p.watchClaimedPod(watching))
	}()
	defer func() { cancel(nil); <-over }()
	err := p.t.watchObject(watching, p.t.claimPath(""), made.Name, func(now *agentClaim) (bool, error) {
		if now == nil {
			return false, fmt.Errorf("%w: it was removed by another client", atoll.ErrUnavailable)
		}
		ready := now.findCondition("Ready")
		if ready.Reason != "" {
			last = ready
		}
		if why := hopelessClaims[ready.Reason]; why != nil {
			return false, fmt.Errorf("%w: %s: %s", why, ready.Reason, oneLine(ready.Message))
		}
		p.setPodName(now.Status.Sandbox.Name)
		return ready.Status == metav1.ConditionTrue && p.podName() != "", nil
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w; %s: %s", err, last.Reason, oneLine(last.Message))
	}
	var found *corev1.Pod
	if p.podName() != "" {
		var ferr error
		if found, ferr = p.get(context.WithoutCancel(ctx)); err == nil {
			err = ferr
		}
	}
	switch {
	case err != nil && found != nil:
		return fmt.Errorf("SandboxClaim: %w", p.explainEnd(ctx, found, err))
	case err != nil:
		return fmt.Errorf("SandboxClaim: %w", err)
	}
	return p.bootPod(ctx, found)
}

// watchClaimedPod checks the pod of a claim that is not ready once a second, and returns an error when
// it can never run, which agent-sandbox does not report.
func (p *pod) watchClaimedPod(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if p.podName() == "" {
			continue
		}
		found, err := p.get(ctx)
		if err != nil || isMisconfigured(found) {
			continue // it does not exist yet
		}
		if _, err := isRunning(found); err != nil {
			return err
		}
	}
}

// deleteAgentClaim deletes the claim with its objects, and waits until the pod was removed. The
// cluster would remove the objects later by itself.
func (p *pod) deleteAgentClaim(ctx context.Context) error {
	name := p.podName()
	err := p.t.callJSON(ctx, http.MethodDelete, p.t.claimPath(podName(p.id)), nil, nil)
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	if name != "" {
		err := p.t.callJSON(ctx, http.MethodDelete, p.t.sandboxPath(name), nil, nil)
		if err == nil || errors.Is(err, atoll.ErrNotFound) {
			err = deleteObject(ctx, p.t, p.t.core.Pods(p.t.namespace), name)
		}
		if err != nil && !errors.Is(err, atoll.ErrDenied) {
			return err
		}
	}
	if p.secret {
		if err := deleteObject(ctx, p.t, p.t.core.Secrets(p.t.namespace), podName(p.id)); err != nil {
			return err
		}
	}
	return p.waitForClaimedPodGone(ctx)
}

// waitForClaimedPodGone waits until the pod of a deleted claim was removed. It polls, since the shared
// watch knows only atoll's own pods.
func (p *pod) waitForClaimedPodGone(ctx context.Context) error {
	if p.podName() == "" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, goneTimeout, fmt.Errorf("%w: its pod was not removed within %v", atoll.ErrTimeout, goneTimeout))
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if _, err := p.get(ctx); err != nil {
			if errors.Is(err, atoll.ErrNotFound) {
				return nil
			}
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
