package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// plainDriver returns a driver whose pods have no guest.
func plainDriver(t *testing.T) *kubernetes.Driver {
	t.Helper()
	d := newDriver(t)
	d.Placement = kubernetes.PlaceNone
	return d
}

// requireEmptyNamespace fails when a namespace has objects of sandboxes. A volume may be about to be removed.
func requireEmptyNamespace(t *testing.T, namespace string) {
	t.Helper()
	api := clustertest.API(t)
	o := metav1.ListOptions{LabelSelector: "atoll.dev/id"}
	pods, err := api.Core.Pods(namespace).List(t.Context(), o)
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods are left, %v", len(pods.Items), err)
	}
	secrets, err := api.Core.Secrets(namespace).List(t.Context(), o)
	if err != nil || len(secrets.Items) > 0 {
		t.Errorf("%d secrets are left, %v", len(secrets.Items), err)
	}
	volumes, err := api.Core.PersistentVolumeClaims(namespace).List(t.Context(), o)
	if err != nil || slices.ContainsFunc(volumes.Items, func(v corev1.PersistentVolumeClaim) bool { return v.DeletionTimestamp == nil }) {
		t.Errorf("%d volumes are left, %v", len(volumes.Items), err)
	}
}

// TestCreateFails checks the errors of sandboxes that can't be created, and that nothing is left of them.
func TestCreateFails(t *testing.T) {
	d := plainDriver(t)
	d.StorageClass = "default"
	for _, c := range []struct {
		name string
		spec atoll.Spec
		want error
		says []string
	}{
		{"ImageMissing", atoll.Spec{Image: "registry.invalid/none:1"}, atoll.ErrUnavailable, []string{"registry.invalid/none:1", "ErrImagePull"}},
		{"ImageNameInvalid", atoll.Spec{Image: "UPPER//:x"}, atoll.ErrInvalid, []string{"UPPER//:x", "InvalidImageName"}},
		{"Unschedulable", atoll.Spec{Requests: atoll.Resources{CPU: 1000}, Timeouts: atoll.Timeouts{Create: 5 * time.Second}}, atoll.ErrTimeout, []string{"5s", "Insufficient cpu"}},
		{"TimesOut", atoll.Spec{Timeouts: atoll.Timeouts{Create: 60 * time.Millisecond}}, atoll.ErrTimeout, []string{"60ms"}},
		{"NoSuchRuntime", atoll.Spec{Runtime: "no-such"}, atoll.ErrUnsupported, []string{"no-such", "RuntimeClasses"}},
		{"NoSuchClass", atoll.Spec{Pod: &atoll.Pod{StorageClass: "no-such"}}, atoll.ErrUnsupported, []string{"no-such", "default"}},
		{"NoVolumeOnTheImage", atoll.Spec{Dir: "/usr/src"}, atoll.ErrInvalid, []string{"/usr/src"}},
		{"OddVariable", atoll.Spec{Env: []string{"a.b-c=d"}}, atoll.ErrUnsupported, []string{"a.b-c"}},
		{"Root", atoll.Spec{User: "root"}, atoll.ErrUnsupported, []string{"root", "restricted"}},
		{"AllAtOnce", atoll.Spec{
			User: "somebody", VM: &atoll.VM{}, Limits: atoll.Resources{PIDs: 1, Disk: 1 << 20, Files: 1, FileSize: 1}, Runtime: "no-such",
			Network: atoll.Network{Mode: atoll.NetworkBridge}, Mounts: []atoll.Mount{{Source: "/tmp", Target: "/mnt"}},
		}, atoll.ErrUnsupported, []string{"somebody", "machine", "limits.pids", "limits.disk", "limits.files", "limits.file_size", "no-such", "bridge", "mounts"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Env = append(c.spec.Env, "SECRET=1")
			sb, err := d.Create(t.Context(), c.spec)
			if err == nil {
				t.Errorf("it worked: %v", sb.Destroy(t.Context()))
			}
			var fault *atoll.Error
			if !errors.Is(err, c.want) || !errors.As(err, &fault) || fault.Op != "create" {
				t.Errorf("want %v of create, got %v", c.want, err)
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("it does not say %q: %v", word, err)
				}
			}
			requireEmptyNamespace(t, d.Namespace)
		})
	}
}

