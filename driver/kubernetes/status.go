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

// podState is the state of a sandbox in the cluster.
type podState struct {
	state   atoll.State
	ready   bool
	reason  string // in one word
	message string
	since   time.Time
}

// Status returns the state of the pod in the cluster.
func (p *pod) Status(ctx context.Context) (atoll.Status, error) {
	p.mu.Lock()
	destroyed := p.known == atoll.Destroyed
	p.mu.Unlock()
	if destroyed {
		return atoll.Status{}, p.wrapError("status", p.checkOperation(""))
	}
	found, err := p.readState(ctx)
	if err != nil {
		return atoll.Status{}, p.wrapError("status", err)
	}
	return p.statusFrom(found), nil
}

// readState reads the state from the cluster and records it.
func (p *pod) readState(ctx context.Context) (podState, error) {
	if p.agent != nil {
		return p.readAgentState(ctx)
	}
	found, err := p.get(ctx)
	if err == nil {
		f := podStateOf(found)
		switch {
		case f.state == atoll.Running:
			p.setKnown(f.state, found.UID)
		case found.Status.Phase == corev1.PodPending && found.DeletionTimestamp == nil && p.hasAnswered(found.UID):
			f.state, f.ready, f.reason, f.message = atoll.Running, true, string(atoll.Running), "" // the kubelet has not reported that yet
		}
		return f, nil
	}
	if !errors.Is(err, atoll.ErrNotFound) || !p.hasVolume() {
		return podState{}, err
	}
	pvc, err := p.getVolume(ctx)
	if err != nil {
		return podState{}, err
	}
	p.setKnown(atoll.Stopped, "")
	return stoppedPodState(pvc), nil
}

// stoppedPodState returns the state of a sandbox that has only its volume.
func stoppedPodState(pvc *corev1.PersistentVolumeClaim) podState {
	return podState{state: atoll.Stopped, reason: string(atoll.Stopped), message: "start it first", since: pvc.CreationTimestamp.Time}
}

func (p *pod) statusFrom(f podState) atoll.Status {
	p.mu.Lock()
	used, name, labels := p.used, p.spec.Name, p.spec.Labels // a claim changes them
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

// podStateOf returns the state of a pod.
func podStateOf(pod *corev1.Pod) podState {
	f := podState{since: pod.CreationTimestamp.Time}
	if c := findPodCondition(pod, corev1.PodReady); c != nil && !c.LastTransitionTime.IsZero() {
		f.since = c.LastTransitionTime.Time
	}
	c := containerOf(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		f.state, f.message = atoll.Stopping, "its pod is being removed"
	case hasEnded(pod):
		f.state = atoll.Failed
		f.reason, f.message = endOf(pod)
		return f
	case c != nil && c.State.Running != nil:
		f.state, f.ready = atoll.Running, true
		if r := findPodCondition(pod, corev1.PodReady); r != nil && r.Status == corev1.ConditionFalse && r.Reason != "ContainersNotReady" {
			f.ready, f.reason, f.message = false, "node_lost", orText(r.Message, "its node does not answer")
			return f
		}
	default:
		f.state = atoll.Starting
		f.message = waitsFor(pod)
	}
	f.reason = string(f.state)
	return f
}

func orText(s, other string) string { return orDefault(s, other) }

// hasEnded reports whether no process of a pod runs or will run. The kubelet reports that for the
// container before it does for the pod.
func hasEnded(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	c := containerOf(pod)
	return c != nil && c.State.Terminated != nil && pod.Spec.RestartPolicy == corev1.RestartPolicyNever
}

func findPodCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// containerOf returns the status of the container in which programs run; nil: there is none yet.
func containerOf(pod *corev1.Pod) *corev1.ContainerStatus {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == container })
	if i < 0 && len(pod.Status.ContainerStatuses) > 0 {
		i = 0 // the container of a template
	}
	if i < 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[i]
}

// endings map reasons of the cluster to reasons of atoll.
var endings = map[string]string{
	"OOMKilled": "out_of_memory", "Evicted": "evicted", "DeadlineExceeded": "deadline", "NodeLost": "node_lost", "NodeShutdown": "node_shutdown",
	"Terminated": "node_shutdown", "Preempting": "preempted", "Preempted": "preempted", "UnexpectedAdmissionError": "refused_by_node", "OutOfcpu": "refused_by_node",
	"OutOfmemory": "refused_by_node", "OutOfpods": "refused_by_node", "StartError": "did_not_start", "ContainerCannotRun": "did_not_start",
}

// endOf returns why a pod has ended, in a word and in a line.
func endOf(pod *corev1.Pod) (reason, message string) {
	if r := pod.Status.Reason; r != "" {
		return orText(endings[r], "ended"), strings.TrimSuffix(r+": "+oneLine(pod.Status.Message), ": ")
	}
	all := append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...)
	for _, c := range all {
		if t := c.State.Terminated; t != nil && (t.ExitCode != 0 || c.Name == container) {
			text := fmt.Sprintf("%s: process 1 of container %s ended with status %d", t.Reason, c.Name, t.ExitCode)
			if t.Message != "" {
				text += ": " + oneLine(t.Message)
			}
			return orText(endings[t.Reason], "ended"), text
		}
	}
	return "ended", "its pod has ended (" + string(pod.Status.Phase) + ")"
}

// waitsFor returns in one line why a pod does not run yet.
func waitsFor(pod *corev1.Pod) string {
	if c := findPodCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
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

// hopeless are reasons why a pod will never run, and the errors that they mean.
var hopeless = map[string]error{
	"ErrImagePull": atoll.ErrUnavailable, "ImagePullBackOff": atoll.ErrUnavailable, "ErrImageNeverPull": atoll.ErrUnavailable, "InvalidImageName": atoll.ErrInvalid,
	"ImageInspectError": atoll.ErrUnavailable, "RegistryUnavailable": atoll.ErrUnavailable, "SignatureValidationFailed": atoll.ErrDenied,
	"CreateContainerConfigError": atoll.ErrInvalid, "CreateContainerError": atoll.ErrUnavailable, "RunContainerError": atoll.ErrUnavailable, "CrashLoopBackOff": atoll.ErrUnavailable,
}

// isRunning reports whether a pod's container runs; an error means that it never will. nil is a pod that
// was removed.
func isRunning(pod *corev1.Pod) (bool, error) {
	switch {
	case pod == nil:
		return false, fmt.Errorf("%w: its pod was removed by another client", atoll.ErrUnavailable)
	case pod.DeletionTimestamp != nil:
		return false, fmt.Errorf("%w: its pod is being removed by another client", atoll.ErrUnavailable)
	case hasEnded(pod):
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
