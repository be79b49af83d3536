package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
)

// runClusterTool runs a command of the tool that made the cluster.
func runClusterTool(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, os.Getenv("ATOLL_CLUSTER"), args...).CombinedOutput(); err != nil {
		t.Fatalf("cluster %v: %v\n%s", args, err, out)
	}
}

// guestImages builds an image of the guest, and one of busybox with the guest.
func guestImages(t *testing.T) {
	t.Helper()
	program := filepath.Join(os.Getenv("ATOLL_HELPERS"), "atoll-guest")
	runClusterTool(t, "image", guestImage, "/atoll-guest="+program)
	runClusterTool(t, "image", "-busybox", withGuest, "/atoll-guest="+program)
}

const (
	guestImage = "test.local/guest:1"
	withGuest  = "test.local/with-guest:1"
)

// runShell runs a command that must succeed.
func runShell(t *testing.T, sb atoll.Sandbox, shell string) string {
	t.Helper()
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: shell, Timeout: time.Minute})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%s: %d, %v\n%s%s", shell, exit.Code, err, exit.Stdout, exit.Stderr)
	}
	return string(exit.Stdout)
}

func TestPlacements(t *testing.T) {
	d := newDriver(t)
	guestImages(t)
	for _, c := range []struct {
		how   kubernetes.Placement
		image string
	}{{kubernetes.PlaceImage, withGuest}, {kubernetes.PlaceVolume, ""}, {kubernetes.PlaceInit, ""}, {kubernetes.PlaceCopy, ""}, {kubernetes.PlaceAuto, ""}} {
		t.Run("of "+string(c.how), func(t *testing.T) {
			one := &kubernetes.Driver{Kubeconfig: d.Kubeconfig, Namespace: d.Namespace, Dir: d.Dir, Placement: c.how, GuestImage: guestImage}
			begun := time.Now()
			sb := createTestSandbox(t, one, atoll.Spec{Image: c.image, Env: []string{"HOME=/workspace", "A=b c"}})
			t.Logf("made in %v", time.Since(begun))
			if out := runShell(t, sb, "tr '\\0' ' ' </proc/1/cmdline; echo $HOME $A $ATOLL_KEY $ATOLL_ID; id -u >/workspace/f"); !strings.HasSuffix(out, "atoll-guest pod /workspace b c\n") {
				t.Errorf("%q", out)
			}
			b, err := atoll.ReadFile(t.Context(), sb, "/workspace/f")
			if err != nil || len(bytes.TrimSpace(b)) == 0 {
				t.Errorf("%q, %v", b, err)
			}
			if c.how == kubernetes.PlaceCopy || c.how == kubernetes.PlaceImage {
				return
			}
			exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo >/run/atoll/atoll-guest || echo >/run/atoll/x"})
			if err != nil || exit.Code == 0 {
				t.Errorf("the guest's program can be written: %d, %v", exit.Code, err)
			}
		})
	}
}

// TestHostileProgram checks that a program in a pod can neither read nor stop the guest.
func TestHostileProgram(t *testing.T) {
	d := newDriver(t)
	program := filepath.Join(t.TempDir(), "hostile")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/hostile")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []kubernetes.Placement{kubernetes.PlaceCopy, kubernetes.PlaceInit} {
		t.Run(string(how), func(t *testing.T) {
			if how == kubernetes.PlaceInit {
				guestImages(t)
			}
			one := &kubernetes.Driver{Kubeconfig: d.Kubeconfig, Namespace: d.Namespace, Dir: d.Dir, Placement: how, GuestImage: guestImage}
			sb := createTestSandbox(t, one, atoll.Spec{})
			if err := atoll.WriteFile(t.Context(), sb, "/workspace/hostile", b, 0o755); err != nil {
				t.Fatal(err)
			}
			out := runShell(t, sb, "/workspace/hostile")
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if len(lines) != 21 {
				t.Errorf("%d lines", len(lines))
			}
			for _, line := range lines {
				if strings.HasSuffix(line, ": <nil>") && !(how == kubernetes.PlaceCopy && strings.HasPrefix(line, "write guest")) {
					t.Errorf("a program could: %s", line)
				}
			}
			t.Log(out)
			crowd := "for i in $(seq 300); do (sleep 5 | nc 127.0.0.1 26998 >/dev/null 2>&1 &) ; done"
			runShell(t, sb, crowd)
			other, err := one.Open(t.Context(), sb.ID())
			if err != nil {
				t.Fatal(err)
			}
			runShell(t, other, "true")
		})
	}
}

