package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	client "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

const agentSandbox = "agent-sandbox"

// agentSandboxComponent returns the controller of kubernetes-sigs/agent-sandbox,
// with claims, templates and warm pools. It runs as a process like the cluster's
// own controllers, not in a pod, so it needs no image.
func agentSandboxComponent(s stateDir) component {
	return component{
		name: agentSandbox,
		args: []string{
			helperPath("agent-sandbox-controller"), "--kubeconfig=" + s.kubeconfigPath("admin"),
			"--extensions", "--leader-elect=false",
			"--metrics-bind-address=127.0.0.1:18080", "--health-probe-bind-address=127.0.0.1:18081",
		},
		probe: newHealthProbe("http://127.0.0.1:18081/readyz"),
	}
}

// installAgentSandbox creates the custom resource definitions, waits until they are
// established, because the controller does not, and starts the controller.
func (sv *supervisor) installAgentSandbox(ctx context.Context) error {
	files, err := filepath.Glob(helperPath("agent-sandbox-crds") + "/*.yaml")
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("agent-sandbox is not built: run 'scripts/cluster --agent-sandbox'")
	}
	c, err := clientcmd.BuildConfigFromFlags("", sv.state.kubeconfigPath("admin"))
	if err != nil {
		return err
	}
	api, err := client.NewForConfig(c)
	if err != nil {
		return err
	}
	g, all := errgroup.WithContext(ctx)
	for _, file := range files {
		g.Go(func() error {
			if err := installDefinition(all, api, file); err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(file), err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return sv.startComponent(ctx, agentSandbox)
}

// installDefinition creates the custom resource definition in a file, unless it
// exists, and waits until it is established.
func installDefinition(ctx context.Context, api client.Interface, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var def extensions.CustomResourceDefinition
	if err := yaml.Unmarshal(b, &def); err != nil {
		return err
	}
	definitions := api.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(ctx, &def, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return pollUntil(ctx, func(ctx context.Context) error {
		d, err := definitions.Get(ctx, def.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range d.Status.Conditions {
			if c.Type == extensions.Established && c.Status == extensions.ConditionTrue {
				return nil
			}
		}
		return errors.New("not established yet")
	})
}
