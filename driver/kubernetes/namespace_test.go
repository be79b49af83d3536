package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/atoll-sandbox/atoll"
	kube "github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
)

// TestNamespacePerApp checks that each app gets a namespace with a quota when it needs one.
func TestNamespacePerApp(t *testing.T) {
	d := plainDriver(t)
	d.Namespace, d.NamespacePerApp, d.Quota = "apart-"+atoll.NewID(), true, map[string]string{"pods": "2", "limits.memory": "4Gi"}
	one, two := d.Namespace+"-one", d.Namespace+"-two"
	for _, ns := range []string{d.Namespace, one, two} {
		clustertest.RemoveNamespace(t, ns)
	}
	of := func(app string) atoll.Spec { return atoll.Spec{Owner: atoll.Owner{App: app, User: "u"}} }
	var wg sync.WaitGroup // the first sandboxes of an app may be created at once
	for range 3 {
		wg.Go(func() {
			sb, err := d.Create(t.Context(), of("one"))
			if err != nil {
				if !errors.Is(err, atoll.ErrQuota) || !strings.Contains(err.Error(), one) {
					t.Error(err)
				}
				return
			}
			t.Cleanup(func() { _ = sb.Destroy(context.Background()) })
		})
	}
	wg.Wait()
	sb := createTestSandbox(t, d, of("two"))
	if _, err := d.Create(t.Context(), of("one")); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("a third: %v", err)
	}
	api := clustertest.API(t)
	if ns, err := api.Core.Namespaces().Get(t.Context(), two, metav1.GetOptions{}); err != nil || ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("%+v, %v", ns, err)
	}
	policies, err := api.Networking.NetworkPolicies(two).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(policies.Items) != 3 {
		t.Errorf("%d policies, %v", len(policies.Items), err)
	}
	// Another process does not know the apps.
	other := &kube.Driver{Kubeconfig: d.Kubeconfig, Dir: d.Dir, Namespace: d.Namespace, NamespacePerApp: true, Placement: kube.PlaceNone}
	list, err := other.List(t.Context())
	if err != nil || len(list) != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	found, err := other.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	requireEmptyNamespace(t, two)
}

// TestExistingNamespaceForApp uses an existing namespace for an app and does not change its labels.
func TestExistingNamespaceForApp(t *testing.T) {
	d := plainDriver(t)
	theirs := clustertest.Namespace(t, map[string]string{"team": "theirs"})
	d.Apps = map[string]kube.Target{"x": {Namespace: theirs, Quota: map[string]string{"pods": "0"}}}
	sb := createTestSandbox(t, d, atoll.Spec{Owner: atoll.Owner{App: "x", User: "u"}})
	createTestSandbox(t, d, atoll.Spec{Owner: atoll.Owner{App: "y", User: "u"}})
	api := clustertest.API(t)
	pods, err := api.Core.Pods(theirs).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].Labels["atoll.dev/id"] != sb.ID() || pods.Items[0].Labels["atoll.dev/owner"] == "" {
		t.Errorf("%+v, %v", pods.Items, err)
	}
	ns, err := api.Core.Namespaces().Get(t.Context(), theirs, metav1.GetOptions{})
	if err != nil || ns.Labels["app.kubernetes.io/managed-by"] != "" || ns.Labels["pod-security.kubernetes.io/enforce"] != "" {
		t.Errorf("%+v, %v", ns, err)
	}
	if list, err := d.List(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestForeignQuota exceeds a quota that atoll has not created.
func TestForeignQuota(t *testing.T) {
	d := plainDriver(t)
	api := clustertest.API(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "tight"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"limits.cpu": resource.MustParse("1")}}}
	if _, err := api.Core.ResourceQuotas(d.Namespace).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() error { // until the quota controller has counted
		q, err := api.Core.ResourceQuotas(d.Namespace).Get(t.Context(), "tight", metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			err = errors.New("it is not in force")
		}
		return err
	})
	_, err := d.Create(t.Context(), atoll.Spec{Env: []string{"A=B"}})
	if !errors.Is(err, atoll.ErrQuota) || errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), "limits.cpu") {
		t.Errorf("%v", err)
	}
	requireEmptyNamespace(t, d.Namespace)
	createTestSandbox(t, d, atoll.Spec{Limits: atoll.Resources{CPU: 0.5}})
}

