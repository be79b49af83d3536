package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/yaml"

	"github.com/atoll-sandbox/atoll/driver/kubernetes/kubeapi"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "kubernetes", fetchModulesAndRun)) }

// fetchModulesAndRun downloads the modules of the renderer, because the cluster has no
// network, and runs the tests.
func fetchModulesAndRun(m *testing.M) int {
	if os.Getenv("ATOLL_CLUSTER") != "" && os.Getenv("ATOLL_CLUSTER_STATE") == "" {
		cmd := exec.Command("go", "build", "-o", os.DevNull, ".")
		cmd.Dir = "render"
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the renderer: %v: %s\n", err, out)
			return 1
		}
	}
	return clustertest.Main(m)
}

// The namespaces of the manifests.
const (
	system  = "atoll-system"
	boxes   = "atoll"
	program = "/atoll" // in the server's image
	port    = "8484"
)

const clusterTimeout = time.Minute // for one operation of the cluster

// installation is a cluster in which atoll is installed.
type installation struct {
	t    testing.TB
	api  *kubeapi.API
	bin  string // path of atoll, with packed helpers
	home string // home directory of the clients
}

// newInstallation builds the server and imports its image into the cluster. Installed
// objects are removed when the test ends.
func newInstallation(t testing.TB) *installation {
	t.Helper()
	clustertest.RemoveNamespace(t, system) // skips the test without a cluster
	clustertest.RemoveNamespace(t, boxes)
	p := &installation{t: t, api: clustertest.API(t), bin: filepath.Join(t.TempDir(), "atoll"), home: t.TempDir()}
	binary, err := os.ReadFile(testenv.Atoll(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.bin, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	var helpers []string
	for _, name := range []string{"atoll-guest", "atoll-egress", "atoll-tool"} {
		path, err := helper.Finder{}.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		helpers = append(helpers, path)
	}
	if err := helper.Pack(p.bin, helpers...); err != nil {
		t.Fatal(err)
	}
	clustertest.Tool(t, "image", "--entrypoint", program, "--cmd", "serve", "--user", "65532:65532", "--env", "PATH=/", "atoll/server:latest", program+"="+p.bin)
	return p
}

// applyManifests renders a directory of deploy/kubernetes and applies its objects.
func (p *installation) applyManifests(dir string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "go", "run", ".", "../../../deploy/kubernetes/"+dir)
	cmd.Dir = "render"
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("rendering %s: %v", dir, err)
	}
	for _, doc := range strings.Split(string(out), "\n---\n") { // namespaces are first
		p.applyObject([]byte(doc))
	}
}

// applyObject applies one object.
func (p *installation) applyObject(doc []byte) {
	p.t.Helper()
	var o struct {
		APIVersion string `json:"apiVersion"`
		Kind       string
		Metadata   metav1.ObjectMeta
	}
	if err := yaml.Unmarshal(doc, &o); err != nil {
		p.t.Fatal(err)
	}
	path := "/apis/" + o.APIVersion
	if o.APIVersion == "v1" {
		path = "/api/v1"
	}
	if o.Metadata.Namespace != "" {
		path += "/namespaces/" + o.Metadata.Namespace
	}
	kind := strings.ToLower(o.Kind) + "s"
	if strings.HasSuffix(kind, "ys") {
		kind = strings.TrimSuffix(kind, "ys") + "ies"
	}
	if strings.HasSuffix(kind, "sss") {
		kind = strings.TrimSuffix(kind, "s") + "es"
	}
	err := p.api.Core.RESTClient().Patch(types.ApplyYAMLPatchType).AbsPath(path, kind, o.Metadata.Name).
		Param("fieldManager", "test").Param("force", "true").Body(doc).Do(p.t.Context()).Error()
	if err != nil {
		p.t.Fatalf("applying %s %s: %v", o.Kind, o.Metadata.Name, err)
	}
}

// waitForServers waits until n pods of the newest Deployment are ready and no others
// exist.
func (p *installation) waitForServers(n int) []corev1.Pod {
	p.t.Helper()
	var list []corev1.Pod
	p.waitFor("servers are ready", func(ctx context.Context) error {
		d := struct {
			Metadata struct{ Generation int64 }
			Status   struct {
				ObservedGeneration                       int64
				Replicas, UpdatedReplicas, ReadyReplicas int
			}
		}{}
		b, err := p.api.Core.RESTClient().Get().AbsPath("/apis/apps/v1/namespaces", system, "deployments/atoll").SetHeader("Accept", "application/json").Do(ctx).Raw()
		if err == nil {
			err = json.Unmarshal(b, &d)
		}
		if err != nil {
			return err
		}
		pods, err := p.api.Core.Pods(system).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=atoll"})
		if err != nil {
			return err
		}
		list = pods.Items
		if s := d.Status; s.ObservedGeneration < d.Metadata.Generation || s.UpdatedReplicas != n || s.ReadyReplicas != n || len(list) != n {
			return fmt.Errorf("%d of %d pods are ready, %d exist: %s", s.ReadyReplicas, n, len(list), p.describePods(ctx, list))
		}
		return nil
	})
	return list
}

