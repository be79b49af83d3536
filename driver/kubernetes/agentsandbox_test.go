package kubernetes_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// controller starts the agent-sandbox controller in the first test that needs it.
var controller sync.Once

// agentSandboxDriver returns a driver of a cluster with kubernetes-sigs/agent-sandbox.
func agentSandboxDriver(t testing.TB) *kubernetes.Driver {
	t.Helper()
	d := newDriver(t)
	if _, err := os.Stat(filepath.Join(filepath.Dir(os.Getenv("ATOLL_CLUSTER")), "agent-sandbox-controller")); err != nil {
		testenv.Skip(t, "agent-sandbox", `its controller was not built: eval "$(scripts/cluster --agent-sandbox)"`)
	}
	controller.Do(func() { clustertest.Tool(t, "agent-sandbox") })
	return d
}

// applyYAML applies YAML documents to the cluster.
func applyYAML(t testing.TB, d *kubernetes.Driver, text []byte) {
	t.Helper()
	c := clustertest.API(t).Core.RESTClient()
	for doc := range strings.SplitSeq(string(text), "---\n") {
		var o struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		at := "/apis/" + o.APIVersion + "/namespaces/" + d.Namespace + "/" + strings.ToLower(o.Kind) + "s/" + o.Metadata.Name
		err := c.Verb(http.MethodPatch).AbsPath(at).SetHeader("Content-Type", string(types.ApplyPatchType)).SetHeader("Accept", "application/json").
			Param("fieldManager", "test").Param("force", "true").Body([]byte(doc)).Do(t.Context()).Error()
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
	}
}

// createPool creates a template and waits until some of its pods are ready.
func createPool(t testing.TB, d *kubernetes.Driver, name string, n int) {
	t.Helper()
	text, err := d.Template(t.Context(), name, atoll.Spec{}, n)
	if err != nil {
		t.Fatal(err)
	}
	applyYAML(t, d, text)
	waitForPods(t, d, name, n)
}

// waitForPods waits until a pool has a number of ready pods.
func waitForPods(t testing.TB, d *kubernetes.Driver, pool string, n int) {
	t.Helper()
	c := clustertest.API(t).Core.RESTClient()
	for until := time.Now().Add(time.Minute); ; <-time.After(100 * time.Millisecond) {
		b, err := c.Get().AbsPath("/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/"+d.Namespace+"/sandboxwarmpools/"+pool).
			SetHeader("Accept", "application/json").Do(t.Context()).Raw()
		if err != nil {
			t.Fatal(err)
		}
		var o struct {
			Status struct {
				ReadyReplicas int `json:"readyReplicas"`
			} `json:"status"`
		}
		if err := yaml.Unmarshal(b, &o); err != nil {
			t.Fatal(err)
		}
		if o.Status.ReadyReplicas >= n {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d of %d pods are ready", o.Status.ReadyReplicas, n)
		}
	}
}

func templateSpec(name string) atoll.Spec { return atoll.Spec{Pod: &atoll.Pod{Template: name}} }

func TestAgentSandbox(t *testing.T) {
	d := agentSandboxDriver(t)
	// The first sandbox creates the namespace with its network policy.
	createPool(t, d, "warm", 2)
	spec := templateSpec("warm")
	spec.Name, spec.Labels, spec.Env, spec.Owner = "mine", map[string]string{"a": "b"}, []string{"TOKEN=secret value"}, atoll.Owner{App: "app", User: "u"}
	begin := time.Now()
	sb, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("claimed in %v", time.Since(begin))
	said := func(sb atoll.Sandbox, script, want string) {
		t.Helper()
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: script})
		if got := string(exit.Stdout) + string(exit.Stderr); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", script, got, err, want)
		}
	}
	said(sb, "pwd; echo $TOKEN; echo here >f", "/workspace\nsecret value\n")
	if b, err := atoll.ReadFile(t.Context(), sb, "/workspace/f"); err != nil || string(b) != "here\n" {
		t.Errorf("the file: %q, %v", b, err)
	}
	again, err := d.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	said(again, "cat f; echo $TOKEN", "here\nsecret value\n")
	list, err := d.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != sb.ID() || list[0].Name != "mine" || list[0].Labels["a"] != "b" || list[0].State != atoll.Running {
		t.Errorf("list: %+v, %v", list, err)
	}
	if _, ok := atoll.As[atoll.Claimer](sb); ok {
		t.Error("it can be claimed again")
	}

	begin = time.Now()
	if err := atoll.Stop(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	t.Logf("suspended in %v", time.Since(begin))
	begin = time.Now()
	if st, err := again.Status(t.Context()); err != nil || st.State != atoll.Stopped {
		t.Errorf("stopped: %+v, %v", st, err)
	}
	if err := atoll.Start(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	t.Logf("resumed in %v", time.Since(begin))
	said(again, "echo $TOKEN; cat f 2>/dev/null || echo its volume was an emptyDir", "secret value\nits volume was an emptyDir\n")

	for range 2 {
		if err := sb.Destroy(t.Context()); err != nil {
			t.Errorf("destroy: %v", err)
		}
	}
	if _, err := again.Status(t.Context()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("status of a removed sandbox: %v", err)
	}
	if secrets, err := clustertest.API(t).Core.Secrets(d.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "atoll.dev/id"}); err != nil || len(secrets.Items) != 0 {
		t.Errorf("secrets are left: %d, %v", len(secrets.Items), err)
	}
}

