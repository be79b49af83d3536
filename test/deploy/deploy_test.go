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

// TestDeploy installs one server, and then what the overlays make of it, in the
// order in which somebody might.
func TestDeploy(t *testing.T) {
	p := newPlace(t)
	t.Run("Demo", func(t *testing.T) { p.of(t).demo() })
	p.apply("base")
	t.Run("OneServer", func(t *testing.T) { p.of(t).oneServer() })
	t.Run("DoctorNamesWhatIsMissing", func(t *testing.T) { p.of(t).doctor() })
	t.Run("Restart", func(t *testing.T) { p.of(t).restart() })
	t.Run("Direct", func(t *testing.T) { p.of(t).direct() })
	t.Run("Apart", func(t *testing.T) { p.of(t).apart() })
	t.Run("Replicas", func(t *testing.T) { p.of(t).replicas() })
}

// of is the place for a part of a test.
func (p *place) of(t *testing.T) *place {
	q := *p
	q.t = t
	return &q
}

// demo is what somebody tries first: no server, only a kubeconfig.
func (p *place) demo() {
	namespace := clustertest.Namespace(p.t, nil)
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.bin, "demo", "--driver", "kubernetes", "--from", "../../docs")
	cmd.Env = []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + clustertest.Kubeconfig(p.t), "ATOLL_KUBERNETES_NAMESPACE=" + namespace}
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"create a sandbox (kubernetes, isolation container)", "put ", "get the report back out", `beginning "# report"`, "destroy it"} {
		if !strings.Contains(string(out), want) {
			p.t.Errorf("the demonstration does not say %q: %s", want, out)
		}
	}
	p.empty(namespace)
}

// use does with a sandbox what everybody does.
func (c *client) use(name string) {
	c.p.t.Helper()
	c.want(name+"\n", "create", "--name", name, "--env", "SECRET=xyzzy")
	c.want("xyzzy in /workspace\n", "exec", name, "--", "sh", "-c", `echo $SECRET in $(pwd)`)
	file := filepath.Join(c.p.t.TempDir(), "in.txt")
	if err := os.WriteFile(file, []byte("to and fro\n"), 0o600); err != nil {
		c.p.t.Fatal(err)
	}
	c.want("", "cp", file, name+":/workspace/")
	c.want("to and fro\n", "exec", name, "--", "cat", "in.txt")
	c.want("", "cp", name+":/workspace/in.txt", file+".out")
	if b, err := os.ReadFile(file + ".out"); err != nil || string(b) != "to and fro\n" {
		c.p.t.Errorf("what came back is %q, %v", b, err)
	}
	if _, err := c.atoll("exec", name, "--", "sh", "-c", "exit 7"); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		c.p.t.Errorf("exit 7 ends with %v", err)
	}
}

// oneServer is the base: with its small Role everything works.
func (p *place) oneServer() {
	server := p.servers(1)[0]
	c := p.login(server, "web/alice")
	c.use("box")
	other := p.login(server, "web/bob")
	if out, err := other.atoll("exec", "box", "--", "true"); err == nil {
		p.t.Errorf("another owner's sandbox is used: %q", out)
	}
	c.want("box\n", "rm", "box")
	p.empty(boxes)

	c.want("kept\n", "create", "--name", "kept", "--storage-class", "default")
	c.want("", "exec", "kept", "--", "sh", "-c", "echo files >f")
	c.want("", "stop", "kept")
	c.want("", "start", "kept")
	c.want("files\n", "exec", "kept", "--", "cat", "f")
	c.want("kept\n", "rm", "kept")
	p.empty(boxes)

	c.host = p.tunnel(p.service())
	c.use("through-the-service")
	c.want("through-the-service\n", "rm", "through-the-service")
	p.empty(boxes)
}