// TestNamespaceIsBeingDeleted creates a sandbox in a namespace that is being deleted.
func TestNamespaceIsBeingDeleted(t *testing.T) {
	d := plainDriver(t)
	api := clustertest.API(t)
	// A pod with a finalizer delays the deletion of the namespace.
	hold := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "hold", Finalizers: []string{"test.atoll.dev/hold"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}, NodeSelector: map[string]string{"no": "such"}},
	}
	loose := clustertest.Namespace(t, nil)
	d.Namespace = loose
	if _, err := api.Core.Pods(loose).Create(t.Context(), hold, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	free := func() {
		_, err := api.Core.Pods(loose).Patch(context.Background(), "hold", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	}
	defer free()
	warm := createTestSandbox(t, d, atoll.Spec{}) // so that the driver has seen the namespace
	if err := api.Core.Namespaces().Delete(t.Context(), loose, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cold := &kube.Driver{Kubeconfig: d.Kubeconfig, Dir: d.Dir, Namespace: loose, Placement: kube.PlaceNone}
	for _, d := range []*kube.Driver{d, cold, d} {
		_, err := d.Create(t.Context(), atoll.Spec{Env: []string{"A=B"}})
		if !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "is being deleted") || !strings.Contains(err.Error(), loose) {
			t.Errorf("%v", err)
		}
	}
	if err := warm.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
}

// TestPodSecurityRefuses uses a privileged driver where Pod Security forbids that.
func TestPodSecurityRefuses(t *testing.T) {
	d := plainDriver(t)
	d.Privileged = true
	_, err := d.Create(t.Context(), atoll.Spec{User: "root"})
	if !errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("%v", err)
	}
	requireEmptyNamespace(t, d.Namespace)
	d = plainDriver(t)
	d.Privileged, d.Namespace = true, "root-"+atoll.NewID()
	clustertest.RemoveNamespace(t, d.Namespace)
	sb := createTestSandbox(t, d, atoll.Spec{User: "root"})
	if exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"id", "-u"}}); err != nil || string(exit.Stdout) != "0\n" {
		t.Errorf("%q, %v", exit.Stdout, err)
	}
}

// TestNetworkIsolation tests what a sandbox can reach in a cluster that enforces policies.
func TestNetworkIsolation(t *testing.T) {
	d := plainDriver(t)
	api := clustertest.API(t)
	yes := true
	uid := int64(1000)
	no := false
	server := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "server"}, Spec: corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &uid, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "c", Image: "busybox:latest", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"httpd", "-f", "-p", "8080"},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}},
	}}
	if _, err := api.Core.Pods(d.Namespace).Create(t.Context(), server, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var address string
	waitFor(t, func() error {
		p, err := api.Core.Pods(d.Namespace).Get(t.Context(), "server", metav1.GetOptions{})
		if err == nil && (p.Status.PodIP == "" || p.Status.Phase != corev1.PodRunning) {
			err = errors.New("the server does not run")
		}
		if err == nil {
			address = p.Status.PodIP
		}
		return err
	})
	for mode, reaches := range map[atoll.NetworkMode]bool{atoll.NetworkOpen: true, atoll.NetworkNAT: false, atoll.NetworkNone: false} {
		sb := createTestSandbox(t, d, atoll.Spec{Network: atoll.Network{Mode: mode}})
		try := func() bool {
			exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"nc", "-w", "2", address, "8080"}})
			return err == nil && exit.Code == 0
		}
		if reaches {
			waitFor(t, func() error {
				if !try() {
					return errors.New("it does not")
				}
				return nil
			})
		} else if try() {
			t.Errorf("mode %s: a sandbox reaches a pod", mode)
		}
	}
	checks := d.Checks(t.Context())
	i := slices.IndexFunc(checks, func(c atoll.Check) bool { return c.Name == "network policies" })
	if i < 0 || !checks[i].OK {
		t.Errorf("the doctor's word: %+v", checks)
	}
}

