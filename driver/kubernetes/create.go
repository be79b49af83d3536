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
	"github.com/atoll-sandbox/atoll/driver/internal/grace"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// Create creates a sandbox.
func (d *Driver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	sb, err := d.create(ctx, spec)
	if err != nil {
		return nil, &atoll.Error{Op: "create", ID: orDefault(spec.ID, spec.Name), Err: err}
	}
	return sb, nil
}

func (d *Driver) create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := spec.Check(); err != nil { // before a cluster is needed
		return nil, err
	}
	spec.Runtime = d.runtimeOf(&spec)
	ctx, cancel := guest.WithCreateTimeout(ctx, spec.Timeouts.Create)
	defer cancel()
	t, err := d.targetOf(spec.Owner)
	if err != nil {
		return nil, err
	}
	how, err := d.choosePlacement(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := d.check(ctx, t, how, &spec); err != nil {
		return nil, err
	}
	if err := t.prepareNamespace(ctx); err != nil {
		return nil, err
	}
	if spec.Pod != nil && spec.Pod.Template != "" {
		return d.claimTemplate(ctx, t, spec)
	}
	for {
		p, err := d.newPod(ctx, t, how, spec)
		if err != nil {
			return nil, err
		}
		sb := p.asSandbox()
		if err = p.createAndBoot(ctx); err == nil {
			return sb, nil
		}
		if next := d.nextPlacement(t, how); next != "" && ctx.Err() == nil && !errors.Is(err, atoll.ErrExists) && !errors.Is(err, atoll.ErrQuota) {
			how = next
			continue
		}
		return nil, err
	}
}

// runtimeOf returns the RuntimeClass of a new sandbox. That of a template's sandbox is the template's.
func (d *Driver) runtimeOf(spec *atoll.Spec) string {
	if spec.Pod != nil && spec.Pod.Template != "" {
		return spec.Runtime
	}
	return orDefault(spec.Runtime, d.RuntimeClass)
}

// newPod returns a pod that is not created yet.
func (d *Driver) newPod(ctx context.Context, t *target, how Placement, spec atoll.Spec) (*pod, error) {
	p := &pod{d: d, t: t, id: orDefault(spec.ID, atoll.NewID()), spec: spec, env: spec.Env, secret: len(spec.Env) > 0, created: time.Now(), how: how, port: guestPort}
	p.spec.ID, p.spec.Env, p.spec.Dir = p.id, nil, orDefault(spec.Dir, atoll.DefaultDir)
	p.spec.Pod = &atoll.Pod{StorageClass: d.storageOf(&spec)} // independent of the driver's settings when it is opened again
	if spec.Owner != (atoll.Owner{}) {
		p.owner = hash(spec.Owner.String())
	}
	p.pool = spec.Labels[atoll.PoolLabel] != ""
	var err error
	p.isolation, err = t.isolationOf(ctx, spec.Runtime)
	return p, err
}

// asSandbox returns the handle of a pod's sandbox.
func (p *pod) asSandbox() atoll.Sandbox {
	if p.how == PlaceNone {
		return &PlainSandbox{p}
	}
	return newSandbox(p)
}

// createAndBoot creates all objects of a new sandbox and waits until it answers. When it fails, nothing
// is left.
func (p *pod) createAndBoot(ctx context.Context) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	attempt := atoll.NewID()
	made, err := p.createObjects(ctx, attempt)
	if err == nil {
		p.setKnown(atoll.Starting, made.UID)
		err = p.bootPod(ctx, made)
	}
	if err == nil {
		return nil
	}
	p.closeConnections()
	var lost *lostResponseError
	if errors.Is(err, syscall.ECONNREFUSED) && !errors.As(err, &lost) && !p.hasVolume() && made == nil {
		return err // no request reached the API
	}
	return errors.Join(err, p.undoCreate(ctx, attempt))
}

// createObjects creates the volume, the pod and the Secret. The Secret is created after the object that
// owns it: the volume or, without one, the pod, whose container then waits for it.
func (p *pod) createObjects(ctx context.Context, attempt string) (*corev1.Pod, error) {
	secret, names, err := p.secretOf(attempt)
	if err != nil {
		return nil, err
	}
	template, err := p.newPodObject(attempt, names)
	if err != nil {
		return nil, err
	}
	if p.hasVolume() {
		claim, err := p.newVolumeClaim(attempt)
		if err != nil {
			return nil, fmt.Errorf("volume: %w", err)
		}
		volume, err := create(ctx, p.t, p.t.core.PersistentVolumeClaims(p.t.namespace), claim)
		if err != nil {
			return nil, fmt.Errorf("volume: %w", p.explainRefusal(ctx, err, usageOfClaim(claim)))
		}
		if err := p.makeSecret(ctx, secret, ownedBy("PersistentVolumeClaim", volume.Name, volume.UID)); err != nil {
			return nil, err
		}
	}
	made, err := p.makePod(ctx, template)
	if err != nil {
		return nil, p.explainRefusal(ctx, err, usageOfPod(template))
	}
	if !p.hasVolume() {
		err = p.makeSecret(ctx, secret, ownedBy("Pod", made.Name, made.UID))
	}
	return made, err
}

