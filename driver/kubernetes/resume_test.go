package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/commandtest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// restartComponents restarts components of the cluster, each while a command writes.
func restartComponents(t *testing.T, c *commandtest.Command, components ...string) {
	t.Helper()
	for _, name := range components {
		clustertest.Tool(t, "kill", name)
		clustertest.Tool(t, "start", name)
		c.WaitForOutput(t)
	}
}

// TestCommandOutlivesRestarts cuts the tunnel of a foreground command and restarts the components between
// atoll and the pod: the command's output is whole, once and in order, and its status is right.
func TestCommandOutlivesRestarts(t *testing.T) {
	t.Run("tunnel", func(t *testing.T) {
		p := newAPIProxy(t, 0)
		d := newDriver(t)
		d.Kubeconfig = p.writeKubeconfig(t)
		c := commandtest.Start(t, createTestSandbox(t, d, atoll.Spec{}))
		for range 3 {
			p.cutConnections()
			c.WaitForOutput(t)
		}
		t.Logf("%d lines", c.Finish(t))
	})
	t.Run("components", func(t *testing.T) {
		c := commandtest.Start(t, createTestSandbox(t, newDriver(t), atoll.Spec{}))
		restartComponents(t, c, "kubelet", "containerd", "apiserver")
		clustertest.Tool(t, "restart", "apiserver") // in order
		c.WaitForOutput(t)
		t.Logf("%d lines", c.Finish(t))
	})
	t.Run("service account", func(t *testing.T) { // an API server refuses it until it has read its rules
		d := newDriver(t)
		d.Kubeconfig = accountKubeconfig(t, d.Namespace)
		c := commandtest.Start(t, createTestSandbox(t, d, atoll.Spec{}))
		restartComponents(t, c, "apiserver", "kubelet")
		t.Logf("%d lines", c.Finish(t))
	})
	t.Run("direct", func(t *testing.T) {
		d := newDriver(t)
		d.Direct = true
		c := commandtest.Start(t, createTestSandbox(t, d, atoll.Spec{}))
		restartComponents(t, c, "kubelet", "apiserver")
		t.Logf("%d lines", c.Finish(t))
	})
	t.Run("placements", func(t *testing.T) {
		testenv.Real(t, "kubernetes")
		guestImages(t)
		for _, how := range []kubernetes.Placement{kubernetes.PlaceImage, kubernetes.PlaceVolume, kubernetes.PlaceInit} {
			t.Run(string(how), func(t *testing.T) {
				d := newDriver(t)
				d.Placement, d.GuestImage = how, guestImage
				var spec atoll.Spec
				if how == kubernetes.PlaceImage {
					spec.Image = withGuest
				}
				c := commandtest.Start(t, createTestSandbox(t, d, spec))
				restartComponents(t, c, "kubelet")
				t.Logf("%d lines", c.Finish(t))
			})
		}
	})
	t.Run("agent-sandbox", func(t *testing.T) {
		d := agentSandboxDriver(t)
		createPool(t, d, "warm", 1)
		c := commandtest.Start(t, createTestSandbox(t, d, templateSpec("warm")))
		restartComponents(t, c, "kubelet", "apiserver")
		t.Logf("%d lines", c.Finish(t))
	})
}

// accountKubeconfig returns the path of a kubeconfig for a service account that may do all in a namespace.
func accountKubeconfig(t *testing.T, namespace string) string {
	t.Helper()
	api := clustertest.API(t)
	if _, err := api.Core.ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "atoll"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b, err := api.Core.RESTClient().Post().AbsPath("/api/v1/namespaces/"+namespace+"/serviceaccounts/atoll/token").
		SetHeader("Accept", "application/json").Body([]byte(`{"spec":{}}`)).Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var token authenticationv1.TokenRequest
	if err := json.Unmarshal(b, &token); err != nil {
		t.Fatal(err)
	}
	rule := fmt.Appendf(nil, `{"metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"ServiceAccount","name":"atoll","namespace":%q}]}`, namespace, namespace)
	at := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/rolebindings"
	if err := api.Core.RESTClient().Post().AbsPath(at).SetHeader("Accept", "application/json").Body(rule).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	admin := clustertest.Config(t)
	cluster := &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthority: admin.CAFile, CertificateAuthorityData: admin.CAData}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"c": cluster},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: token.Status.Token}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCommandOutlivesLostNode stops the kubelet until the cluster takes the node for lost, and starts it
// again: foreground commands continue.
func TestCommandOutlivesLostNode(t *testing.T) {
	agent := agentSandboxDriver(t)
	createPool(t, agent, "warm", 1)
	plain := newDriver(t)
	sandboxes := []atoll.Sandbox{createTestSandbox(t, plain, atoll.Spec{}), createTestSandbox(t, agent, templateSpec("warm"))}
	var list []*commandtest.Command
	for _, sb := range sandboxes {
		list = append(list, commandtest.Start(t, sb))
	}
	clustertest.Tool(t, "stop", "kubelet")
	started := false
	t.Cleanup(func() {
		if !started {
			clustertest.Tool(t, "start", "kubelet")
		}
	})
	for i, d := range []*kubernetes.Driver{plain, agent} {
		testenv.WaitFor(t, "the node is lost", func() bool {
			st, err := sandboxes[i].Status(t.Context())
			return err == nil && !st.Ready()
		})
		again, err := d.Open(t.Context(), sandboxes[i].ID())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = again.Exec(ctx, atoll.Cmd{Args: []string{"true"}})
		if !errors.Is(err, atoll.ErrUnavailable) || errors.Is(err, atoll.ErrState) || errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("a command of a lost node: %v", err)
		}
	}
	clustertest.Tool(t, "start", "kubelet")
	started = true
	for _, c := range list {
		c.WaitForOutput(t)
		t.Logf("%d lines", c.Finish(t))
	}
}

// TestCommandEndsWithPod checks that a command of a pod that is gone fails, and does not wait for another
// connection.
func TestCommandEndsWithPod(t *testing.T) {
	zero := int64(0)
	for name, end := range map[string]func(ctx context.Context, d *kubernetes.Driver, pod string) error{
		"removed": func(ctx context.Context, d *kubernetes.Driver, pod string) error {
			return clustertest.API(t).Core.Pods(d.Namespace).Delete(ctx, pod, metav1.DeleteOptions{})
		},
		"removed at once": func(ctx context.Context, d *kubernetes.Driver, pod string) error {
			return clustertest.API(t).Core.Pods(d.Namespace).Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &zero})
		},
		"ended": func(ctx context.Context, d *kubernetes.Driver, pod string) error {
			_, err := clustertest.API(t).Core.Pods(d.Namespace).Patch(ctx, pod, types.MergePatchType, []byte(`{"spec":{"activeDeadlineSeconds":1}}`), metav1.PatchOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t)
			sb := createTestSandbox(t, d, atoll.Spec{})
			c := commandtest.Start(t, sb)
			if err := end(t.Context(), d, "atoll-"+sb.ID()); err != nil {
				t.Fatal(err)
			}
			if err := c.WaitForFailure(t); !errors.Is(err, atoll.ErrUnavailable) || errors.Is(err, atoll.ErrTimeout) {
				t.Errorf("%v", err)
			} else {
				t.Log(err)
			}
		})
	}
}