// service is the address of the Service.
func (p *place) service() string {
	p.t.Helper()
	s, err := p.api.Core.Services(system).Get(p.t.Context(), "atoll", metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return net.JoinHostPort(s.Spec.ClusterIP, port)
}

// found is what the doctor says.
type found struct {
	Check    string
	Driver   string
	OK       bool
	Optional bool
	Detail   string
	Fix      string
}

// examine asks the doctor in a server's pod about the cluster.
func (p *place) examine(pod string) []found {
	p.t.Helper()
	out, _ := p.inside(pod, program, "doctor", "--driver", "kubernetes", "--json") // it ends with 1 where something is bad
	var list []found
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		p.t.Fatalf("the doctor says %q: %v", out, err)
	}
	return slices.DeleteFunc(list, func(f found) bool { return f.Driver != "kubernetes" && f.Check != "driver kubernetes" })
}

// role is the path of the Role in the API.
const role = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + boxes + "/roles/atoll"

// doctor finds nothing missing at first. Without any rights it says what the
// driver needs, in words that can be pasted: with those everything works again.
func (p *place) doctor() {
	server := p.servers(1)[0]
	for _, f := range p.examine(server.Name) {
		if !f.OK && !f.Optional {
			p.t.Errorf("with all rights, %s is bad: %s", f.Check, f.Detail)
		}
		if !f.OK && strings.HasPrefix(f.Fix, paste) {
			p.t.Errorf("the Role lacks a right that the driver uses: %s: %s: %s", f.Check, f.Detail, f.Fix)
		}
	}
	whole := p.rights()
	p.allow(whole, nil)
	defer p.allow(whole, whole.Rules)
	var pasted []rbacv1.PolicyRule
	p.until("the doctor has noticed", func(context.Context) error {
		pasted = nil
		for _, f := range p.examine(server.Name) {
			text, ok := strings.CutPrefix(f.Fix, paste)
			if !ok {
				continue
			}
			var r rbacv1.PolicyRule
			if err := yaml.UnmarshalStrict([]byte(text), &r); err != nil {
				p.t.Fatalf("%q can't be pasted: %v", text, err)
			}
			pasted = append(pasted, r)
		}
		if !slices.ContainsFunc(pasted, func(r rbacv1.PolicyRule) bool { return r.Resources[0] == "pods" }) {
			return fmt.Errorf("it wants %+v", pasted)
		}
		return nil
	})
	for _, r := range whole.Rules {
		for _, what := range r.Resources {
			if what != "namespaces" && !named(pasted, what, r.Verbs) { // those are taken to be there
				p.t.Errorf("the Role allows %s of %s, which the doctor does not miss: %+v", r.Verbs, what, pasted)
			}
		}
	}
	p.allow(whole, pasted)
	c := p.login(server, "web/grace")
	p.until("the rights count", func(context.Context) error {
		_, err := c.atoll("run", "--", "true")
		return err
	})
	c.use("pasted")
	c.want("pasted\n", "rm", "pasted")
	p.empty(boxes)
}

// paste begins what the doctor says is to be pasted.
const paste = "add to the Role: "

// named reports whether rules allow all verbs of something.
func named(rules []rbacv1.PolicyRule, what string, verbs []string) bool {
	var allowed []string
	for _, r := range rules {
		if slices.Contains(r.Resources, what) {
			allowed = append(allowed, r.Verbs...)
		}
	}
	return !slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(allowed, v) })
}

