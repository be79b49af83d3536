package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
)

// createTestSandbox creates a sandbox that is destroyed when the test ends.
func createTestSandbox(t *testing.T, d *kubernetes.Driver, spec atoll.Spec) atoll.Sandbox {
	t.Helper()
	sb, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sb.Destroy(ctx); err != nil {
			t.Error(err)
		}
	})
	return sb
}

// startHeartbeat starts a detached command that appends to a file as long as it runs.
func startHeartbeat(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	d, ok := atoll.As[atoll.Detacher](sb)
	if !ok {
		t.Fatal("no commands can be detached")
	}
	if _, err := d.Detach(t.Context(), atoll.Cmd{Shell: "while :; do echo >> beat; sleep 0.1; done", Timeout: -1}); err != nil {
		t.Fatal(err)
	}
}

// checkHeartbeat checks that the command of startHeartbeat runs.
func checkHeartbeat(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	first := -1
	waitFor(t, func() error {
		b, err := atoll.ReadFile(t.Context(), sb, "/workspace/beat")
		if err == nil && (first < 0 || len(b) <= first) {
			first, err = len(b), fmt.Errorf("what was detached does not go on: %d bytes", len(b))
		}
		return err
	})
}

// waitFor calls f until it returns nil, for conditions without an event to wait for.
func waitFor(t *testing.T, f func() error) {
	t.Helper()
	const within = time.Minute // the machine may be busy
	var err error
	for end := time.Now().Add(within); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("after %v: %v", within, err)
}

// checkNothingLeft checks that the driver's namespace has no pods, volumes and secrets of sandboxes.
func checkNothingLeft(t *testing.T, d *kubernetes.Driver) {
	t.Helper()
	api := clustertest.API(t)
	waitFor(t, func() error {
		pods, err := api.Core.Pods(d.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Errorf("%d pods, %w", len(pods.Items), err)
		}
		claims, err := api.Core.PersistentVolumeClaims(d.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(claims.Items) > 0 {
			return fmt.Errorf("%d volumes, %w", len(claims.Items), err)
		}
		return nil
	})
}

// waitForAnswer waits until a sandbox runs commands.
func waitForAnswer(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	waitFor(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"echo", "well"}})
		if err == nil && string(exit.Stdout) != "well\n" {
			err = fmt.Errorf("a wrong answer: %+v", exit)
		}
		return err
	})
}

// TestServerRestarts checks that a command that runs while the API server restarts succeeds, that a detached one
// continues, and that the sandbox answers and new ones can be created afterwards.
func TestServerRestarts(t *testing.T) {
	sb := createTestSandbox(t, newDriver(t), atoll.Spec{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	startHeartbeat(t, sb)
	ended := make(chan error, 1)
	go func() {
		exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo begun; sleep 20; echo over"})
		if err == nil && (exit.Code != 0 || string(exit.Stdout) != "begun\nover\n") {
			err = fmt.Errorf("a wrong answer: %+v", exit)
		}
		ended <- err
	}()
	<-time.After(time.Second) // the command probably runs now
	clustertest.Tool(t, "restart", "apiserver")
	if err := <-ended; err != nil {
		t.Errorf("a command under way: %v", err)
	}
	waitForAnswer(t, sb)
	checkHeartbeat(t, sb)
	another := createTestSandbox(t, newDriver(t), atoll.Spec{})
	waitForAnswer(t, another)
}

// TestServerStopped checks that calls fail with ErrUnavailable within their deadline while the API server is
// stopped.
func TestServerStopped(t *testing.T) {
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	clustertest.Tool(t, "stop", "apiserver")
	back := false
	t.Cleanup(func() {
		if !back {
			clustertest.Tool(t, "start", "apiserver")
		}
	})
	var wg sync.WaitGroup // at once: components that have lost the server wait the longer for it, the longer it is away
	for op, f := range map[string]func(context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := d.Create(ctx, atoll.Spec{Timeouts: atoll.Timeouts{Create: time.Second}})
			return err
		},
		"list":   func(ctx context.Context) error { _, err := d.List(ctx); return err },
		"open":   func(ctx context.Context) error { _, err := d.Open(ctx, sb.ID()); return err },
		"status": func(ctx context.Context) error { _, err := sb.Status(ctx); return err },
	} {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			err := f(ctx)
			if !errors.Is(err, atoll.ErrUnavailable) && !errors.Is(err, atoll.ErrTimeout) || errors.Is(err, atoll.ErrNotFound) {
				t.Errorf("%s: %v", op, err)
			}
		})
	}
	wg.Wait()
	clustertest.Tool(t, "start", "apiserver")
	back = true
	waitForAnswer(t, sb)
	createTestSandbox(t, d, atoll.Spec{}) // waits for the scheduler and the controllers
}

