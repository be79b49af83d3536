package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// bootCluster starts all components and returns when pods can be created.
func (sv *supervisor) bootCluster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sv.options.Timeout)
	defer cancel()
	if err := os.MkdirAll(sv.state.joinPath("logs"), 0o755); err != nil {
		return err
	}
	if err := setUpNetwork(); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := writeKeys(sv.state); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	runtime := make(chan error, 1)
	go func() { runtime <- sv.startRuntime(ctx) }()
	err := sv.startControlPlane(ctx)
	if err == nil {
		err = sv.startRemaining(ctx, runtime)
	}
	if err != nil {
		return err
	}
	client, err := sv.newClient("admin")
	if err != nil {
		return err
	}
	if err := sv.startControllers(ctx, client); err != nil {
		return err
	}
	if err := sv.waitUntilUsable(ctx, client); err != nil {
		return err
	}
	if sv.options.AgentSandbox {
		if err := sv.installAgentSandbox(ctx); err != nil {
			return err
		}
	}
	sv.logf("the cluster is ready")
	return nil
}

// startControlPlane starts etcd and the API server, and serves the API on a unix
// socket in the state directory.
func (sv *supervisor) startControlPlane(ctx context.Context) error {
	for _, name := range []string{"etcd", "apiserver"} {
		if err := sv.startComponent(ctx, name); err != nil {
			return err
		}
	}
	l, err := net.Listen("unix", sv.state.joinPath("api.sock"))
	if err != nil {
		return err
	}
	go relayConnections(l, "tcp", "127.0.0.1:6443") // until the namespaces end
	return nil
}

// startRuntime starts containerd and imports the pause and busybox images. Without
// a node it does nothing.
func (sv *supervisor) startRuntime(ctx context.Context) error {
	if !sv.options.Node {
		return nil
	}
	if err := writeNodeConfig(sv.state, sv.options); err != nil {
		return err
	}
	if err := sv.startComponent(ctx, "containerd"); err != nil {
		return err
	}
	pause := image{name: pauseImage, cmd: []string{"/pause"}, files: []string{"/pause=" + helperPath("pause")}}
	if err := pause.loadIntoNode(ctx, sv.state); err != nil {
		return err
	}
	busybox := image{name: "docker.io/library/busybox:latest", cmd: []string{"sh"}, busybox: true}
	return busybox.loadIntoNode(ctx, sv.state)
}

// startRemaining starts the other components concurrently; the kubelet starts when
// runtime reports that containerd is ready.
func (sv *supervisor) startRemaining(ctx context.Context, runtime <-chan error) error {
	g, ctx := errgroup.WithContext(ctx)
	names := []string{"controller-manager", "scheduler"}
	if sv.options.Node {
		names = append(names, "proxy")
	}
	for _, name := range names {
		g.Go(func() error { return sv.startComponent(ctx, name) })
	}
	g.Go(func() error {
		if err := <-runtime; err != nil || !sv.options.Node {
			return err
		}
		return sv.startComponent(ctx, "kubelet")
	})
	return g.Wait()
}

// newClient returns a client of the API server that authenticates as a user.
func (sv *supervisor) newClient(user string) (*kubernetes.Clientset, error) {
	c, err := clientcmd.BuildConfigFromFlags("", sv.state.kubeconfigPath(user))
	if err != nil {
		return nil, err
	}
	c.QPS = -1 // the server limits the rate
	return kubernetes.NewForConfig(c)
}

// waitUntilUsable waits for what a pod needs: the default service account and a
// ready node. It creates the runtime class gvisor if gVisor is installed.
func (sv *supervisor) waitUntilUsable(ctx context.Context, client *kubernetes.Clientset) error {
	err := pollUntil(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("service account default: %w", err)
	}
	sv.logf("the service account default exists")
	if !sv.options.Node {
		return nil
	}
	if hasGVisor() {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}
		if _, err := client.NodeV1().RuntimeClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("runtime class gvisor: %w", err)
		}
	}
	err = pollUntil(ctx, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return checkNodeReady(node)
	})
	if err != nil {
		return fmt.Errorf("node: %w\n%s", err, sv.readLogTail("kubelet"))
	}
	sv.logf("the node is ready")
	return nil
}

// checkNodeReady returns nil if pods can be scheduled on a node, else the reason
// why not.
func checkNodeReady(node *corev1.Node) error {
	for _, t := range node.Spec.Taints {
		return fmt.Errorf("it has the taint %s", t.Key)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("it is not ready: %s", c.Message)
		}
	}
	return errors.New("it has no condition Ready")
}

// runCtr runs ctr, containerd's command line client.
func runCtr(ctx context.Context, s stateDir, args ...string) error {
	args = append([]string{"--address", s.containerdSocket(), "--namespace", "k8s.io"}, args...)
	out, err := exec.CommandContext(ctx, helperPath("ctr"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr: %w: %s", err, out)
	}
	return nil
}
