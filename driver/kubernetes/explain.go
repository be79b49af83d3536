package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
)

// usage is the quota that an object needs, by the names of resource quotas.
type usage map[corev1.ResourceName]resource.Quantity

func quantityOne() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

func usageOfPod(pod *corev1.Pod) usage {
	u := usage{"pods": quantityOne(), "count/pods": quantityOne()}
	for i := range pod.Spec.Containers { // the init containers need no more
		r := &pod.Spec.Containers[i].Resources
		for name, n := range r.Requests {
			u[name], u["requests."+name] = n, n
		}
		for name, n := range r.Limits {
			u["limits."+name] = n
		}
	}
	return u
}

func usageOfClaim(pvc *corev1.PersistentVolumeClaim) usage {
	u := usage{"persistentvolumeclaims": quantityOne(), "count/persistentvolumeclaims": quantityOne()}
	if pvc != nil {
		n := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
		u["requests.storage"] = n
		if class := pvc.Spec.StorageClassName; class != nil {
			u[corev1.ResourceName(*class+".storageclass.storage.k8s.io/requests.storage")] = n
		}
	}
	return u
}

// exceedsQuota reports whether a quota has too little left.
func (u usage) exceedsQuota(q *corev1.ResourceQuota) bool {
	for name, n := range u {
		hard, limited := q.Status.Hard[name]
		if !limited {
			continue
		}
		sum := q.Status.Used[name].DeepCopy()
		sum.Add(n)
		if sum.Cmp(hard) > 0 {
			return true
		}
	}
	return false
}

// explainRefusal returns why the API did not create an object: the API returns the same error for missing
// permissions, for quotas, and for violations of Pod Security.
func (p *pod) explainRefusal(ctx context.Context, err error, u usage) error {
	switch {
	case isTerminating(err):
		p.t.ready.Store(false)
		return fmt.Errorf("namespace %s is being deleted: %w", p.t.namespace, err)
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("id %s: %w", p.id, err)
	case apierrors.IsNotFound(err): // the namespace was removed
		p.t.ready.Store(false)
		return fmt.Errorf("namespace %s was removed: %w: %w", p.t.namespace, atoll.ErrUnavailable, err)
	case !apierrors.IsForbidden(err):
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	var quotas *corev1.ResourceQuotaList
	look := p.t.callAPI(ctx, func(ctx context.Context) (err error) {
		quotas, err = p.t.core.ResourceQuotas(p.t.namespace).List(ctx, metav1.ListOptions{})
		return err
	})
	if look == nil && slices.ContainsFunc(quotas.Items, func(q corev1.ResourceQuota) bool { return u.exceedsQuota(&q) }) {
		return fmt.Errorf("%w of namespace %s: %w", atoll.ErrQuota, p.t.namespace, statusOf(err))
	}
	return err
}

// statusOf returns the API's own error in an error.
func statusOf(err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return status
	}
	return err
}

// explainTimeout bounds how long finding the reason of a failure may take.
const explainTimeout = 5 * time.Second

// explainEnd adds to an error what is known about a pod: its conditions, its events and the end of its
// log.
func (p *pod) explainEnd(ctx context.Context, made *corev1.Pod, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	var facts []string
	now, ierr := p.t.core.Pods(p.t.namespace).Get(ctx, made.Name, metav1.GetOptions{})
	if _, known := isRunning(now); ierr == nil && now.UID == made.UID && known == nil { // otherwise err has it
		if f := podStateOf(now); f.state != atoll.Running {
			facts = append(facts, "its pod is "+string(now.Status.Phase)+": "+f.message)
		}
		for _, e := range p.warningEvents(ctx, made) {
			if text := e.Reason + ": " + oneLine(e.Message); !slices.ContainsFunc(facts, func(f string) bool { return strings.Contains(f, oneLine(e.Message)) }) {
				facts = append(facts, text)
			}
		}
	}
	if log := p.logTail(ctx, made); log != "" {
		facts = append(facts, "its log ends with: "+log)
	}
	if len(facts) == 0 {
		return err
	}
	return fmt.Errorf("%w; %s", err, strings.Join(facts, "; "))
}

// warningEvents returns the newest warnings of the cluster about a pod, the newest last.
func (p *pod) warningEvents(ctx context.Context, made *corev1.Pod) []corev1.Event {
	events, err := p.t.core.Events(p.t.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(made.UID)})
	if err != nil {
		return nil // the first error counts
	}
	list := slices.DeleteFunc(events.Items, func(e corev1.Event) bool { return e.Type != corev1.EventTypeWarning })
	slices.SortFunc(list, func(a, b corev1.Event) int { return timeOf(&a).Compare(timeOf(&b)) })
	return list[max(0, len(list)-maxWarnings):]
}

const maxWarnings = 4

func timeOf(e *corev1.Event) time.Time {
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}

// logTail returns the end of the logs of a pod's containers in one line.
func (p *pod) logTail(ctx context.Context, made *corev1.Pod) string {
	lines, bytes := int64(20), int64(2000)
	var words []string
	for _, c := range append(slices.Clone(made.Spec.InitContainers), made.Spec.Containers...) {
		rc, err := p.t.core.Pods(p.t.namespace).GetLogs(made.Name, &corev1.PodLogOptions{Container: c.Name, TailLines: &lines, LimitBytes: &bytes}).Stream(ctx)
		if err != nil {
			continue // the container has not started
		}
		b, _ := io.ReadAll(io.LimitReader(rc, bytes)) // a part is enough
		_ = rc.Close()
		if text := oneLine(string(b)); text != "" {
			words = append(words, text)
		}
	}
	return strings.Join(words, " | ")
}

// isMisconfigured reports whether a pod waits only because its configuration is reported as invalid.
func isMisconfigured(pod *corev1.Pod) bool {
	if pod == nil || pod.DeletionTimestamp != nil || hasEnded(pod) {
		return false
	}
	c := containerOf(pod)
	return c != nil && c.State.Waiting != nil && c.State.Waiting.Reason == "CreateContainerConfigError"
}