// TestNodeRestarts checks that restarting the kubelet or the container runtime does not affect sandboxes.
func TestNodeRestarts(t *testing.T) {
	for _, what := range [][]string{{"restart", "kubelet"}, {"kill", "containerd"}} {
		t.Run(strings.Join(what, " "), func(t *testing.T) {
			d := newDriver(t)
			sb, plain := createTestSandbox(t, d, atoll.Spec{}), createTestSandbox(t, plainDriver(t), atoll.Spec{})
			startHeartbeat(t, sb)
			clustertest.Tool(t, what...)
			if what[0] == "kill" {
				clustertest.Tool(t, "start", what[1])
			} else { // the first commands of a new connection succeed: the node must know its pods again
				again, err := d.Open(t.Context(), sb.ID())
				if err != nil {
					t.Fatal(err)
				}
				for _, sb := range []atoll.Sandbox{again, plain} {
					if exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}}); err != nil || exit.Code != 0 {
						t.Errorf("right after the restart: %+v, %v", exit, err)
					}
				}
			}
			waitForAnswer(t, sb)
			checkHeartbeat(t, sb)
			another := createTestSandbox(t, newDriver(t), atoll.Spec{})
			waitForAnswer(t, another)
		})
	}
}

// TestEviction checks that an evicted pod ends its commands with an error, is no running sandbox afterwards,
// and can be started again with its files if it has a volume.
func TestEviction(t *testing.T) {
	d := newDriver(t)
	d.StorageClass = "default"
	sb := createTestSandbox(t, d, atoll.Spec{})
	if err := atoll.WriteFile(t.Context(), sb, "/workspace/kept", []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"sleep", "60"}})
		ended <- err
	}()
	<-time.After(500 * time.Millisecond) // it may run or fail at once
	name := "atoll-" + sb.ID()
	eviction := fmt.Appendf(nil, `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, name, d.Namespace)
	api := clustertest.API(t).Core.RESTClient().Post().Namespace(d.Namespace).Resource("pods").Name(name).SubResource("eviction")
	if err := api.Body(eviction).Do(t.Context()).Error(); err != nil { // as draining a node does
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil || errors.Is(err, atoll.ErrTimeout) {
			t.Errorf("the command in it: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the command hangs")
	}
	waitFor(t, func() error {
		st, err := sb.Status(t.Context())
		if err != nil || st.State == atoll.Running {
			return fmt.Errorf("%+v, %w", st, err)
		}
		return nil
	})
	if err := atoll.Start(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	if b, err := atoll.ReadFile(t.Context(), sb, "/workspace/kept"); err != nil || string(b) != "kept" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestCordonedNode checks that the error of Create names a cordoned node as its cause.
func TestCordonedNode(t *testing.T) {
	d := newDriver(t)
	nodes, err := clustertest.API(t).Core.Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cordon := func(on bool) {
		for _, n := range nodes.Items {
			if _, err := clustertest.API(t).Core.Nodes().Patch(context.Background(), n.Name, types.StrategicMergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, on), metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	cordon(true)
	t.Cleanup(func() { cordon(false) })
	for range 10 { // the scheduler notices it after a while
		var sb atoll.Sandbox
		if sb, err = d.Create(t.Context(), atoll.Spec{Timeouts: atoll.Timeouts{Create: 3 * time.Second}}); err != nil {
			if !errors.Is(err, atoll.ErrTimeout) || strings.Contains(err.Error(), "unschedulable") {
				break
			}
			continue // no error yet
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !errors.Is(err, atoll.ErrTimeout) || !strings.Contains(err.Error(), "unschedulable") {
		t.Errorf("%v", err)
	}
	checkNothingLeft(t, d)
}

// TestMemoryRunsOut checks that a command that uses too much memory is ended by the kernel, and that the
// status shows it.
func TestMemoryRunsOut(t *testing.T) {
	sb := createTestSandbox(t, newDriver(t), atoll.Spec{Limits: atoll.Resources{Memory: 64 << 20}, Requests: atoll.Resources{Memory: 32 << 20}})
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: `x=$(head -c 200000000 /dev/zero | tr '\0' x); echo ${#x}`})
	if err == nil && exit.Code == 0 {
		t.Errorf("200 MB fit into 64 MiB: %+v", exit)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		st, err := sb.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if st.State == atoll.Failed {
			if !strings.Contains(fmt.Sprint(st.Conditions), "OOM") {
				t.Errorf("%+v", st)
			}
			return
		}
		if exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"true"}}); err == nil && exit.Code == 0 {
			return // the kernel has killed only the command
		}
	}
}