// TestCreateIsCancelled cancels Create at many moments and checks that nothing is left.
func TestCreateIsCancelled(t *testing.T) {
	d := plainDriver(t)
	d.StorageClass = "default"
	for _, after := range []time.Duration{0, 3, 6, 9, 12, 20, 50, 200} {
		ctx, cancel := context.WithTimeout(t.Context(), after*time.Millisecond)
		sb, err := d.Create(ctx, atoll.Spec{Env: []string{"A=B"}})
		cancel()
		if err == nil {
			t.Logf("after %d ms it was there", after)
			err = sb.Destroy(t.Context())
			if err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %d ms: %v", after, err)
		}
		requireEmptyNamespace(t, d.Namespace)
	}
}

// TestEnvironmentIsASecret searches a value of the environment in all objects except Secrets.
func TestEnvironmentIsASecret(t *testing.T) {
	d := newDriver(t)
	for _, how := range []kubernetes.Placement{kubernetes.PlaceNone, kubernetes.PlaceCopy} {
		d.Placement = how
		sb := createTestSandbox(t, d, atoll.Spec{Env: []string{"TOKEN=hush hush", "Literal_1=$(TOKEN)", "TOKEN=hush\nhush"}})
		api := clustertest.API(t)
		pod, err := api.Core.Pods(d.Namespace).Get(t.Context(), "atoll-"+sb.ID(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if text := pod.String(); strings.Contains(text, "hush") || !strings.Contains(text, "TOKEN") {
			t.Errorf("%s: the pod contains it: %s", how, text)
		}
		secret, err := api.Core.Secrets(d.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != pod.UID {
			t.Errorf("%s: the secret does not end with the pod: %+v", how, secret.OwnerReferences)
		}
		again, err := d.Open(t.Context(), sb.ID())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []atoll.Sandbox{sb, again} {
			exit, err := s.Exec(t.Context(), atoll.Cmd{Args: []string{"env"}})
			if err != nil || !strings.Contains(string(exit.Stdout), "TOKEN=hush\nhush\n") || !strings.Contains(string(exit.Stdout), "Literal_1=$(TOKEN)\n") {
				t.Errorf("%s: inside: %q, %v", how, exit.Stdout, err)
			}
		}
	}
}

// TestNoServiceAccount searches the pod for credentials of the cluster's API.
func TestNoServiceAccount(t *testing.T) {
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "test $(id -u) -ge 1000000 && echo its own user; ls /var/run/secrets/kubernetes.io 2>&1; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'; cat /etc/resolv.conf"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"its own user\n", "No such file", "CapEff:0000000000000000", "CapBnd:0000000000000000", "NoNewPrivs:1", "Seccomp:2", "nameserver 127.0.0.1"} {
		if !strings.Contains(string(exit.Stdout), want) {
			t.Errorf("no %q in %s", want, exit.Stdout)
		}
	}
}

// TestTwoHomesInOneNamespace uses two fleets in one namespace.
func TestTwoHomesInOneNamespace(t *testing.T) {
	d := plainDriver(t)
	d.Home = "one"
	other := plainDriver(t)
	other.Home, other.Namespace = "two", d.Namespace
	sb := createTestSandbox(t, d, atoll.Spec{Name: "mine", Labels: map[string]string{"any key/at all": "värde"}})
	list, err := d.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != sb.ID() || list[0].Name != "mine" || list[0].Labels["any key/at all"] != "värde" || !list[0].Ready() {
		t.Errorf("its own: %+v, %v", list, err)
	}
	if list, err := other.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("the other's: %+v, %v", list, err)
	}
	if _, err := other.Open(t.Context(), sb.ID()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("the other opens it: %v", err)
	}
	again := &kubernetes.Driver{Kubeconfig: d.Kubeconfig, Dir: t.TempDir(), Namespace: d.Namespace, Home: "one", Placement: kubernetes.PlaceCopy}
	found, err := again.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := found.(*kubernetes.PlainSandbox); !ok { // of the same kind, although new ones are different
		t.Errorf("it is a %T", found)
	}
	if err := found.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	requireEmptyNamespace(t, d.Namespace)
}

// TestDeletedFromOutside deletes the pod of a running sandbox.
func TestDeletedFromOutside(t *testing.T) {
	d := plainDriver(t)
	api := clustertest.API(t)
	remove := func(id string) {
		var now int64
		if err := api.Core.Pods(d.Namespace).Delete(t.Context(), "atoll-"+id, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
	}
	sb := createTestSandbox(t, d, atoll.Spec{Env: []string{"A=B"}})
	remove(sb.ID())
	if _, err := sb.Status(t.Context()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Status: %v", err)
	}
	if _, err := d.Open(t.Context(), sb.ID()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Open: %v", err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	requireEmptyNamespace(t, d.Namespace)

	kept := createTestSandbox(t, d, atoll.Spec{Env: []string{"A=B"}, Pod: &atoll.Pod{StorageClass: "default"}})
	remove(kept.ID())
	st, err := kept.Status(t.Context())
	if err != nil || st.State != atoll.Stopped {
		t.Errorf("with a volume: %+v, %v", st, err)
	}
	if err := atoll.Start(t.Context(), kept); err != nil {
		t.Errorf("Start: %v", err)
	}
	if st, err = kept.Status(t.Context()); err != nil || !st.Ready() {
		t.Errorf("started: %+v, %v", st, err)
	}
}

// TestWatchStates deletes and evicts pods: the driver reports both.
func TestWatchStates(t *testing.T) {
	d := plainDriver(t)
	deleted, evicted := createTestSandbox(t, d, atoll.Spec{}), createTestSandbox(t, d, atoll.Spec{})
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	changed, over := make(chan string), make(chan error, 1)
	go func() {
		over <- d.WatchStates(ctx, func(id string) {
			select {
			case changed <- id:
			case <-ctx.Done():
			}
		})
	}()
	api := clustertest.API(t)
	var now int64
	if err := api.Core.Pods(d.Namespace).Delete(ctx, "atoll-"+deleted.ID(), metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	eviction := fmt.Appendf(nil, `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"atoll-%s","namespace":%q}}`, evicted.ID(), d.Namespace)
	evict := api.Core.RESTClient().Post().Namespace(d.Namespace).Resource("pods").Name("atoll-" + evicted.ID()).SubResource("eviction")
	if err := evict.Body(eviction).Do(ctx).Error(); err != nil {
		t.Fatal(err)
	}
	for missing := map[string]bool{deleted.ID(): true, evicted.ID(): true}; len(missing) > 0; {
		select {
		case id := <-changed:
			delete(missing, id)
		case <-ctx.Done():
			t.Fatalf("not reported: %v", missing)
		}
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// TestStoppedIsFound stops a sandbox, and starts it from another process.
func TestStoppedIsFound(t *testing.T) {
	d := newDriver(t)
	d.StorageClass = "default"
	spec := atoll.Spec{Name: "keeper", Env: []string{"A=of the secret"}, Requests: atoll.Resources{Disk: 64 << 20}, Owner: atoll.Owner{App: "a", User: "u"}}
	sb := createTestSandbox(t, d, spec)
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo $A > /workspace/file; (while :; do echo >> /workspace/beat; done) & sleep 0.1"}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := atoll.Stop(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	t.Logf("a stop takes %v", time.Since(begin))
	other := &kubernetes.Driver{Kubeconfig: d.Kubeconfig, Dir: d.Dir, Namespace: d.Namespace, StorageClass: "none"}
	list, err := other.List(t.Context())
	if err != nil || len(list) != 1 || list[0].State != atoll.Stopped || list[0].Name != "keeper" || list[0].Ready() {
		t.Errorf("%+v, %v", list, err)
	}
	again, err := other.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}}); !errors.Is(err, atoll.ErrState) {
		t.Errorf("Exec of what is stopped: %v", err)
	}
	if err := atoll.Start(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	for _, s := range []atoll.Sandbox{again, sb} {
		if err := atoll.Start(t.Context(), s); err != nil { // starting twice is no error, in any process
			t.Error(err)
		}
		exit, err := s.Exec(t.Context(), atoll.Cmd{Shell: "cat file; echo $A"})
		if err != nil || string(exit.Stdout) != "of the secret\nof the secret\n" {
			t.Errorf("after the start: %q, %v", exit.Stdout, err)
		}
	}
	if err := again.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	requireEmptyNamespace(t, d.Namespace)
}

// TestStorageInMemory checks memory volumes, the only storage with a hard limit for all files.
func TestStorageInMemory(t *testing.T) {
	d := newDriver(t)
	d.StorageClass = "memory"
	sb := createTestSandbox(t, d, atoll.Spec{Limits: atoll.Resources{Disk: 4 << 20}})
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "head -c 3000000 /dev/zero > a && head -c 3000000 /dev/zero > /tmp/b; echo $?; echo x > /etc/x; echo x > /x; du -c a /tmp/b | tail -1 | cut -f1"})
	if err != nil || !strings.HasPrefix(string(exit.Stdout), "1\n") || strings.Count(string(exit.Stderr), "Read-only") != 2 {
		t.Errorf("%s%s%v", exit.Stdout, exit.Stderr, err)
	}
	if err := atoll.WriteFile(t.Context(), sb, "/workspace/c", make([]byte, 4<<20), 0o644); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("over the limit: %v", err)
	}
	if err := atoll.Stop(t.Context(), sb); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("Stop: %v", err)
	}
}
