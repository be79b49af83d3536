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

// boot starts everything and returns when pods can be made.
func (sv *supervisor) boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sv.options.Timeout)
	defer cancel()
	if err := os.MkdirAll(sv.state.path("logs"), 0o755); err != nil {
		return err
	}
	if err := setUpNetwork(); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := writeKeys(sv.state); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	runtime := make(chan error, 1)
	go func() { runtime <- sv.bootRuntime(ctx) }()
	err := sv.bootControl(ctx)
	if err == nil {
		err = sv.bootNode(ctx, runtime)
	}
	if err != nil {
		return err
	}
	client, err := sv.client("admin")
	if err != nil {
		return err
	}
	if err := sv.serve(ctx, client); err != nil {
		return err
	}
	if err := sv.awaitUsable(ctx, client); err != nil {
		return err
	}
	if sv.options.AgentSandbox {
		if err := sv.installAgentSandbox(ctx); err != nil {
			return err
		}
	}
	sv.say("the cluster is ready")
	return nil
}

// bootControl starts etcd and the API server, then what only calls that.
func (sv *supervisor) bootControl(ctx context.Context) error {
	for _, name := range []string{"etcd", "apiserver"} {
		if err := sv.start(ctx, name); err != nil {
			return err
		}
	}
	l, err := net.Listen("unix", sv.state.path("api.sock"))
	if err != nil {
		return err
	}
	go relay(l, "tcp", "127.0.0.1:6443") // until the namespaces end
	return nil
}

// bootRuntime starts containerd and gives it the images that pods need.
func (sv *supervisor) bootRuntime(ctx context.Context) error {
	if !sv.options.Node {
		return nil
	}
	if err := writeNode(sv.state, sv.options); err != nil {
		return err
	}
	if err := sv.start(ctx, "containerd"); err != nil {
		return err
	}
	pause := image{name: pauseImage, cmd: []string{"/pause"}, files: []string{"/pause=" + beside("pause")}}
	if err := pause.load(ctx, sv.state); err != nil {
		return err
	}
	busybox := image{name: "docker.io/library/busybox:latest", cmd: []string{"sh"}, busybox: true}
	return busybox.load(ctx, sv.state)
}

// bootNode starts the rest at once, the kubelet when its runtime is there.
func (sv *supervisor) bootNode(ctx context.Context, runtime <-chan error) error {
	g, ctx := errgroup.WithContext(ctx)
	names := []string{"controller-manager", "scheduler"}
	if sv.options.Node {
		names = append(names, "proxy")
	}
	for _, name := range names {
		g.Go(func() error { return sv.start(ctx, name) })
	}
	g.Go(func() error {
		if err := <-runtime; err != nil || !sv.options.Node {
			return err
		}
		return sv.start(ctx, "kubelet")
	})
	return g.Wait()
}

// client calls the API server as one of the users.
func (sv *supervisor) client(user string) (*kubernetes.Clientset, error) {
	c, err := clientcmd.BuildConfigFromFlags("", sv.state.kubeconfig(user))
	if err != nil {
		return nil, err
	}
	c.QPS = -1 // the server limits
	return kubernetes.NewForConfig(c)
}

// awaitUsable waits for what the first pod needs.
func (sv *supervisor) awaitUsable(ctx context.Context, client *kubernetes.Clientset) error {
	err := until(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("service account default: %w", err)
	}
	sv.say("the service account default is there")
	if !sv.options.Node {
		return nil
	}
	if hasGVisor() {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}
		if _, err := client.NodeV1().RuntimeClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("runtime class gvisor: %w", err)
		}
	}
	err = until(ctx, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return nodeReady(node)
	})
	if err != nil {
		return fmt.Errorf("node: %w\n%s", err, sv.tail("kubelet"))
	}
	sv.say("the node is ready")
	return nil
}

// nodeReady says what a node lacks to take pods.
func nodeReady(node *corev1.Node) error {
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
	return errors.New("it has not said whether it is ready")
}

// ctr calls containerd's own client.
func ctr(ctx context.Context, s state, args ...string) error {
	args = append([]string{"--address", s.containerd(), "--namespace", "k8s.io"}, args...)
	out, err := exec.CommandContext(ctx, beside("ctr"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr: %w: %s", err, out)
	}
	return nil
}