// TestCutStream cuts the connection in the middle of a command, of an upload and of a download: none but a command
// of a guest succeeds, and the sandbox still answers.
func TestCutStream(t *testing.T) {
	for _, placement := range []kubernetes.Placement{kubernetes.PlaceCopy, kubernetes.PlaceNone} {
		t.Run(string(placement), func(t *testing.T) {
			p := newAPIProxy(t, 0)
			d := newDriver(t)
			d.Kubeconfig, d.Placement = p.writeKubeconfig(t), placement
			sb := createTestSandbox(t, d, atoll.Spec{})
			for what, f := range map[string]func(ctx context.Context) error{
				"a command": func(ctx context.Context) error {
					const size = 300_000_000
					w := new(slowWriter)
					_, err := sb.Exec(ctx, atoll.Cmd{Shell: fmt.Sprintf("yes | head -c %d | cat", size), Stdout: w})
					if continues := placement == kubernetes.PlaceCopy; continues && (err != nil || w.written != size) {
						t.Errorf("a command that was cut: %d bytes, %v", w.written, err)
					} else if continues {
						err = errContinued
					}
					return err
				},
				"an upload": func(ctx context.Context) error {
					return atoll.WriteFile(ctx, sb, "/workspace/up", bytes.Repeat([]byte("x"), 200<<20), 0o644)
				},
				"a download": func(ctx context.Context) error {
					r, err := sb.Export(ctx, "/bin")
					if err != nil {
						return err
					}
					defer r.Close()
					_, err = io.Copy(new(slowWriter), r)
					return err
				},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				ended := make(chan error, 1)
				go func() { ended <- f(ctx) }()
				p.waitForBytes(t, 256<<10) // during the transfer
				p.cutConnections()
				select {
				case err := <-ended:
					if err == nil && what != "a download" { // it may have finished: /bin is small
						t.Errorf("%s that was cut went well", what)
					}
				case <-time.After(time.Minute):
					t.Errorf("%s hangs", what)
				}
				cancel()
				waitForAnswer(t, sb)
			}
		})
	}
}

// errContinued reports that a command has ended by itself after it was cut.
var errContinued = errors.New("it went on")

// slowWriter is a slow writer, which counts its bytes.
type slowWriter struct{ written int }

func (w *slowWriter) Write(p []byte) (int, error) {
	<-time.After(time.Millisecond)
	w.written += len(p)
	return len(p), nil
}

// TestClockSkew checks that a difference between the clocks of the cluster and this host does not change the
// age or state of a sandbox.
func TestClockSkew(t *testing.T) {
	for _, skew := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			d := newDriver(t)
			d.Kubeconfig = newAPIProxy(t, skew).writeKubeconfig(t)
			begin := time.Now()
			sb := createTestSandbox(t, d, atoll.Spec{})
			waitForAnswer(t, sb)
			st, err := sb.Status(t.Context())
			if err != nil || st.State != atoll.Running || !st.Ready() {
				t.Errorf("%+v, %v", st, err)
			}
			if now := time.Now(); st.Created.Before(begin.Add(-time.Minute)) || st.Created.After(now.Add(time.Minute)) {
				t.Errorf("it was created at %v, between %v and %v", st.Created, begin, now)
			}
			if _, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"sleep", "30"}, Timeout: 500 * time.Millisecond}); !errors.Is(err, atoll.ErrTimeout) {
				t.Errorf("a deadline: %v", err)
			}
			if err := sb.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			checkNothingLeft(t, d)
		})
	}
}