// describePods returns the problems of pods.
func (p *installation) describePods(ctx context.Context, pods []corev1.Pod) string {
	var b strings.Builder
	for _, pod := range pods {
		for _, s := range pod.Status.ContainerStatuses {
			fmt.Fprintf(&b, "%s: %+v %+v; ", pod.Name, s.State, s.LastTerminationState)
		}
		if log, err := p.api.Core.Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx); err == nil {
			fmt.Fprintf(&b, "log: %s; ", log)
		}
	}
	return b.String()
}

// waitFor calls check repeatedly until it returns nil.
func (p *installation) waitFor(what string, check func(ctx context.Context) error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), clusterTimeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			p.t.Fatalf("timeout: %s: %v", what, err)
		case <-time.After(50 * time.Millisecond): // there is no event
		}
	}
}

// execInPod runs a command in a server's pod, as `kubectl exec` does.
func (p *installation) execInPod(pod string, args ...string) (stdout string, err error) {
	req := p.api.Core.RESTClient().Get().Namespace(system).Resource("pods").Name(pod).SubResource("exec").Param("container", "atoll").Param("stdout", "true").Param("stderr", "true")
	for _, a := range args {
		req.Param("command", a)
	}
	do, err := remotecommand.NewWebSocketExecutor(clustertest.Config(p.t), "GET", req.URL().String())
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), clusterTimeout)
	defer cancel()
	var out, errOut bytes.Buffer
	err = do.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut})
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errOut.String())
	}
	return out.String(), err
}

// remoteClient is a client of a server outside of the cluster.
type remoteClient struct {
	p     *installation
	host  string
	token string
}

// logIn logs in as the documentation describes: it creates a token in the server's pod
// and connects to the server through a tunnel.
func (p *installation) logIn(pod corev1.Pod, owner string) *remoteClient {
	p.t.Helper()
	token, err := p.execInPod(pod.Name, program, "token", "create", "--owner", owner, "--quiet")
	if err != nil {
		p.t.Fatal(err)
	}
	return &remoteClient{p, p.openTunnel(net.JoinHostPort(pod.Status.PodIP, port)), strings.TrimSpace(token)}
}

// openTunnel forwards a port of this machine to an address in the cluster and returns
// its address.
func (p *installation) openTunnel(address string) string {
	p.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(p.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	p.forwardConnections(l, "tcp", address)
	return "http://" + l.Addr().String()
}

// forwardConnections forwards connections of a listener to an address until the test
// ends.
func (p *installation) forwardConnections(l net.Listener, network, address string) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := make(map[net.Conn]bool) // guarded by mu
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open[c] = true
	}
	wg.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			keep(from)
			wg.Go(func() {
				defer from.Close()
				to, err := net.DialTimeout(network, address, 10*time.Second)
				if err != nil {
					return // the client sees the closed connection
				}
				keep(to)
				defer to.Close()
				wg.Go(func() {
					defer from.Close()
					defer to.Close()
					_, _ = io.Copy(to, from) // either end may close first
				})
				_, _ = io.Copy(from, to)
			})
		}
	})
	p.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			p.t.Error(err)
		}
		mu.Lock()
		for c := range open {
			_ = c.Close() // most are closed already
		}
		mu.Unlock()
		wg.Wait()
	})
}

// runAtoll runs the atoll command against the server and returns its output.
func (c *remoteClient) runAtoll(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.p.t.Context(), clusterTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.p.bin, args...)
	cmd.Env = []string{"HOME=" + c.p.home, "ATOLL_HOST=" + c.host, "ATOLL_TOKEN=" + c.token, "PATH=" + os.Getenv("PATH")}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("atoll %s: %w: %s", strings.Join(args, " "), err, errOut.String())
	}
	return out.String(), err
}

// checkOutput runs a command that must succeed and print a text.
func (c *remoteClient) checkOutput(want string, args ...string) {
	c.p.t.Helper()
	out, err := c.runAtoll(args...)
	if err != nil {
		c.p.t.Fatal(err)
	}
	if out != want {
		c.p.t.Fatalf("atoll %s prints %q, want %q", strings.Join(args, " "), out, want)
	}
}

// checkEmpty checks that a namespace has no sandboxes' pods, volumes and secrets.
func (p *installation) checkEmpty(namespace string) {
	p.t.Helper()
	p.waitFor("namespace "+namespace+" is empty", func(ctx context.Context) error {
		mine := metav1.ListOptions{LabelSelector: "atoll.dev/id"}
		pods, err1 := p.api.Core.Pods(namespace).List(ctx, mine)
		volumes, err2 := p.api.Core.PersistentVolumeClaims(namespace).List(ctx, mine)
		secrets, err3 := p.api.Core.Secrets(namespace).List(ctx, mine)
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		if n := len(pods.Items) + len(volumes.Items) + len(secrets.Items); n > 0 {
			return fmt.Errorf("%d objects are left", n)
		}
		return nil
	})
}

// deleteObject deletes an object, which may not exist.
func (p *installation) deleteObject(path ...string) {
	p.t.Helper()
	err := p.api.Core.RESTClient().Delete().AbsPath(path...).Do(p.t.Context()).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		p.t.Fatal(err)
	}
}