// TestAgentSandboxCold creates a sandbox from a template without a warm pool.
func TestAgentSandboxCold(t *testing.T) {
	d := agentSandboxDriver(t)
	text, err := d.Template(t.Context(), "cold", atoll.Spec{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "---\n")
	applyYAML(t, d, []byte(first))
	for _, name := range []string{"cold", "template/cold"} {
		sb, err := d.Create(t.Context(), templateSpec(name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"echo", "hi"}}); err != nil || string(exit.Stdout) != "hi\n" {
			t.Errorf("%s: %q, %v", name, exit.Stdout, err)
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestAgentSandboxForeignTemplate uses a template without anything of atoll.
func TestAgentSandboxForeignTemplate(t *testing.T) {
	d := agentSandboxDriver(t)
	applyYAML(t, d, []byte(`apiVersion: extensions.agents.x-k8s.io/v1beta1
kind: SandboxTemplate
metadata:
  name: theirs
spec:
  networkPolicyManagement: Unmanaged
  podTemplate:
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: main
        image: busybox:latest
        imagePullPolicy: IfNotPresent
        workingDir: /tmp
        command: [sleep, "3600"]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`))
	sb, err := d.Create(t.Context(), templateSpec("theirs"))
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "pwd; exit 3"}); err != nil || string(exit.Stdout) != "/tmp\n" || exit.Code != 3 {
		t.Errorf("inside: %+v, %v", exit, err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	withEnv := templateSpec("theirs")
	withEnv.Env = []string{"A=b"}
	if _, err := d.Create(t.Context(), withEnv); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("env without a guest: %v", err)
	}
}

func TestAgentSandboxRefuses(t *testing.T) {
	d := newDriver(t)
	if _, err := d.Create(t.Context(), templateSpec("none")); err == nil || !errors.Is(err, atoll.ErrUnsupported) && !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("not installed: %v", err) // another test may have installed it
	}
	d = agentSandboxDriver(t)
	for name, want := range map[string]error{"none": atoll.ErrNotFound, "pool/none": atoll.ErrNotFound, "template/none": atoll.ErrNotFound, "x/none": atoll.ErrInvalid, "../none": atoll.ErrInvalid} {
		if _, err := d.Create(t.Context(), templateSpec(name)); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", name, err, want)
		}
	}
	full := templateSpec("none")
	full.Image, full.Limits.Memory = "x", 1<<30
	if _, err := d.Create(t.Context(), full); !errors.Is(err, atoll.ErrUnsupported) || !strings.Contains(err.Error(), "image") || !strings.Contains(err.Error(), "limits") {
		t.Errorf("the template's error: %v", err)
	}
	// A template with a missing image: the error has the reason, and nothing is left.
	text, err := d.Template(t.Context(), "broken", atoll.Spec{Image: "localhost/none:1"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	applyYAML(t, d, text)
	broken := templateSpec("broken")
	broken.Timeouts.Create = 20 * time.Second
	_, err = d.Create(t.Context(), broken)
	if !errors.Is(err, atoll.ErrTimeout) && !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "localhost/none:1") {
		t.Errorf("broken: %v", err)
	}
	if list, err := d.List(context.Background()); err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}
