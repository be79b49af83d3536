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
)

// What of the API of kubernetes-sigs/agent-sandbox, v1beta1, is spoken here.
const (
	sandboxGroup = "agents.x-k8s.io"
	claimGroup   = "extensions.agents.x-k8s.io"
	agentVersion = "v1beta1"

	suspendedMode = "Suspended"
	runningMode   = "Running"
)

// The annotations of a claim, and of a template, besides those of every sandbox.
const noteContainer = "atoll.dev/container" // which of the pod's containers programs are in; empty: the first

// warmPool is a SandboxWarmPool.
type warmPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas *int32 `json:"replicas,omitempty"`
		Template named  `json:"sandboxTemplateRef"`
	} `json:"spec"`
}

type named struct {
	Name string `json:"name"`
}

// blueprint is a SandboxTemplate.
type blueprint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              blueprintSpec `json:"spec"`
}

type blueprintSpec struct {
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

// borrowing is a SandboxClaim, and in its place, as far as both have it, a Sandbox.
type borrowing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              borrowingSpec   `json:"spec"`
	Status            borrowingStatus `json:"status,omitzero"`
}

type borrowingSpec struct {
	Pool *named   `json:"warmPoolRef,omitempty"`
	Pod  *podMeta `json:"additionalPodMetadata,omitempty"`
	Mode string   `json:"operatingMode,omitempty"` // of a Sandbox
}

type borrowingStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Sandbox    named              `json:"sandbox,omitzero"`
}

// condition returns one of a claim or Sandbox; the zero one is none.
func (b *borrowing) condition(kind string) metav1.Condition {
	for _, c := range b.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown}
}

// borrowed is what a sandbox is to agent-sandbox, whose pod it has.
type borrowed struct {
	name      string // of the Sandbox and of its pod; empty: there is none yet; guarded by pod.mu
	container string // that programs are in
}

