package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// serve starts what this process does itself for the cluster, until its end:
// volumes for claims and, on the node, network policies.
func (sv *supervisor) serve(ctx context.Context, client *kubernetes.Clientset) error {
	if err := createStorageClass(ctx, client); err != nil {
		return fmt.Errorf("storage class %s: %w", storageClass, err)
	}
	forever := context.WithoutCancel(ctx)
	f := informers.NewSharedInformerFactory(client, 30*time.Second)
	v := volumes{client: client, dir: sv.state.path("volumes"), say: sv.say}
	if err := v.watch(forever, f); err != nil {
		return err
	}
	if sv.options.Node && sv.options.Policies {
		p, err := newPolicies(f, sv.say)
		if err != nil {
			return err
		}
		go p.run(forever)
	}
	f.Start(forever.Done())
	return nil
}
