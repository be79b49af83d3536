package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
)

// Create makes a sandbox.
func (d *Driver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	sb, err := d.create(ctx, spec)
	if err != nil {
		return nil, &atoll.Error{Op: "create", ID: or(spec.ID, spec.Name), Err: err}
	}
	return sb, nil
}

func (d *Driver) create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := spec.Check(); err != nil { // what is wrong is wrong without a cluster too
		return nil, err
	}
	ctx, cancel := limited(ctx, &spec)
	defer cancel()
	t, err := d.target(spec.Owner)
	if err != nil {
		return nil, err
	}
	how, err := d.placement(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := d.check(ctx, t, how, &spec); err != nil {
		return nil, err
	}
	if err := t.prepare(ctx); err != nil {
		return nil, err
	}
	if spec.Pod != nil && spec.Pod.Template != "" {
		return d.claimTemplate(ctx, t, spec)
	}
	for {
		p, err := d.plan(ctx, t, how, spec)
		if err != nil {
			return nil, err
		}
		sb := p.handle()
		if err = p.build(ctx); err == nil {
			return sb, nil
		}
		if next := d.instead(t, how); next != "" && ctx.Err() == nil && !errors.Is(err, atoll.ErrExists) && !errors.Is(err, atoll.ErrQuota) {
			how = next
			continue
		}
		return nil, err
	}
}

// limited bounds how long a sandbox takes to answer.
func limited(ctx context.Context, spec *atoll.Spec) (context.Context, context.CancelFunc) {
	limit := or(spec.Timeouts.Create, atoll.DefaultCreateTimeout)
	if limit < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: it did not answer within %v", atoll.ErrTimeout, limit))
}

// plan is a sandbox to be.
func (d *Driver) plan(ctx context.Context, t *target, how Placement, spec atoll.Spec) (*pod, error) {
	p := &pod{d: d, t: t, id: or(spec.ID, atoll.NewID()), spec: spec, env: spec.Env, secret: len(spec.Env) > 0, created: time.Now(), how: how}
	p.spec.ID, p.spec.Env, p.spec.Dir = p.id, nil, or(spec.Dir, atoll.DefaultDir)
	p.spec.Pod = &atoll.Pod{StorageClass: d.storageOf(&spec)} // whatever the driver has when it is found again
	if spec.Owner != (atoll.Owner{}) {
		p.owner = hash(spec.Owner.String())
	}
	p.pool = spec.Labels[atoll.PoolLabel] != ""
	var err error
	p.isolation, err = t.isolation(ctx, spec.Runtime)
	return p, err
}

// handle returns the sandbox that a pod is.
func (p *pod) handle() atoll.Sandbox {
	if p.how == PlaceNone {
		return &Plain{p}
	}
	return newSandbox(p)
}

// build makes all that a new sandbox has in the cluster, and waits until it
// answers, or leaves nothing behind.
func (p *pod) build(ctx context.Context) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	attempt := atoll.NewID()
	made, err := p.make(ctx, attempt)
	if err == nil {
		p.learn(atoll.Starting, made.UID)
		err = p.boot(ctx, made)
	}
	if err == nil {
		return nil
	}
	p.disconnect()
	if errors.Is(err, syscall.ECONNREFUSED) && !p.keeps() && !p.secret && made == nil {
		return err // nothing was heard of it
	}
	return errors.Join(err, p.undo(ctx, attempt))
}

// make creates the volume, the secret and the pod.
func (p *pod) make(ctx context.Context, attempt string) (*corev1.Pod, error) {
	var volume *corev1.PersistentVolumeClaim
	if p.keeps() {
		claim, err := p.claim(attempt)
		if err == nil {
			volume, err = create(ctx, p.t, p.t.core.PersistentVolumeClaims(p.t.namespace), claim)
		}
		if err != nil {
			return nil, fmt.Errorf("volume: %w", p.refused(ctx, err, usageOfClaim(claim)))
		}
	}
	names, err := p.makeSecret(ctx, attempt, volume)
	if err != nil {
		return nil, err
	}
	template, err := p.template(attempt, names)
	if err != nil {
		return nil, err
	}
	made, err := p.makePod(ctx, template)
	if err != nil {
		return nil, p.refused(ctx, err, usageOfPod(template))
	}
	if p.secret && volume == nil {
		err = p.bind(ctx, made)
	}
	return made, err
}

// accountTime is how long a new namespace may be without its service account,
// which no pod is made without.
const accountTime = 10 * time.Second

