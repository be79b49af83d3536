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

// kind is a kind of kubernetes-sigs/agent-sandbox.
func kind(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: resource}
}

// thing makes an object of agent-sandbox.
func thing(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// others measures the warm pool of agent-sandbox, used as its documents say: a
// claim, a watch until it is ready, an exec.
func (b *bench) others(ctx context.Context) error {
	c, err := dynamic.NewForConfig(b.config)
	if err != nil {
		return err
	}
	pools := c.Resource(kind("sandboxwarmpools")).Namespace(b.namespace)
	template := thing("SandboxTemplate", "bench", map[string]any{
		"networkPolicyManagement": "Unmanaged",
		"podTemplate": map[string]any{"spec": map[string]any{
			"automountServiceAccountToken": false, "terminationGracePeriodSeconds": int64(0),
			"containers": []any{map[string]any{
				"name": container, "image": "busybox:latest", "imagePullPolicy": "IfNotPresent", "command": []any{"sleep", "1000000"},
			}},
		}},
	})
	_, err = c.Resource(kind("sandboxtemplates")).Namespace(b.namespace).Create(ctx, template, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		fmt.Fprintln(os.Stderr, "bench/kubernetes: no agent-sandbox in this cluster: it is left out")
		return nil
	}
	if err != nil {
		return err
	}
	pool := thing("SandboxWarmPool", "bench", map[string]any{"replicas": int64(b.crowd), "sandboxTemplateRef": map[string]any{"name": "bench"}})
	if _, err := pools.Create(ctx, pool, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.full(ctx, pools); err != nil {
		return err
	}
	const what = "agent-sandbox's warm pool, client-go's exec"
	n := 0
	list, err := repeat(b.crowd/2, func() error { n++; return b.borrow(ctx, c, fmt.Sprintf("one-%d", n)) })
	b.add(claimPart, what, list, "", err)
	if err := b.full(ctx, pools); err != nil {
		return err
	}
	took, all, err := together(b.crowd, func(i int) error { return b.borrow(ctx, c, fmt.Sprintf("many-%d", i)) })
	b.add(claimPart+atOnce(b.crowd), what, took, fmt.Sprintf("all in %v", short(all)), err)
	return nil
}

// full waits until the pool has all its pods.
func (b *bench) full(ctx context.Context, pools dynamic.ResourceInterface) error {
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

// borrow claims one and runs a command in it.
func (b *bench) borrow(ctx context.Context, c dynamic.Interface, name string) error {
	claims := c.Resource(kind("sandboxclaims")).Namespace(b.namespace)
	made, err := claims.Create(ctx, thing("SandboxClaim", name, map[string]any{"warmPoolRef": map[string]any{"name": "bench"}}), metav1.CreateOptions{})
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
		if err := b.peer(ctx, pod, container, nil, &out, "echo", "hi"); err != nil {
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