// podName is the name of the pod that a sandbox has.
func (p *pod) podName() string {
	if p.borrowed == nil {
		return podName(p.id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.borrowed.name
}

// rename notes which Sandbox a claim has got.
func (p *pod) rename(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.borrowed.name = name
}

// guestID is what the guest takes itself for: those of pods that were made before
// anybody asked for them only know the pod's name.
func (p *pod) guestID() string {
	if p.borrowed == nil {
		return p.id
	}
	return p.podName()
}

// inside is the container that programs are in.
func (p *pod) inside() string {
	if p.borrowed == nil {
		return container
	}
	return p.borrowed.container
}

// agentPath is where the API has an object of agent-sandbox.
func (t *target) agentPath(group, resource, namespace, name string) string {
	return path.Join("/apis", group, agentVersion, "namespaces", namespace, resource, name)
}

func (t *target) claimPath(name string) string {
	return t.agentPath(claimGroup, "sandboxclaims", t.namespace, name)
}

func (t *target) sandboxPath(name string) string {
	return t.agentPath(sandboxGroup, "sandboxes", t.namespace, name)
}

// speak makes a request of the API in JSON. in and out may be nil.
func (t *target) speak(ctx context.Context, verb, at string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	return t.ask(ctx, func(ctx context.Context) error {
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

// hasAgents reports whether agent-sandbox is installed, with its extensions. What
// is there is asked for once; what is not, again.
func (t *target) hasAgents(ctx context.Context) (bool, error) {
	if t.agents.Load() {
		return true, nil
	}
	err := t.speak(ctx, http.MethodGet, path.Join("/apis", claimGroup, agentVersion), nil, nil)
	if errors.Is(err, atoll.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		t.agents.Store(true)
	}
	return err == nil, err
}

// claimTemplate makes a sandbox of a template of kubernetes-sigs/agent-sandbox.
func (d *Driver) claimTemplate(ctx context.Context, t *target, spec atoll.Spec) (atoll.Sandbox, error) {
	name := spec.Pod.Template
	if err := ofTemplate(&spec); err != nil {
		return nil, fmt.Errorf("template %s: %w", name, err)
	}
	if ok, err := t.hasAgents(ctx); err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("template %s: %w by the cluster: install kubernetes-sigs/agent-sandbox with its extensions (%s/%s), or leave the template out", name, atoll.ErrUnsupported, claimGroup, agentVersion)
	}
	pool, template, err := t.findTemplate(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("template %s in namespace %s: %w", name, t.namespace, err)
	}
	p, err := d.plan(ctx, t, Placement(or(template.Spec.Pod.Meta.Annotations[notePlacement], string(PlaceNone))), spec)
	if err != nil {
		return nil, err
	}
	if len(template.Spec.Pod.Spec.Containers) == 0 {
		return nil, fmt.Errorf("template %s: %w: it has no container", name, atoll.ErrInvalid)
	}
	c := templateContainer(&template.Spec.Pod.Spec)
	p.borrowed = &borrowed{container: c.Name}
	p.spec.Dir = or(spec.Dir, or(c.WorkingDir, "/"))
	if r := template.Spec.Pod.Spec.RuntimeClassName; r != nil {
		if p.isolation, err = t.isolation(ctx, *r); err != nil {
			return nil, err
		}
	}
	if p.secret && p.how == PlaceNone {
		return nil, fmt.Errorf("template %s: env: %w without a guest in its image", name, atoll.ErrUnsupported)
	}
	sb := p.handle()
	if err := p.borrow(ctx, pool); err != nil {
		return nil, err
	}
	return sb, nil
}

// templateContainer returns the container that programs are in: ours by its name,
// or the first.
func templateContainer(spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		if spec.Containers[i].Name == container {
			return &spec.Containers[i]
		}
	}
	return &spec.Containers[0]
}

// ofTemplate reports what a template says and nobody else can.
func ofTemplate(spec *atoll.Spec) error {
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

// findTemplate returns the warm pool that a name means, and its template. A name
// may say which it is, "pool/NAME" or "template/NAME"; else a pool comes first. A
// template is claimed through a pool of its own that keeps none ready.
func (t *target) findTemplate(ctx context.Context, name string) (string, *blueprint, error) {
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
		err := t.speak(ctx, http.MethodGet, t.agentPath(claimGroup, "sandboxwarmpools", t.namespace, plain), nil, &pool)
		if err == nil {
			found, err := t.blueprint(ctx, pool.Spec.Template.Name)
			return plain, found, err
		}
		if kind == "pool" || !errors.Is(err, atoll.ErrNotFound) {
			return "", nil, fmt.Errorf("SandboxWarmPool %s: %w", plain, err)
		}
	}
	found, err := t.blueprint(ctx, plain)
	if err != nil {
		return "", nil, err
	}
	none := int32(0)
	pool := warmPool{
		TypeMeta:   metav1.TypeMeta{APIVersion: claimGroup + "/" + agentVersion, Kind: "SandboxWarmPool"},
		ObjectMeta: metav1.ObjectMeta{Name: "atoll-" + plain, Labels: map[string]string{labelManaged: "atoll"}},
	}
	pool.Spec.Replicas, pool.Spec.Template.Name = &none, plain
	err = t.speak(ctx, http.MethodPost, t.agentPath(claimGroup, "sandboxwarmpools", t.namespace, ""), &pool, nil)
	if err != nil && !errors.Is(err, atoll.ErrExists) {
		return "", nil, fmt.Errorf("SandboxWarmPool %s: %w", pool.Name, err)
	}
	return pool.Name, found, nil
}

func (t *target) blueprint(ctx context.Context, name string) (*blueprint, error) {
	var found blueprint
	err := t.speak(ctx, http.MethodGet, t.agentPath(claimGroup, "sandboxtemplates", t.namespace, name), nil, &found)
	if err != nil {
		return nil, fmt.Errorf("SandboxTemplate %s: %w", name, err)
	}
	return &found, nil
}

// borrow claims a pod from a warm pool and waits until it answers, or leaves
// nothing behind.
func (p *pod) borrow(ctx context.Context, pool string) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	attempt := atoll.NewID()
	made, err := p.makeBorrowing(ctx, pool, attempt)
	if err == nil {
		err = p.lent(ctx, made)
	}
	if err == nil {
		return nil
	}
	p.disconnect()
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	p.learn("", "")
	if made != nil {
		err = errors.Join(err, p.giveBack(lasting))
	}
	return err
}

// makeBorrowing creates the claim, and the secret that ends with it.
func (p *pod) makeBorrowing(ctx context.Context, pool, attempt string) (*borrowing, error) {
	meta, err := p.meta(attempt)
	if err != nil {
		return nil, err
	}
	meta.Annotations[noteContainer] = p.borrowed.container
	delete(meta.Annotations, "cluster-autoscaler.kubernetes.io/safe-to-evict")
	wanted := &borrowing{
		TypeMeta: metav1.TypeMeta{APIVersion: claimGroup + "/" + agentVersion, Kind: "SandboxClaim"}, ObjectMeta: meta,
		Spec: borrowingSpec{Pool: &named{pool}, Pod: &podMeta{Annotations: map[string]string{labelID: p.id}}},
	}
	lasting, cancel := outlast(ctx)
	defer cancel()
	made := &borrowing{}
	err = p.t.speak(lasting, http.MethodPost, p.t.claimPath(""), wanted, made)
	if errors.Is(err, atoll.ErrExists) { // a first answer may have been lost
		found := &borrowing{}
		if ferr := p.t.speak(lasting, http.MethodGet, p.t.claimPath(podName(p.id)), nil, found); ferr == nil && found.Annotations[noteAttempt] == attempt {
			made, err = found, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("SandboxClaim: %w", err)
	}
	if p.secret {
		secret, _, err := p.secretOf(attempt)
		if err == nil {
			secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: made.APIVersion, Kind: made.Kind, Name: made.Name, UID: made.UID}}
			_, err = create(ctx, p.t, p.t.core.Secrets(p.t.namespace), secret)
		}
		if err != nil {
			return made, fmt.Errorf("the environment's secret: %w", err)
		}
	}
	return made, context.Cause(ctx)
}

// hopelessClaims are reasons of a claim that is not ready, and will not be.
var hopelessClaims = map[string]error{
	"TemplateNotFound": atoll.ErrNotFound, "WarmPoolNotFound": atoll.ErrNotFound, "InvalidMetadata": atoll.ErrUnsupported,
	"EnvVarsInjectionRejected": atoll.ErrDenied, "VolumeClaimTemplatesError": atoll.ErrInvalid,
	"ClaimExpired": atoll.ErrUnavailable, "SandboxExpired": atoll.ErrUnavailable, "PodFailed": atoll.ErrUnavailable, "PodSucceeded": atoll.ErrUnavailable,
}

// lent waits until a claim is ready and its pod answers.
func (p *pod) lent(ctx context.Context, made *borrowing) error {
	last := metav1.Condition{Message: "no controller has looked at it: does agent-sandbox's run, with its extensions?"}
	watching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	go func() {
		defer close(over)
		cancel(p.doomed(watching))
	}()
	defer func() { cancel(nil); <-over }()
	err := p.t.follow(watching, p.t.claimPath(""), made.Name, func(now *borrowing) (bool, error) {
		if now == nil {
			return false, fmt.Errorf("%w: it was removed from outside", atoll.ErrUnavailable)
		}
		ready := now.condition("Ready")
		if ready.Reason != "" {
			last = ready
		}
		if why := hopelessClaims[ready.Reason]; why != nil {
			return false, fmt.Errorf("%w: %s: %s", why, ready.Reason, oneLine(ready.Message))
		}
		p.rename(now.Status.Sandbox.Name)
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
	return p.boot(ctx, found)
}

// doomed looks at the pod of a claim that is not ready now and then, until it is
// known that it never will be: agent-sandbox does not say so.
func (p *pod) doomed(ctx context.Context) error {
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
		if err != nil || misconfigured(found) {
			continue // it is not there yet
		}
		if _, err := runs(found); err != nil {
			return err
		}
	}
}

// giveBack removes the claim, with all that it has, and waits until the pod is
// gone. The cluster would remove the rest by itself, and take its time.
func (p *pod) giveBack(ctx context.Context) error {
	name := p.podName()
	err := p.t.speak(ctx, http.MethodDelete, p.t.claimPath(podName(p.id)), nil, nil)
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	if name != "" {
		err := p.t.speak(ctx, http.MethodDelete, p.t.sandboxPath(name), nil, nil)
		if err == nil || errors.Is(err, atoll.ErrNotFound) {
			err = drop(ctx, p.t, p.t.core.Pods(p.t.namespace), name)
		}
		if err != nil && !errors.Is(err, atoll.ErrDenied) {
			return err
		}
	}
	if p.secret {
		if err := drop(ctx, p.t, p.t.core.Secrets(p.t.namespace), podName(p.id)); err != nil {
			return err
		}
	}
	return p.awaitReturned(ctx)
}

// awaitReturned waits until the pod of a claim that was deleted is not there any
// more. It is not in the watch, which knows our pods; another is not worth it.
func (p *pod) awaitReturned(ctx context.Context) error {
	if p.podName() == "" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, goneTime, fmt.Errorf("%w: its pod was not gone after %v", atoll.ErrTimeout, goneTime))
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