// bootPod waits until a pod runs and its guest answers.
func (p *pod) bootPod(ctx context.Context, made *corev1.Pod) error {
	err := p.awaitRun(ctx, made)
	if err == nil && p.how == PlaceCopy {
		err = p.sendGuest(ctx)
	}
	if err == nil && p.tryConnect != nil {
		err = p.waitForGuest(ctx, made)
	}
	if err != nil {
		return p.explainEnd(ctx, made, err)
	}
	p.setKnown(atoll.Running, made.UID)
	if p.tryConnect == nil {
		return nil
	}
	return p.ensureProxy(ctx)
}

// How long an invalid configuration of a container is tolerated.
const (
	configPatience = 8 * time.Second  // its node may not have all of it yet
	secretPatience = 25 * time.Second // a node that was faster than the Secret looks again after ten seconds
)

// awaitRun waits until the container of a pod runs.
func (p *pod) awaitRun(ctx context.Context, made *corev1.Pod) error {
	patience := configPatience
	if p.secret {
		patience = secretPatience
	}
	var since time.Time
	_, err := p.t.pods.waitPod(ctx, made, func(now *corev1.Pod) (bool, error) {
		ok, err := isRunning(now)
		if err == nil || !isMisconfigured(now) {
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

// waitForGuest waits until a guest whose container has just started answers, or until the container
// ends.
func (p *pod) waitForGuest(ctx context.Context, made *corev1.Pod) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	go func() {
		defer close(over)
		if _, err := p.t.pods.waitPod(ctx, made, func(now *corev1.Pod) (bool, error) {
			_, err := isRunning(now)
			return false, err
		}); err != nil && ctx.Err() == nil {
			cancel(err)
		}
	}()
	defer func() { cancel(nil); <-over }()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := p.tryConnect(ctx)
		if err == nil || errors.Is(err, atoll.ErrDenied) { // waiting does not change permissions
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

// objectAPI is the API of one kind of objects in a namespace.
type objectAPI[T metav1.Object] interface {
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// lostResponseError is the error of a request that the API may have carried out: the response to one of its
// repetitions was lost.
type lostResponseError struct{ err error }

func (e *lostResponseError) Error() string { return e.err.Error() }

// Unwrap returns the error of the last repetition.
func (e *lostResponseError) Unwrap() error { return e.err }

// create creates an object once, also if it has to repeat the request: an existing object is returned
// if the same attempt has created it.
func create[T metav1.Object](ctx context.Context, t *target, in objectAPI[T], object T) (made T, err error) {
	lasting, cancel := grace.Context(ctx, grace.ForCreate)
	defer cancel()
	lost := false
	err = t.callAPI(lasting, func(ctx context.Context) (err error) {
		made, err = in.Create(ctx, object, metav1.CreateOptions{})
		lost = lost || isTransient(err) && !errors.Is(err, syscall.ECONNREFUSED)
		if apierrors.IsAlreadyExists(err) {
			found, ferr := in.Get(ctx, object.GetName(), metav1.GetOptions{})
			if ferr == nil && found.GetAnnotations()[noteAttempt] == object.GetAnnotations()[noteAttempt] {
				made, err = found, nil
			}
		}
		return err
	})
	switch {
	case err == nil:
		err = context.Cause(ctx)
	case lost:
		err = &lostResponseError{err}
	}
	return made, err
}

// undoTimeout bounds how long removing the objects of a failed attempt may take.
const undoTimeout = time.Minute

// undoCreate removes the objects that an attempt has created, and no others.
func (p *pod) undoCreate(ctx context.Context, attempt string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	p.setKnown("", "")
	err := deleteIfOwn(ctx, p.t, p.t.core.Pods(p.t.namespace), podName(p.id), attempt)
	if p.secret {
		err = errors.Join(err, deleteIfOwn(ctx, p.t, p.t.core.Secrets(p.t.namespace), podName(p.id), attempt))
	}
	if p.hasVolume() {
		err = errors.Join(err, deleteIfOwn(ctx, p.t, p.t.core.PersistentVolumeClaims(p.t.namespace), podName(p.id), attempt))
	}
	if err != nil {
		return fmt.Errorf("remove what was created: %w", err)
	}
	return nil
}

// deleteIfOwn removes an object if an attempt has created it.
func deleteIfOwn[T metav1.Object](ctx context.Context, t *target, in objectAPI[T], name, attempt string) error {
	err := t.callAPIFor(ctx, undoTimeout, func(ctx context.Context) error {
		found, err := in.Get(ctx, name, metav1.GetOptions{})
		if err != nil || found.GetAnnotations()[noteAttempt] != attempt {
			return err
		}
		return in.Delete(ctx, name, deleteOptions(found.GetUID(), 0))
	})
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}
