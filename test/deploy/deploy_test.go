package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/atoll-sandbox/atoll/internal/fleet/registry/pgtest"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestDeploy installs one server and then each of the overlays.
func TestDeploy(t *testing.T) {
	p := newInstallation(t)
	t.Run("Demo", func(t *testing.T) { p.withTest(t).testDemo() })
	p.applyManifests("base")
	t.Run("OneServer", func(t *testing.T) { p.withTest(t).testOneServer() })
	t.Run("RemovedPodIsNoticed", func(t *testing.T) { p.withTest(t).testRemovedPod() })
	t.Run("DoctorNamesWhatIsMissing", func(t *testing.T) { p.withTest(t).testDoctor() })
	t.Run("Restart", func(t *testing.T) { p.withTest(t).testRestart() })
	t.Run("Direct", func(t *testing.T) { p.withTest(t).testDirectConnections() })
	t.Run("Apart", func(t *testing.T) { p.withTest(t).testNamespacePerApp() })
	t.Run("Replicas", func(t *testing.T) { p.withTest(t).testReplicas() })
}

// withTest returns the installation for a subtest.
func (p *installation) withTest(t *testing.T) *installation {
	q := *p
	q.t = t
	return &q
}

// testDemo runs the demonstration, which needs only a kubeconfig and no server.
func (p *installation) testDemo() {
	namespace := clustertest.Namespace(p.t, nil)
	ctx, cancel := context.WithTimeout(p.t.Context(), clusterTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.bin, "demo", "--driver", "kubernetes", "--from", "../../docs")
	cmd.Env = []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + clustertest.Kubeconfig(p.t), "ATOLL_KUBERNETES_NAMESPACE=" + namespace}
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"create a sandbox (kubernetes, isolation container)", "put ", "get the report back out", `beginning "# report"`, "destroy it"} {
		if !strings.Contains(string(out), want) {
			p.t.Errorf("the demonstration does not print %q: %s", want, out)
		}
	}
	p.checkEmpty(namespace)
}

// useSandbox creates a sandbox and uses it in common ways.
func (c *remoteClient) useSandbox(name string) {
	c.p.t.Helper()
	c.checkOutput(name+"\n", "create", "--name", name, "--env", "SECRET=xyzzy")
	c.checkOutput("xyzzy in /workspace\n", "exec", name, "--", "sh", "-c", `echo $SECRET in $(pwd)`)
	file := filepath.Join(c.p.t.TempDir(), "in.txt")
	if err := os.WriteFile(file, []byte("to and fro\n"), 0o600); err != nil {
		c.p.t.Fatal(err)
	}
	c.checkOutput("", "cp", file, name+":/workspace/")
	c.checkOutput("to and fro\n", "exec", name, "--", "cat", "in.txt")
	c.checkOutput("", "cp", name+":/workspace/in.txt", file+".out")
	if b, err := os.ReadFile(file + ".out"); err != nil || string(b) != "to and fro\n" {
		c.p.t.Errorf("the file is %q, %v", b, err)
	}
	if _, err := c.runAtoll("exec", name, "--", "sh", "-c", "exit 7"); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		c.p.t.Errorf("exit 7 ends with %v", err)
	}
}

// testOneServer checks that everything works with the base and its minimal Role.
func (p *installation) testOneServer() {
	server := p.waitForServers(1)[0]
	c := p.logIn(server, "web/alice")
	c.useSandbox("box")
	other := p.logIn(server, "web/bob")
	if out, err := other.runAtoll("exec", "box", "--", "true"); err == nil {
		p.t.Errorf("another owner's sandbox is used: %q", out)
	}
	c.checkOutput("box\n", "rm", "box")
	p.checkEmpty(boxes)

	c.checkOutput("kept\n", "create", "--name", "kept", "--storage-class", "default")
	c.checkOutput("", "exec", "kept", "--", "sh", "-c", "echo files >f")
	c.checkOutput("", "stop", "kept")
	c.checkOutput("", "start", "kept")
	c.checkOutput("files\n", "exec", "kept", "--", "cat", "f")
	c.checkOutput("kept\n", "rm", "kept")
	p.checkEmpty(boxes)

	c.host = p.openTunnel(p.serviceAddress())
	c.useSandbox("through-the-service")
	c.checkOutput("through-the-service\n", "rm", "through-the-service")
	p.checkEmpty(boxes)
}