// rights returns the Role as it is.
func (p *place) rights() rbacv1.Role {
	p.t.Helper()
	var r rbacv1.Role
	b, err := p.api.Core.RESTClient().Get().AbsPath(role).SetHeader("Accept", "application/json").DoRaw(p.t.Context())
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// allow replaces the rules of a Role.
func (p *place) allow(r rbacv1.Role, rules []rbacv1.PolicyRule) {
	p.t.Helper()
	r.ResourceVersion, r.ManagedFields, r.Rules = "", nil, rules
	b, err := json.Marshal(r)
	if err == nil {
		err = p.api.Core.RESTClient().Put().AbsPath(role).SetHeader("Content-Type", "application/json").Body(b).Do(context.WithoutCancel(p.t.Context())).Error()
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// restart ends the server: its sandboxes are there afterwards.
func (p *place) restart() {
	server := p.servers(1)[0]
	c := p.login(server, "web/carol")
	c.use("lasting")
	p.gone("/api/v1/namespaces", system, "pods", server.Name)
	p.until("another server runs", func(context.Context) error {
		if now := p.servers(1)[0]; now.Name == server.Name {
			return fmt.Errorf("it is still %s", now.Name)
		}
		return nil
	})
	c.host = p.tunnel(net.JoinHostPort(p.servers(1)[0].Status.PodIP, port))
	c.want("to and fro\n", "exec", "lasting", "--", "cat", "in.txt")
	c.want("lasting\n", "rm", "lasting")
	p.empty(boxes)
}

// direct is with connections to pods' addresses; that they are used, and not the
// tunnel, is tested with the driver.
func (p *place) direct() {
	p.apply("direct")
	server := p.servers(1)[0]
	c := p.login(server, "web/dan")
	c.use("near")
	c.want("near\n", "rm", "near")
	p.empty(boxes)
}

// apart gives each app a namespace of its own.
func (p *place) apart() {
	p.apply("apart")
	for _, app := range []string{"red", "blue"} {
		clustertest.RemoveNamespace(p.t, boxes+"-"+app)
		c := p.login(p.servers(1)[0], app+"/erin")
		c.use("mine")
		quota, err := p.api.Core.ResourceQuotas(boxes+"-"+app).Get(p.t.Context(), "atoll", metav1.GetOptions{})
		if err != nil || quota.Spec.Hard.Pods().Value() != 50 {
			p.t.Errorf("the quota of %s: %+v, %v", app, quota, err)
		}
		pods, err := p.api.Core.Pods(boxes+"-"+app).List(p.t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != 1 {
			p.t.Errorf("%d pods of %s, %v; want 1", len(pods.Items), app, err)
		}
		c.want("mine\n", "rm", "mine")
		p.empty(boxes + "-" + app)
	}
	p.gone("/apis/rbac.authorization.k8s.io/v1/clusterroles/atoll-apart")
	p.gone("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/atoll-apart")
}

// replicas is two servers with one registry: what one makes, the other uses.
func (p *place) replicas() {
	key := map[string]string{"host.key": hostKey(p.t)}
	p.secret("atoll-host-key", key)
	p.secret("atoll-registry", map[string]string{"url": p.postgres()})
	p.apply("replicas")
	servers := p.servers(2)
	one := p.login(servers[0], "web/frank")
	two := &client{p, p.tunnel(net.JoinHostPort(servers[1].Status.PodIP, port)), one.token}
	one.use("ours")
	two.want("to and fro\n", "exec", "ours", "--", "cat", "in.txt")
	two.use("yours")
	one.want("to and fro\n", "exec", "yours", "--", "cat", "in.txt")
	for _, c := range []*client{one, two} {
		out, err := c.atoll("ls", "--json")
		if err != nil || !strings.Contains(out, `"ours"`) || !strings.Contains(out, `"yours"`) {
			p.t.Errorf("the list of %s is %s, %v", c.host, out, err)
		}
	}

	if out, err := one.atoll("create", "--name", "gated", "--allow", "example.com"); err != nil { // its gate is on the server's side
		p.t.Errorf("a sandbox with a gate: %v: %s", err, out)
	}

	p.gone("/api/v1/namespaces", system, "pods", servers[0].Name)
	two.want("to and fro\n", "exec", "ours", "--", "cat", "in.txt")
	two.want("gated\n", "rm", "gated")
	two.want("ours\nyours\n", "rm", "ours", "yours")
	p.empty(boxes)
}

// secret makes a Secret of the servers.
func (p *place) secret(name string, data map[string]string) {
	p.t.Helper()
	b, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]string{"name": name, "namespace": system}, "stringData": data,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.declare(b)
}

// postgres starts a PostgreSQL that pods reach at the node's address.
func (p *place) postgres() string {
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
	p.forward(l, "unix", filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"))
	return "postgres://atoll@" + l.Addr().String() + "/postgres?sslmode=disable"
}
