//go:build linux

// Package trial tests the test cluster itself: that it starts, runs pods, provisions
// volumes, enforces policies, restarts components and leaves nothing behind.
package trial

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
)

// insideVar is the environment variable that is set when the test runs in a cluster.
const insideVar = "ATOLL_CLUSTER_TRIAL"

// findTool returns the path of the cluster tool. Without it the test is skipped, or
// fails if ATOLL_MUST names "kubernetes".
func findTool(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("ATOLL_CLUSTER"); path != "" {
		return path
	}
	const missing = `no test cluster: eval "$(scripts/cluster)"`
	if slices.Contains(strings.Split(os.Getenv("ATOLL_MUST"), ","), "kubernetes") {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// TestLeavesNothing runs TestInsideCluster in a cluster, and then checks that no files,
// processes, mounts or cgroups of the cluster are left.
func TestLeavesNothing(t *testing.T) {
	if os.Getenv(insideVar) != "" {
		t.Skip("runs outside of the cluster only")
	}
	cluster := findTool(t)
	before := listTraces(t)
	dir := filepath.Join(t.TempDir(), "cluster-trial")
	c := exec.CommandContext(t.Context(), cluster, "run", "--state", dir, "--",
		os.Args[0], "-test.run=^TestInsideCluster$", "-test.v="+fmt.Sprint(testing.Verbose()))
	c.Env = append(os.Environ(), insideVar+"=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
	if processes := exec.Command("pgrep", "-f", dir); processes.Run() == nil {
		t.Errorf("processes of the cluster are left")
	}
	for trace := range listTraces(t) {
		if !before[trace] && strings.Contains(trace, "cluster-trial") {
			t.Errorf("left: %s", trace)
		}
	}
}

func TestExitCodeOfCommand(t *testing.T) {
	if os.Getenv(insideVar) != "" {
		t.Skip("runs outside of the cluster only")
	}
	cluster := findTool(t)
	var e *exec.ExitError
	err := exec.CommandContext(t.Context(), cluster, "run", "--node=false", "--", "sh", "-c", "exit 5").Run()
	if !errors.As(err, &e) || e.ExitCode() != 5 {
		t.Errorf("got %v, want exit code 5", err)
	}
}

// TestKillingTheToolEndsTheCluster checks that a cluster has no processes left after
// its tool was killed.
func TestKillingTheToolEndsTheCluster(t *testing.T) {
	if os.Getenv(insideVar) != "" {
		t.Skip("runs outside of the cluster only")
	}
	dir := filepath.Join(t.TempDir(), "cluster-killed")
	c := exec.Command(findTool(t), "run", "--node=false", "--state", dir, "--", "sh", "-c", "echo up; exec sleep 1000")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "up\n" {
		t.Errorf("got %q, %v; want up", line, err)
	}
	if exec.Command("pgrep", "-f", dir).Run() != nil {
		t.Error("no process has the directory in its arguments: the test cannot detect any")
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	for deadline := time.Now().Add(10 * time.Second); exec.Command("pgrep", "-f", dir).Run() == nil; {
		if time.Now().After(deadline) {
			t.Fatal("processes are left after 10 s")
		}
	}
}

// listTraces returns the mounts, cgroups and network namespaces of this machine.
func listTraces(t *testing.T) map[string]bool {
	t.Helper()
	set := make(map[string]bool)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		set[line] = true
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*", "/run/netns/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			set[n] = true
		}
	}
	return set
}

func TestInsideCluster(t *testing.T) {
	if os.Getenv(insideVar) == "" {
		t.Skip("TestLeavesNothing runs this test in a cluster")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	b := testCluster{client, config}
	t.Run("Exec", b.testExec)
	t.Run("Volume", b.testVolume)
	t.Run("Policy", b.testPolicy)
	t.Run("Restart", b.testRestart)
}

// testCluster is the cluster in which the test runs.
type testCluster struct {
	client *kubernetes.Clientset
	config *rest.Config
}

// createPod creates a pod of busybox and waits until it is ready.
func (b testCluster) createPod(t *testing.T, name string, change func(*corev1.PodSpec), args ...string) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	pods := b.client.CoreV1().Pods("default")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "main", Image: "busybox:latest", ImagePullPolicy: corev1.PullNever, Command: args,
			}},
		},
	}
	if change != nil {
		change(&pod.Spec)
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.removePod(t, name) })
	return b.waitForPod(t, name, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
}

// waitForPod watches a pod until wanted returns true. Its argument is nil if the pod
// does not exist.
func (b testCluster) waitForPod(t *testing.T, name string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	pods := b.client.CoreV1().Pods("default")
	one := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	list, err := pods.List(ctx, one)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 && wanted(nil) {
		return nil
	}
	one.ResourceVersion = list.ResourceVersion
	if len(list.Items) == 1 && wanted(&list.Items[0]) {
		return &list.Items[0]
	}
	w, err := pods.Watch(ctx, one)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("watch: %v", e.Object)
		}
		if e.Type == "DELETED" {
			pod = nil
		}
		if wanted(pod) {
			return pod
		}
	}
	t.Fatalf("pod %s does not reach the wanted state in 30 s", name)
	return nil
}