// testRemovedPod removes the pod of a sandbox with the cluster's API: the list of sandboxes shows it long before
// the server's next reconciliation, which is up to ten minutes later.
func (p *installation) testRemovedPod() {
	c := p.logIn(p.waitForServers(1)[0], "web/alice")
	c.checkOutput("gone\n", "create", "--name", "gone")
	c.checkOutput("running\n", "ls", "--format", "{{.State}}")
	pods, err := p.api.Core.Pods(boxes).List(p.t.Context(), metav1.ListOptions{LabelSelector: "atoll.dev/id"})
	if err != nil || len(pods.Items) != 1 {
		p.t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	var now int64
	if err := p.api.Core.Pods(boxes).Delete(p.t.Context(), pods.Items[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		p.t.Fatal(err)
	}
	p.waitFor("the removed pod is noticed", func(context.Context) error {
		out, err := c.runAtoll("ls", "--format", "{{.State}}")
		if err == nil && out != "error\n" {
			err = fmt.Errorf("it is listed as %q", out)
		}
		return err
	})
	c.checkOutput("gone\n", "rm", "gone")
	p.checkEmpty(boxes)
}

// serviceAddress returns the address of the Service.
func (p *installation) serviceAddress() string {
	p.t.Helper()
	s, err := p.api.Core.Services(system).Get(p.t.Context(), "atoll", metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return net.JoinHostPort(s.Spec.ClusterIP, port)
}

// finding is a line of the doctor's report.
type finding struct {
	Check    string
	Driver   string
	OK       bool
	Optional bool
	Detail   string
	Fix      string
}

// runDoctor runs 'atoll doctor' in a server's pod.
func (p *installation) runDoctor(pod string) []finding {
	p.t.Helper()
	out, _ := p.execInPod(pod, program, "doctor", "--driver", "kubernetes", "--json") // it exits with 1 if a check fails
	var list []finding
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		p.t.Fatalf("the doctor's report %q: %v", out, err)
	}
	return slices.DeleteFunc(list, func(f finding) bool { return f.Driver != "kubernetes" && f.Check != "driver kubernetes" })
}

// rolePath is the path of the Role in the API.
const rolePath = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + boxes + "/roles/atoll"

// testDoctor checks that the doctor reports nothing missing at first. Without any
// rights it must print the rules that the driver needs, and with exactly these rules
// everything must work.
func (p *installation) testDoctor() {
	server := p.waitForServers(1)[0]
	for _, f := range p.runDoctor(server.Name) {
		if !f.OK && !f.Optional {
			p.t.Errorf("with all rights, %s is bad: %s", f.Check, f.Detail)
		}
		if !f.OK && strings.HasPrefix(f.Fix, patchPrefix) {
			p.t.Errorf("the Role lacks a right that the driver uses: %s: %s: %s", f.Check, f.Detail, f.Fix)
		}
	}
	whole := p.readRole()
	p.replaceRules(whole, nil)
	defer p.replaceRules(whole, whole.Rules)
	var pasted []rbacv1.PolicyRule
	p.waitFor("the doctor has noticed", func(context.Context) error {
		pasted = nil
		for _, f := range p.runDoctor(server.Name) {
			text, ok := strings.CutPrefix(f.Fix, patchPrefix)
			if !ok {
				continue
			}
			var r rbacv1.PolicyRule
			if err := yaml.UnmarshalStrict([]byte(text), &r); err != nil {
				p.t.Fatalf("%q is not valid: %v", text, err)
			}
			pasted = append(pasted, r)
		}
		if !slices.ContainsFunc(pasted, func(r rbacv1.PolicyRule) bool { return r.Resources[0] == "pods" }) {
			return fmt.Errorf("missing rules %+v", pasted)
		}
		return nil
	})
	for _, r := range whole.Rules {
		for _, what := range r.Resources {
			if what != "namespaces" && !allowsVerbs(pasted, what, r.Verbs) { // namespaces are assumed to exist
				p.t.Errorf("the Role allows %s of %s, which the doctor does not report as missing: %+v", r.Verbs, what, pasted)
			}
		}
	}
	p.replaceRules(whole, pasted)
	c := p.logIn(server, "web/grace")
	p.waitFor("the rights count", func(context.Context) error {
		_, err := c.runAtoll("run", "--", "true")
		return err
	})
	c.useSandbox("pasted")
	c.checkOutput("pasted\n", "rm", "pasted")
	p.checkEmpty(boxes)
}

// patchPrefix precedes the rules in the doctor's report.
const patchPrefix = "add to the Role: "

// allowsVerbs reports whether rules allow all verbs for a resource.
func allowsVerbs(rules []rbacv1.PolicyRule, what string, verbs []string) bool {
	var allowed []string
	for _, r := range rules {
		if slices.Contains(r.Resources, what) {
			allowed = append(allowed, r.Verbs...)
		}
	}
	return !slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(allowed, v) })
}

