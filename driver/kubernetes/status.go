package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-sandbox/atoll"
)

// fact is what the cluster says of a sandbox.
type fact struct {
	state   atoll.State
	ready   bool
	reason  string // one word
	message string
	since   time.Time
}

// Status says what the cluster knows of the pod.
func (p *pod) Status(ctx context.Context) (atoll.Status, error) {
	p.mu.Lock()
	destroyed := p.known == atoll.Destroyed
	p.mu.Unlock()
	if destroyed {
		return atoll.Status{}, p.fail("status", p.before(""))
	}
	found, err := p.look(ctx)
	if err != nil {
		return atoll.Status{}, p.fail("status", err)
	}
	return p.status(found), nil
}

// look asks the cluster, and takes note of what it says.
func (p *pod) look(ctx context.Context) (fact, error) {
	if p.borrowed != nil {
		return p.lookBorrowed(ctx)
	}
	found, err := p.get(ctx)
	if err == nil {
		f := factOf(found)
		switch {
		case f.state == atoll.Running:
			p.learn(f.state, found.UID)
		case found.Status.Phase == corev1.PodPending && found.DeletionTimestamp == nil && p.answered(found.UID):
			f.state, f.ready, f.reason, f.message = atoll.Running, true, string(atoll.Running), "" // which the kubelet has yet to report
		}
		return f, nil
	}
	if !errors.Is(err, atoll.ErrNotFound) || !p.keeps() {
		return fact{}, err
	}
	pvc, err := p.getClaim(ctx)
	if err != nil {
		return fact{}, err
	}
	p.learn(atoll.Stopped, "")
	return stopped(pvc), nil
}

// stopped is the fact of a sandbox of which only the volume is there.
func stopped(pvc *corev1.PersistentVolumeClaim) fact {
	return fact{state: atoll.Stopped, reason: string(atoll.Stopped), message: "start it first", since: pvc.CreationTimestamp.Time}
}

func (p *pod) status(f fact) atoll.Status {
	p.mu.Lock()
	used, name, labels := p.used, p.spec.Name, p.spec.Labels // which a claim changes
	p.mu.Unlock()
	if used.Before(p.created) {
		used = p.created
	}
	return atoll.Status{
		ID: p.id, Name: name, Driver: p.d.Name(), State: f.state, Labels: labels, Isolation: p.isolation,
		Created: p.created, Active: used,
		Conditions: []atoll.Condition{{Type: "ready", True: f.ready, Reason: f.reason, Message: f.message, Since: f.since}},
	}
}

// factOf reads the cluster's word on a pod.
func factOf(pod *corev1.Pod) fact {
	f := fact{since: pod.CreationTimestamp.Time}
	if c := condition(pod, corev1.PodReady); c != nil && !c.LastTransitionTime.IsZero() {
		f.since = c.LastTransitionTime.Time
	}
	c := containerOf(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		f.state, f.message = atoll.Stopping, "its pod is being removed"
	case ended(pod):
		f.state = atoll.Failed
		f.reason, f.message = endOf(pod)
		return f
	case c != nil && c.State.Running != nil:
		f.state, f.ready = atoll.Running, true
		if r := condition(pod, corev1.PodReady); r != nil && r.Status == corev1.ConditionFalse && r.Reason != "ContainersNotReady" {
			f.ready, f.reason, f.message = false, "node_lost", orWord(r.Message, "its node does not answer")
			return f
		}
	default:
		f.state = atoll.Starting
		f.message = waitsFor(pod)
	}
	f.reason = string(f.state)
	return f
}

func orWord(s, other string) string { return or(s, other) }