func (b testCluster) removePod(t *testing.T, name string) {
	t.Helper()
	err := b.client.CoreV1().Pods("default").Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	if err != nil {
		t.Error(err)
	}
	b.waitForPod(t, name, func(p *corev1.Pod) bool { return p == nil })
}

// execInPod runs a command in a pod and returns its output and exit code.
func (b testCluster) execInPod(t *testing.T, pod string, args ...string) (string, int) {
	t.Helper()
	req := b.client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: args, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	e, err := remotecommand.NewWebSocketExecutor(b.config, "GET", req.URL().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out, errOut bytes.Buffer // two buffers, because both are written at once
	err = e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut})
	var code utilexec.CodeExitError
	switch {
	case errors.As(err, &code):
		return out.String() + errOut.String(), code.Code
	case err != nil:
		t.Fatalf("exec %q: %v\n%s%s", args, err, &out, &errOut)
	}
	return out.String() + errOut.String(), 0
}

func (b testCluster) testExec(t *testing.T) {
	b.createPod(t, "exec", nil, "sleep", "1000")
	if out, code := b.execInPod(t, "exec", "sh", "-c", "echo said; exit 7"); out != "said\n" || code != 7 {
		t.Errorf("got %q and code %d, want its output and 7", out, code)
	}
}

// testVolume checks that a claim's files are writable for its pod's fsGroup, outlive
// pods, and are removed with the claim.
func (b testCluster) testVolume(t *testing.T) {
	claims := b.client.CoreV1().PersistentVolumeClaims("default")
	_, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mount := func(s *corev1.PodSpec) {
		s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(2000))}
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
		s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
	t.Run("Write", func(t *testing.T) {
		b.createPod(t, "writer", mount, "sleep", "1000")
		if out, code := b.execInPod(t, "writer", "sh", "-c", "echo kept > /v/f"); code != 0 {
			t.Fatal(out)
		}
	})
	t.Run("Read", func(t *testing.T) {
		b.createPod(t, "reader", mount, "sleep", "1000")
		if out, _ := b.execInPod(t, "reader", "cat", "/v/f"); out != "kept\n" {
			t.Errorf("the second pod reads %q", out)
		}
	})
	if err := claims.Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.waitForNoVolumes(t)
	left, err := filepath.Glob(filepath.Join(os.Getenv("ATOLL_CLUSTER_STATE"), "volumes", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("data is left: %v %v", left, err)
	}
}

func (b testCluster) waitForNoVolumes(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	volumes := b.client.CoreV1().PersistentVolumes()
	list, err := volumes.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := volumes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for left := len(list.Items); left > 0; {
		e, ok := <-w.ResultChan()
		if !ok {
			t.Fatal("the volume is not removed in 30 s")
		}
		if e.Type == "DELETED" {
			left--
		}
	}
}

// testPolicy checks that a policy blocks connections that it does not allow, and no
// others.
func (b testCluster) testPolicy(t *testing.T) {
	web := b.createPod(t, "web", nil, "httpd", "-f", "-p", "80")
	b.createPod(t, "friend", nil, "sleep", "1000")
	b.createPod(t, "stranger", nil, "sleep", "1000")
	reach := func(from string) bool {
		_, code := b.execInPod(t, from, "sh", "-c", "nc -w 1 "+web.Status.PodIP+" 80 </dev/null")
		return code == 0
	}
	if !reach("friend") || !reach("stranger") {
		t.Fatal("pods can't connect to each other without a policy")
	}
	_, err := b.client.NetworkingV1().NetworkPolicies("default").Create(t.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"name": "web"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
				{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "friend"}}},
			}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); reach("stranger"); { // there is no event when it is in force
		if time.Now().After(deadline) {
			t.Fatal("the stranger can connect in spite of the policy")
		}
	}
	if !reach("friend") {
		t.Error("the policy blocks a connection that it allows")
	}
}

// testRestart checks that pods survive restarts of containerd, the kubelet and the API
// server.
func (b testCluster) testRestart(t *testing.T) {
	b.createPod(t, "lasting", nil, "sleep", "1000")
	for _, name := range []string{"containerd", "kubelet", "apiserver"} {
		for _, verb := range []string{"kill", "start"} {
			if out, err := exec.CommandContext(t.Context(), os.Getenv("ATOLL_CLUSTER"), verb, name).CombinedOutput(); err != nil {
				t.Fatalf("%s %s: %v\n%s", verb, name, err, out)
			}
		}
	}
	pod, err := b.client.CoreV1().Pods("default").Get(t.Context(), "lasting", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := pod.Status.ContainerStatuses; len(s) != 1 || s[0].RestartCount != 0 || s[0].State.Running == nil {
		t.Errorf("the pod was restarted: %v", s)
	}
}
