package kubernetes_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
)

// createPooled creates a sandbox of the warm pool.
func createPooled(t testing.TB, d *kubernetes.Driver) atoll.Sandbox {
	t.Helper()
	sb, err := d.Create(t.Context(), atoll.Spec{Labels: map[string]string{atoll.PoolLabel: "warm"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sb
}

func claimSandbox(ctx context.Context, t testing.TB, sb atoll.Sandbox, spec atoll.Spec) error {
	t.Helper()
	c, ok := atoll.As[atoll.Claimer](sb)
	if !ok {
		t.Fatalf("%T is no Claimer", sb)
	}
	return c.Claim(ctx, spec)
}

func TestClaim(t *testing.T) {
	d := newDriver(t)
	d.Apps = map[string]kubernetes.Target{"apart": {Namespace: d.Namespace + "-b"}}
	sb := createPooled(t, d)
	pods := clustertest.API(t).Core.Pods(d.Namespace)
	ready, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "atoll.dev/pool=ready"})
	if err != nil || len(ready.Items) != 1 {
		t.Fatalf("ready: %d, %v", len(ready.Items), err)
	}
	spec := atoll.Spec{Name: "mine", Labels: map[string]string{"a/b c": "d"}, Owner: atoll.Owner{App: "app", User: "u"}}
	elsewhere := spec
	elsewhere.Owner.App = "apart"
	if err := claimSandbox(t.Context(), t, sb, elsewhere); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("for an app elsewhere: %v", err)
	}
	if err := claimSandbox(t.Context(), t, sb, spec); err != nil {
		t.Fatal(err)
	}
	if err := claimSandbox(t.Context(), t, sb, spec); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("again: %v", err)
	}
	pod, err := pods.Get(t.Context(), ready.Items[0].Name, metav1.GetOptions{})
	if err != nil || pod.Labels["atoll.dev/pool"] != "" || pod.Labels["atoll.dev/owner"] == "" {
		t.Errorf("labels: %v, %v", pod.Labels, err)
	}
	again, err := d.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	for _, sb := range []atoll.Sandbox{sb, again} {
		st, err := sb.Status(t.Context())
		if err != nil || st.Name != "mine" || st.Labels["a/b c"] != "d" || st.Labels[atoll.PoolLabel] != "" {
			t.Errorf("status: %+v, %v", st, err)
		}
	}
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"echo", "hi"}})
	if err != nil || string(exit.Stdout) != "hi\n" {
		t.Errorf("inside: %q, %v", exit.Stdout, err)
	}
}

func TestClaimRemovedPod(t *testing.T) {
	d := newDriver(t)
	sb := createPooled(t, d)
	pods := clustertest.API(t).Core.Pods(d.Namespace)
	grace := int64(0)
	if err := pods.Delete(t.Context(), "atoll-"+sb.ID(), metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	if err := claimSandbox(t.Context(), t, sb, atoll.Spec{Owner: atoll.Local}); !errors.Is(err, atoll.ErrState) {
		t.Errorf("claim: %v", err)
	}
}

// TestConcurrentClaims lets a hundred callers claim three pods through two servers: each pod gets one owner.
func TestConcurrentClaims(t *testing.T) {
	d := newDriver(t)
	other := &kubernetes.Driver{Kubeconfig: d.Kubeconfig, Namespace: d.Namespace, Dir: d.Dir}
	for range 3 {
		sb := createPooled(t, d)
		theirs, err := other.Open(t.Context(), sb.ID())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []string
		for i := range 100 {
			wg.Go(func() {
				user := "u" + string(rune('a'+i%26))
				handle := []atoll.Sandbox{sb, theirs}[i%2]
				switch err := claimSandbox(context.Background(), t, handle, atoll.Spec{Name: user, Owner: atoll.Owner{App: "app", User: user}}); {
				case err == nil:
					mu.Lock()
					won = append(won, user)
					mu.Unlock()
				case !errors.Is(err, atoll.ErrExists):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		st, err := sb.Status(t.Context())
		if err != nil || len(won) != 1 {
			t.Fatalf("won: %v, %v", won, err)
		}
		fresh, err := d.Open(t.Context(), sb.ID())
		if err != nil {
			t.Fatal(err)
		}
		if st, err = fresh.Status(t.Context()); err != nil || st.Name != won[0] {
			t.Errorf("it belongs to %s, the winner is %s: %v", st.Name, won[0], err)
		}
	}
}