// createPod creates the pod, when the namespace is ready for it.
func (p *pod) createPod(ctx context.Context, template *corev1.Pod) (*corev1.Pod, error) {
	begin := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		made, err := create(ctx, p.t, p.t.core.Pods(p.t.namespace), template)
		if err == nil || !apierrors.IsForbidden(err) || time.Since(begin) > accountTime {
			return made, err
		}
		if _, look := p.t.core.ServiceAccounts(p.t.namespace).Get(quiet(ctx), "default", metav1.GetOptions{}); !apierrors.IsNotFound(look) {
			return made, err
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-wait.C:
		}
	}
}

// boot waits until a pod runs and its guest answers.
func (p *pod) boot(ctx context.Context, made *corev1.Pod) error {
	err := p.awaitRun(ctx, made)
	if err == nil && p.how == PlaceCopy {
		err = p.send(ctx)
	}
	if err == nil && p.greet != nil {
		err = p.meet(ctx, made)
	}
	if err != nil {
		return p.explainEnd(ctx, made, err)
	}
	p.learn(atoll.Running, made.UID)
	if p.greet == nil {
		return nil
	}
	return p.openGate(ctx)
}

// patience is how long a container may be said to be wrongly configured: its
// node may not have all of the configuration yet.
const patience = 8 * time.Second

// awaitRun waits until the container of a pod runs.
func (p *pod) awaitRun(ctx context.Context, made *corev1.Pod) error {
	var since time.Time
	_, err := p.t.pods.await(ctx, made, func(now *corev1.Pod) (bool, error) {
		ok, err := runs(now)
		if err == nil || !misconfigured(now) {
			since = time.Time{}
			return ok, err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > patience {
			return false, err
		}
		return false, nil
	})
	return err
}

// meet waits for the first word of a guest whose container has just begun, or for
// the end of that.
func (p *pod) meet(ctx context.Context, made *corev1.Pod) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	go func() {
		defer close(over)
		if _, err := p.t.pods.await(ctx, made, func(now *corev1.Pod) (bool, error) {
			_, err := runs(now)
			return false, err
		}); err != nil && ctx.Err() == nil {
			cancel(err)
		}
	}()
	defer func() { cancel(nil); <-over }()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := p.greet(ctx)
		if err == nil || errors.Is(err, atoll.ErrDenied) { // time gives nobody a right
			return err
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-wait.C:
		}
	}
}

// createGrace is how long the answer to a request that made something is waited
// for although its caller has gone: it would be there and nobody know it.
const createGrace = 10 * time.Second

// outlast returns a context that ends createGrace after another.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(createGrace, cancel)
		context.AfterFunc(lasting, func() { t.Stop() })
	})
	return lasting, func() { stop(); cancel() }
}

// kind is the API of one kind of objects in a namespace.
type kind[T metav1.Object] interface {
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// create creates an object, once, however often it has to ask: what is there
// already is this one if the same attempt made it.
func create[T metav1.Object](ctx context.Context, t *target, in kind[T], object T) (made T, err error) {
	lasting, cancel := outlast(ctx)
	defer cancel()
	err = t.ask(lasting, func(ctx context.Context) (err error) {
		made, err = in.Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			found, ferr := in.Get(ctx, object.GetName(), metav1.GetOptions{})
			if ferr == nil && found.GetAnnotations()[noteAttempt] == object.GetAnnotations()[noteAttempt] {
				made, err = found, nil
			}
		}
		return err
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	return made, err
}

// undoTime is how long what a failed attempt has made may take to be removed.
const undoTime = time.Minute

// undo removes what an attempt has made, and nothing else.
func (p *pod) undo(ctx context.Context, attempt string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	p.learn("", "")
	err := takeBack(ctx, p.t, p.t.core.Pods(p.t.namespace), podName(p.id), attempt)
	if p.secret {
		err = errors.Join(err, takeBack(ctx, p.t, p.t.core.Secrets(p.t.namespace), podName(p.id), attempt))
	}
	if p.keeps() {
		err = errors.Join(err, takeBack(ctx, p.t, p.t.core.PersistentVolumeClaims(p.t.namespace), podName(p.id), attempt))
	}
	if err != nil {
		return fmt.Errorf("removing what was made: %w", err)
	}
	return nil
}

// takeBack removes an object if an attempt has made it.
func takeBack[T metav1.Object](ctx context.Context, t *target, in kind[T], name, attempt string) error {
	err := t.askFor(ctx, undoTime, func(ctx context.Context) error {
		found, err := in.Get(ctx, name, metav1.GetOptions{})
		if err != nil || found.GetAnnotations()[noteAttempt] != attempt {
			return err
		}
		return in.Delete(ctx, name, removal(found.GetUID(), 0))
	})
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}