// ended reports whether nothing runs any more, or will. The kubelet says so of
// the container before it says so of the pod.
func ended(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	c := containerOf(pod)
	return c != nil && c.State.Terminated != nil && pod.Spec.RestartPolicy == corev1.RestartPolicyNever
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// containerOf returns the status of the container that programs are in; nil:
// there is none yet.
func containerOf(pod *corev1.Pod) *corev1.ContainerStatus {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == container })
	if i < 0 && len(pod.Status.ContainerStatuses) > 0 {
		i = 0 // it is a template's
	}
	if i < 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[i]
}

// endings are reasons of the cluster for which there is a word of ours.
var endings = map[string]string{
	"OOMKilled": "out_of_memory", "Evicted": "evicted", "DeadlineExceeded": "deadline", "NodeLost": "node_lost", "NodeShutdown": "node_shutdown",
	"Terminated": "node_shutdown", "Preempting": "preempted", "Preempted": "preempted", "UnexpectedAdmissionError": "refused_by_node", "OutOfcpu": "refused_by_node",
	"OutOfmemory": "refused_by_node", "OutOfpods": "refused_by_node", "StartError": "did_not_start", "ContainerCannotRun": "did_not_start",
}

// endOf says why a pod has ended, in a word and in a line.
func endOf(pod *corev1.Pod) (reason, message string) {
	if r := pod.Status.Reason; r != "" {
		return orWord(endings[r], "ended"), strings.TrimSuffix(r+": "+oneLine(pod.Status.Message), ": ")
	}
	all := append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...)
	for _, c := range all {
		if t := c.State.Terminated; t != nil && (t.ExitCode != 0 || c.Name == container) {
			text := fmt.Sprintf("%s: process 1 of container %s ended with status %d", t.Reason, c.Name, t.ExitCode)
			if t.Message != "" {
				text += ": " + oneLine(t.Message)
			}
			return orWord(endings[t.Reason], "ended"), text
		}
	}
	return "ended", "its pod has ended (" + string(pod.Status.Phase) + ")"
}

// waitsFor says in a line what a pod that does not run yet waits for.
func waitsFor(pod *corev1.Pod) string {
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return strings.TrimSuffix(c.Reason+": "+oneLine(c.Message), ": ")
	}
	all := append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...)
	for _, c := range all {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
			return strings.TrimSuffix(w.Reason+": "+oneLine(w.Message), ": ")
		}
	}
	return "its pod is being started"
}

// hopeless are reasons to wait that no waiting ends, and what they mean.
var hopeless = map[string]error{
	"ErrImagePull": atoll.ErrUnavailable, "ImagePullBackOff": atoll.ErrUnavailable, "ErrImageNeverPull": atoll.ErrUnavailable, "InvalidImageName": atoll.ErrInvalid,
	"ImageInspectError": atoll.ErrUnavailable, "RegistryUnavailable": atoll.ErrUnavailable, "SignatureValidationFailed": atoll.ErrDenied,
	"CreateContainerConfigError": atoll.ErrInvalid, "CreateContainerError": atoll.ErrUnavailable, "RunContainerError": atoll.ErrUnavailable, "CrashLoopBackOff": atoll.ErrUnavailable,
}

// runs reports whether a pod's container runs; an error, that it never will. nil
// is a pod that is not there any more.
func runs(pod *corev1.Pod) (bool, error) {
	switch {
	case pod == nil:
		return false, fmt.Errorf("%w: its pod was removed from outside", atoll.ErrUnavailable)
	case pod.DeletionTimestamp != nil:
		return false, fmt.Errorf("%w: its pod is being removed from outside", atoll.ErrUnavailable)
	case ended(pod):
		_, message := endOf(pod)
		return false, fmt.Errorf("%w: %s", atoll.ErrUnavailable, message)
	}
	all := append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...)
	for _, c := range all {
		if w := c.State.Waiting; w != nil && hopeless[w.Reason] != nil {
			return false, fmt.Errorf("%w: image %s: %s: %s", hopeless[w.Reason], c.Image, w.Reason, oneLine(w.Message))
		}
	}
	c := containerOf(pod)
	return c != nil && c.State.Running != nil, nil
}