// TestGuestThatWasNeverSent opens a sandbox whose server was killed after it had created the pod and before it
// had sent the guest, as a start may end: it answers.
func TestGuestThatWasNeverSent(t *testing.T) {
	d := newDriver(t)
	d.Placement = kubernetes.PlaceCopy
	whole := createTestSandbox(t, d, atoll.Spec{})
	pods := clustertest.API(t).Core.Pods(d.Namespace)
	pod, err := pods.Get(t.Context(), "atoll-"+whole.ID(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := atoll.NewID()
	text, err := json.Marshal(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec})
	if err != nil {
		t.Fatal(err)
	}
	var half corev1.Pod
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte(whole.ID()), []byte(id)), &half); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Create(t.Context(), &half, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	sb, err := d.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, func() error {
		st, err := sb.Status(t.Context())
		if err == nil && st.State != atoll.Running {
			err = fmt.Errorf("it is %s", st.State)
		}
		return err
	})
	if out := runShell(t, sb, "echo it answers"); out != "it answers\n" {
		t.Errorf("%q", out)
	}
}

// TestOtherHostCannotUseGuest checks that a host with the cluster's permissions, but without the host's key, can't use the
// guest.
func TestOtherHostCannotUseGuest(t *testing.T) {
	d := newDriver(t)
	d.Home = "shared"
	sb := createTestSandbox(t, d, atoll.Spec{})
	other := &kubernetes.Driver{Kubeconfig: d.Kubeconfig, Namespace: d.Namespace, Dir: t.TempDir(), Home: "shared"}
	again, err := other.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}}); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a command of another host: %v", err)
	}
	runShell(t, sb, "true")
}

// TestDirectConnections checks that commands don't go through the API server with Direct.
func TestDirectConnections(t *testing.T) {
	d := newDriver(t)
	d.Direct = true
	sb := createTestSandbox(t, d, atoll.Spec{})
	runShell(t, sb, "true")
	runClusterTool(t, "freeze", "apiserver")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"true"}})
	runClusterTool(t, "thaw", "apiserver")
	if err != nil || exit.Code != 0 {
		t.Errorf("while the API server stands still: %d, %v", exit.Code, err)
	}
	out := runShell(t, sb, "cat /proc/net/tcp /proc/net/tcp6")
	if !strings.Contains(out, fmt.Sprintf(":%04X ", 26999)) {
		t.Errorf("no connection to the direct port:\n%s", out)
	}
}

