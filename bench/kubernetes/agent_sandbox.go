package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// resourceOf returns a resource type of kubernetes-sigs/agent-sandbox.
func resourceOf(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: resource}
}

// newObject returns an object of agent-sandbox.
func newObject(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// measureAgentSandbox measures the warm pool of agent-sandbox, used as its
// documentation describes: a claim, a watch until it is ready, an exec.
func (b *bench) measureAgentSandbox(ctx context.Context) error {
	c, err := dynamic.NewForConfig(b.config)
	if err != nil {
		return err
	}
	pools := c.Resource(resourceOf("sandboxwarmpools")).Namespace(b.namespace)
	template := newObject("SandboxTemplate", "bench", map[string]any{
		"networkPolicyManagement": "Unmanaged",
		"podTemplate": map[string]any{"spec": map[string]any{
			"automountServiceAccountToken": false, "terminationGracePeriodSeconds": int64(0),
			"containers": []any{map[string]any{
				"name": container, "image": "busybox:latest", "imagePullPolicy": "IfNotPresent", "command": []any{"sleep", "1000000"},
			}},
		}},
	})
	_, err = c.Resource(resourceOf("sandboxtemplates")).Namespace(b.namespace).Create(ctx, template, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		fmt.Fprintln(os.Stderr, "bench/kubernetes: agent-sandbox is not installed in this cluster: it is left out")
		return nil
	}
	if err != nil {
		return err
	}
	pool := newObject("SandboxWarmPool", "bench", map[string]any{"replicas": int64(b.crowd), "sandboxTemplateRef": map[string]any{"name": "bench"}})
	if _, err := pools.Create(ctx, pool, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.waitForFullPool(ctx, pools); err != nil {
		return err
	}
	const what = "agent-sandbox's warm pool, client-go's exec"
	n := 0
	list, err := timeRepeated(b.crowd/2, func() error { n++; return b.claimAndRun(ctx, c, fmt.Sprintf("one-%d", n)) })
	b.addRow(claimPart, what, list, "", err)
	if err := b.waitForFullPool(ctx, pools); err != nil {
		return err
	}
	took, all, err := timeConcurrent(b.crowd, func(i int) error { return b.claimAndRun(ctx, c, fmt.Sprintf("many-%d", i)) })
	b.addRow(claimPart+atOnce(b.crowd), what, took, fmt.Sprintf("all in %v", roundDuration(all)), err)
	return nil
}

// waitForFullPool waits until the pool has all its pods.
func (b *bench) waitForFullPool(ctx context.Context, pools dynamic.ResourceInterface) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		p, err := pools.Get(ctx, "bench", metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("the warm pool: %w", err)
		}
		ready, _, err := unstructured.NestedInt64(p.Object, "status", "readyReplicas")
		if err != nil || ready >= int64(b.crowd) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the warm pool has %d of %d pods: %w", ready, b.crowd, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// claimAndRun claims a sandbox and runs a command in it.
func (b *bench) claimAndRun(ctx context.Context, c dynamic.Interface, name string) error {
	claims := c.Resource(resourceOf("sandboxclaims")).Namespace(b.namespace)
	made, err := claims.Create(ctx, newObject("SandboxClaim", name, map[string]any{"warmPoolRef": map[string]any{"name": "bench"}}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	w, err := claims.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: made.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		now, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Deleted || !readyNow(now) {
			continue
		}
		pod, _, err := unstructured.NestedString(now.Object, "status", "sandbox", "name")
		if err != nil || pod == "" {
			return errors.Join(err, errors.New("a claim that is ready has no sandbox"))
		}
		var out bytes.Buffer
		if err := b.execLikeKubectl(ctx, pod, container, nil, &out, "echo", "hi"); err != nil {
			return err
		}
		return nil
	}
	return fmt.Errorf("the watch of claim %s ended: %w", name, context.Cause(ctx))
}

// readyNow reports whether a claim is ready.
func readyNow(claim *unstructured.Unstructured) bool {
	list, _, err := unstructured.NestedSlice(claim.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == "Ready" && m["status"] == "True" {
			return true
		}
	}
	return false
}
