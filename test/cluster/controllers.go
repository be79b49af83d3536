package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// startControllers starts the controllers that run in this process until it exits:
// the volume provisioner and, with a node, the enforcement of network policies.
func (sv *supervisor) startControllers(ctx context.Context, client *kubernetes.Clientset) error {
	if err := createStorageClass(ctx, client); err != nil {
		return fmt.Errorf("storage class %s: %w", storageClass, err)
	}
	forever := context.WithoutCancel(ctx)
	f := informers.NewSharedInformerFactory(client, 30*time.Second)
	v := volumeProvisioner{client: client, dir: sv.state.joinPath("volumes"), logf: sv.logf}
	if err := v.watchClaims(forever, f); err != nil {
		return err
	}
	if sv.options.Node && sv.options.Policies {
		p, err := newPolicyEnforcer(f, sv.logf)
		if err != nil {
			return err
		}
		go p.run(forever)
	}
	f.Start(forever.Done())
	return nil
}