// leastPermissions are the permissions that a driver needs in a prepared namespace.
var leastPermissions = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create", "get", "list", "watch", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"pods/exec", "pods/portforward"}, Verbs: []string{"create", "get"}},
	{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}, Verbs: []string{"create", "get", "patch"}},
}

// restrictedKubeconfig returns a kubeconfig of a service account with some permissions in a namespace.
func restrictedKubeconfig(t *testing.T, namespace string, rules []rbacv1.PolicyRule) string {
	t.Helper()
	admin := clustertest.Config(t)
	set, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	name := "sa-" + atoll.NewID()
	meta := metav1.ObjectMeta{Name: name}
	if _, err := set.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := set.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: namespace}},
	}
	if _, err := set.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := set.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData, CertificateAuthority: admin.CAFile}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLeastPermissions works with the least permissions, and checks that each missing one is named.
func TestLeastPermissions(t *testing.T) {
	namespace := clustertest.Namespace(t, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	with := func(rules []rbacv1.PolicyRule) *kube.Driver {
		return &kube.Driver{Kubeconfig: restrictedKubeconfig(t, namespace, rules), Dir: t.TempDir(), Namespace: namespace, Placement: kube.PlaceCopy}
	}
	d := with(leastPermissions)
	waitFor(t, func() error { // permissions apply after a moment
		_, err := d.Probe(t.Context())
		return err
	})
	sb := createTestSandbox(t, d, atoll.Spec{})
	if exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"echo", "hi"}}); err != nil || string(exit.Stdout) != "hi\n" {
		t.Errorf("%q, %v", exit.Stdout, err)
	}
	if list, err := d.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := d.Create(t.Context(), atoll.Spec{Env: []string{"A=B"}}); !errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), "secrets") {
		t.Errorf("with an environment: %v", err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	var rest []rbacv1.PolicyRule
	for _, r := range leastPermissions {
		r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(name string) bool { return name == "pods/portforward" })
		if len(r.Resources) > 0 {
			rest = append(rest, r)
		}
	}
	if _, err := with(rest).Create(t.Context(), atoll.Spec{}); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("without a tunnel: %v", err)
	}
	requireEmptyNamespace(t, namespace)
	for _, c := range d.Checks(t.Context()) {
		if c.Needed && !c.OK {
			t.Errorf("%+v", c)
		}
	}
	for i, rule := range leastPermissions {
		for j, verb := range rule.Verbs {
			less := slices.Clone(leastPermissions)
			less[i].Verbs = slices.Delete(slices.Clone(rule.Verbs), j, j+1)
			checkMissing(t, with(less), rule, verb)
		}
	}
}

// checkMissing checks that a driver names a permission that it does not have.
func checkMissing(t *testing.T, d *kube.Driver, rule rbacv1.PolicyRule, verb string) {
	t.Helper()
	var last []atoll.Check
	waitFor(t, func() error {
		last = d.Checks(t.Context())
		bad := 0
		for _, c := range last {
			for _, r := range rule.Resources {
				if !c.OK && c.Needed && strings.HasPrefix(c.Name, r+" in ") && strings.Contains(c.Fix, fmt.Sprintf("resources: [%q], verbs: [%s]", r, verb)) {
					bad++
				}
			}
		}
		if bad != len(rule.Resources) {
			return fmt.Errorf("without %s of %v: %d of %d named: %+v", verb, rule.Resources, bad, len(rule.Resources), last)
		}
		return nil
	})
}