// readRole returns the current Role.
func (p *installation) readRole() rbacv1.Role {
	p.t.Helper()
	var r rbacv1.Role
	b, err := p.api.Core.RESTClient().Get().AbsPath(rolePath).SetHeader("Accept", "application/json").DoRaw(p.t.Context())
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// replaceRules replaces the rules of a Role.
func (p *installation) replaceRules(r rbacv1.Role, rules []rbacv1.PolicyRule) {
	p.t.Helper()
	r.ResourceVersion, r.ManagedFields, r.Rules = "", nil, rules
	b, err := json.Marshal(r)
	if err == nil {
		err = p.api.Core.RESTClient().Put().AbsPath(rolePath).SetHeader("Content-Type", "application/json").Body(b).Do(context.WithoutCancel(p.t.Context())).Error()
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// testRestart restarts the server and checks that its sandboxes still exist.
func (p *installation) testRestart() {
	server := p.waitForServers(1)[0]
	c := p.logIn(server, "web/carol")
	c.useSandbox("lasting")
	p.deleteObject("/api/v1/namespaces", system, "pods", server.Name)
	p.waitFor("another server runs", func(context.Context) error {
		if now := p.waitForServers(1)[0]; now.Name == server.Name {
			return fmt.Errorf("the pod is still %s", now.Name)
		}
		return nil
	})
	c.host = p.openTunnel(net.JoinHostPort(p.waitForServers(1)[0].Status.PodIP, port))
	c.checkOutput("to and fro\n", "exec", "lasting", "--", "cat", "in.txt")
	c.checkOutput("lasting\n", "rm", "lasting")
	p.checkEmpty(boxes)
}

// testDirectConnections checks the overlay with direct connections to pods. The
// driver's tests check that they are used.
func (p *installation) testDirectConnections() {
	p.applyManifests("direct")
	server := p.waitForServers(1)[0]
	c := p.logIn(server, "web/dan")
	c.useSandbox("near")
	c.checkOutput("near\n", "rm", "near")
	p.checkEmpty(boxes)
}

// testNamespacePerApp checks the overlay that gives each app its own namespace.
func (p *installation) testNamespacePerApp() {
	p.applyManifests("apart")
	for _, app := range []string{"red", "blue"} {
		clustertest.RemoveNamespace(p.t, boxes+"-"+app)
		c := p.logIn(p.waitForServers(1)[0], app+"/erin")
		c.useSandbox("mine")
		quota, err := p.api.Core.ResourceQuotas(boxes+"-"+app).Get(p.t.Context(), "atoll", metav1.GetOptions{})
		if err != nil || quota.Spec.Hard.Pods().Value() != 50 {
			p.t.Errorf("the quota of %s: %+v, %v", app, quota, err)
		}
		pods, err := p.api.Core.Pods(boxes+"-"+app).List(p.t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != 1 {
			p.t.Errorf("%d pods of %s, %v; want 1", len(pods.Items), app, err)
		}
		c.checkOutput("mine\n", "rm", "mine")
		p.checkEmpty(boxes + "-" + app)
	}
	p.deleteObject("/apis/rbac.authorization.k8s.io/v1/clusterroles/atoll-apart")
	p.deleteObject("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/atoll-apart")
}

// testReplicas checks two servers with a common registry: each can use the sandboxes of
// the other.
func (p *installation) testReplicas() {
	key := map[string]string{"host.key": newHostKey(p.t)}
	p.createSecret("atoll-host-key", key)
	p.createSecret("atoll-registry", map[string]string{"url": p.startPostgres()})
	p.applyManifests("replicas")
	servers := p.waitForServers(2)
	one := p.logIn(servers[0], "web/frank")
	two := &remoteClient{p, p.openTunnel(net.JoinHostPort(servers[1].Status.PodIP, port)), one.token}
	one.useSandbox("ours")
	two.checkOutput("to and fro\n", "exec", "ours", "--", "cat", "in.txt")
	two.useSandbox("yours")
	one.checkOutput("to and fro\n", "exec", "yours", "--", "cat", "in.txt")
	for _, c := range []*remoteClient{one, two} {
		out, err := c.runAtoll("ls", "--json")
		if err != nil || !strings.Contains(out, `"ours"`) || !strings.Contains(out, `"yours"`) {
			p.t.Errorf("the list of %s is %s, %v", c.host, out, err)
		}
	}

	if out, err := one.runAtoll("create", "--name", "gated", "--allow", "example.com"); err != nil { // its egress proxy runs in the server
		p.t.Errorf("a sandbox with an egress proxy: %v: %s", err, out)
	}

	p.deleteObject("/api/v1/namespaces", system, "pods", servers[0].Name)
	two.checkOutput("to and fro\n", "exec", "ours", "--", "cat", "in.txt")
	two.checkOutput("gated\n", "rm", "gated")
	two.checkOutput("ours\nyours\n", "rm", "ours", "yours")
	p.checkEmpty(boxes)
}

// createSecret creates a Secret for the servers.
func (p *installation) createSecret(name string, data map[string]string) {
	p.t.Helper()
	b, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]string{"name": name, "namespace": system}, "stringData": data,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.applyObject(b)
}

// startPostgres starts a PostgreSQL server that pods reach at the node's address.
func (p *installation) startPostgres() string {
	p.t.Helper()
	pg, err := pgtest.Start(p.t.Context())
	if err != nil {
		testenv.Skip(p.t, "postgres", "%v", err)
	}
	p.t.Cleanup(func() {
		if err := pg.Stop(context.WithoutCancel(p.t.Context())); err != nil {
			p.t.Error(err)
		}
	})
	u, err := url.Parse(pg.URL("public"))
	if err != nil {
		p.t.Fatal(err)
	}
	nodes, err := p.api.Core.Nodes().List(p.t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		p.t.Fatal("nodes: ", err)
	}
	l, err := (&net.ListenConfig{}).Listen(p.t.Context(), "tcp", net.JoinHostPort(nodes.Items[0].Status.Addresses[0].Address, "0"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.forwardConnections(l, "unix", filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"))
	return "postgres://atoll@" + l.Addr().String() + "/postgres?sslmode=disable"
}