// askProxy requests a URL from the proxy inside, without an HTTP client in the image.
func askProxy(t *testing.T, sb atoll.Sandbox, url string) string {
	t.Helper()
	host := strings.Split(strings.TrimPrefix(url, "http://"), "/")[0]
	exit, err := sb.Exec(t.Context(), atoll.Cmd{
		Shell: `printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$URL" "$HOST" | nc ${http_proxy#http://} 2>&1 | head -c 2000; echo`,
		Env:   []string{"URL=" + url, "HOST=" + host}, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(exit.Stdout) + string(exit.Stderr)
}

// TestEgressProxyOfPod checks that only what the rules allow is reached through the tunnel, also with several hosts.
func TestEgressProxyOfPod(t *testing.T) {
	d := newDriver(t)
	serve := func(text string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
		t.Cleanup(s.Close)
		return s
	}
	port := func(s *httptest.Server) int { return s.Listener.Addr().(*net.TCPAddr).Port }
	good, bad := serve("this is allowed"), serve("this is not")
	allow := func(s *httptest.Server) string { return fmt.Sprintf("host.atoll.internal:%d", port(s)) }
	sb := createTestSandbox(t, d, atoll.Spec{Network: atoll.Network{Allow: []string{allow(good)}}})
	goodURL, badURL := "http://"+allow(good)+"/", "http://"+allow(bad)+"/"
	if out := askProxy(t, sb, goodURL); !strings.Contains(out, "this is allowed") {
		t.Errorf("what is allowed: %s", out)
	}
	if out := askProxy(t, sb, badURL); strings.Contains(out, "this is not") || !strings.Contains(out, " 403 ") {
		t.Errorf("what is not: %s", out)
	}
	list, err := atoll.Connections(t.Context(), sb)
	if err != nil || len(list) != 2 || !list[0].Allowed || list[1].Allowed {
		t.Errorf("the log: %+v, %v", list, err)
	}
	if err := atoll.SetNetwork(t.Context(), sb, atoll.Network{Allow: []string{allow(bad)}}); err != nil {
		t.Fatal(err)
	}
	again, err := d.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []atoll.Sandbox{sb, again} {
		if out := askProxy(t, one, goodURL); strings.Contains(out, "this is allowed") {
			t.Errorf("what is allowed no more: %s", out)
		}
		if out := askProxy(t, one, badURL); !strings.Contains(out, "this is not") {
			t.Errorf("what is allowed now: %s", out)
		}
	}
	if c, err := atoll.CheckNetwork(t.Context(), again, allow(good)); err != nil || c.Allowed {
		t.Errorf("%+v, %v", c, err)
	}
	runClusterTool(t, "restart", "apiserver") // this closes all tunnels
	waitFor(t, func() error {
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}})
		if err == nil && exit.Code == 0 {
			if out := askProxy(t, sb, badURL); !strings.Contains(out, "this is not") {
				err = fmt.Errorf("the egress proxy does not answer again: %s", out)
			}
		}
		return err
	})
}

// TestEgressProxiesOfTwoHosts checks that the egress proxy of one host applies the rules that another has set.
func TestEgressProxiesOfTwoHosts(t *testing.T) {
	d := newDriver(t)
	d.Home = "shared"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "this is there") }))
	t.Cleanup(s.Close)
	allowed := fmt.Sprintf("host.atoll.internal:%d", s.Listener.Addr().(*net.TCPAddr).Port)
	sb := createTestSandbox(t, d, atoll.Spec{Network: atoll.Network{Allow: []string{allowed}}})
	dir := t.TempDir()
	b, err := os.ReadFile(filepath.Join(d.Dir, "host.key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "host.key"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	other, err := (&kubernetes.Driver{Kubeconfig: d.Kubeconfig, Namespace: d.Namespace, Dir: dir, Home: "shared"}).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before its directory is removed, which its egress proxy uses
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := other.Destroy(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, one := range []atoll.Sandbox{sb, other} {
		if out := askProxy(t, one, "http://"+allowed+"/"); !strings.Contains(out, "this is there") {
			t.Fatalf("what is allowed: %s", out)
		}
	}
	if err := atoll.SetNetwork(t.Context(), sb, atoll.Network{Allow: []string{"example.com"}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() error {
		if out := askProxy(t, other, "http://"+allowed+"/"); strings.Contains(out, "this is there") {
			return errors.New("the other host's gate lets it out")
		}
		return nil
	})
}

// TestNoNetworkWithoutRules checks that nothing is reached without rules.
func TestNoNetworkWithoutRules(t *testing.T) {
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	if out := runShell(t, sb, "env | grep -i proxy; echo; cat /etc/resolv.conf"); strings.Contains(out, "3128") || !strings.Contains(out, "127.0.0.1") {
		t.Errorf("%s", out)
	}
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "printf 'GET http://example.com/ HTTP/1.1\\r\\n\\r\\n' | nc -w 5 127.0.0.1 3128"})
	if err != nil || len(exit.Stdout) > 0 {
		t.Errorf("a proxy answers: %s, %v", exit.Stdout, err)
	}
	for name, n := range map[string]atoll.Network{
		"Headers": {Allow: []string{"example.com"}, Headers: []atoll.Header{{Host: "example.com:80", Name: "A", Value: "b"}}},
		"Inspect": {Allow: []string{"example.com"}, Inspect: true},
		"NAT":     {Mode: atoll.NetworkNAT, Deny: []string{"example.com"}},
	} {
		if _, err := d.Create(t.Context(), atoll.Spec{Network: n}); !errors.Is(err, atoll.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
