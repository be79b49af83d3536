package turns

import (
	"archive/tar"
	"context"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestOnKubernetes runs itself again in a cluster, where turns run in pods and
// workspaces are copied.
func TestOnKubernetes(t *testing.T) {
	if os.Getenv("ATOLL_CLUSTER_STATE") == "" {
		tool := os.Getenv("ATOLL_CLUSTER")
		if tool == "" {
			testenv.Skip(t, "kubernetes", `there is no cluster: eval "$(scripts/cluster)" makes the tool that makes one`)
		}
		cmd := exec.CommandContext(t.Context(), tool, "run", "--", os.Args[0], "-test.run=^TestOnKubernetes$", "-test.v") //nolint:gosec // the tool that was named
		out, err := cmd.CombinedOutput()
		if t.Log(string(out)); err != nil || !strings.Contains(string(out), "--- PASS: TestOnKubernetes") {
			t.Fatal(err)
		}
		return
	}
	t.Run("Turns", testTurnsOnKubernetes)
	t.Run("Claims", measureClaims)
}

func newClusterDriver(t *testing.T) atoll.Driver {
	return &kubernetes.Driver{Kubeconfig: clustertest.Kubeconfig(t), Dir: t.TempDir(), Namespace: clustertest.Namespace(t, nil)}
}

func testTurnsOnKubernetes(t *testing.T) {
	s := newTestServer(t, serverOptions{agents: scriptedAgents(), driver: newClusterDriver(t), program: assistant.Program{
		Mounts: []atoll.Mount{{Source: makeProgramDir(t), Target: "/opt/atoll/agents/double", ReadOnly: true}}, Path: []string{"/opt/atoll/agents/double"},
	}})
	chat := func(name, prompt string, cfg *atoll.Config) agent.Record {
		t.Helper()
		r := newRequest(prompt)
		r.Chat, r.Config = name, cfg
		begin := time.Now()
		rec, _ := s.runTurn(r)
		t.Logf("%q took %v: %+v", prompt, time.Since(begin).Round(time.Millisecond), rec.Result)
		return rec
	}
	// The agent's state and the workspace are copied from pod to pod.
	chat("c", "one", nil)
	if rec := chat("c", "two", nil); !strings.HasPrefix(rec.Result.Text, "s1: two") || !strings.HasSuffix(rec.Result.Text, "knows one") {
		t.Errorf("the second turn: %+v", rec.Result)
	}
	// The same with a pool, from which the turn claims a pod.
	s.keepPoolFull(t, 2)
	if rec := chat("c", "three", &atoll.Config{Pool: "warm"}); !strings.HasPrefix(rec.Result.Text, "s1: three") || !strings.HasSuffix(rec.Result.Text, "knows one") {
		t.Errorf("the third turn, of a pool: %+v", rec.Result)
	}
	if got := s.readAgentState(); got != "one\ntwo\nthree\n" {
		t.Errorf("stored state: %q", got)
	}
	s.must(s.adminAccount().RemovePool(t.Context(), "warm"))
	s.checkNoSandboxes()
}

// keepPoolFull fills a pool, and keeps it full until stop is called or the test ends.
func (s *testServer) keepPoolFull(t *testing.T, size int) (stop func()) {
	t.Helper()
	_, err := s.adminAccount().SetPool(t.Context(), atoll.Pool{Name: "warm", Size: size, Config: atoll.Config{
		Driver: "kubernetes", Spec: atoll.Spec{Requests: atoll.Resources{CPU: 0.02, Memory: 64 << 20}}, // many on a small node
	}})
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.fleet.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); s.must(<-ran) })
	t.Cleanup(stop)
	for until := time.Now().Add(2 * time.Minute); ; <-time.After(50 * time.Millisecond) {
		pools, err := s.adminAccount().Pools(t.Context())
		s.must(err)
		if pools[0].Ready == size {
			return stop
		}
		if time.Now().After(until) {
			t.Fatalf("the pool is not ready: %+v", pools[0])
		}
	}
}

// measureClaims measures claims through the fleet with their first command, one at a
// time and all at once. $ATOLL_CLAIMS is their number.
func measureClaims(t *testing.T) {
	n := 6
	if text := os.Getenv("ATOLL_CLAIMS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	s := newTestServer(t, serverOptions{driver: newClusterDriver(t)})
	s.keepPoolFull(t, 2*n)() // stop refilling, which would disturb the measurement
	claim := func() time.Duration {
		begin := time.Now()
		sb, err := s.adminAccount().Create(context.Background(), atoll.Config{Pool: "warm", Spec: atoll.Spec{Env: []string{"A=b"}}})
		if err == nil {
			_, err = sb.Exec(context.Background(), atoll.Cmd{Args: []string{"true"}})
		}
		if err != nil {
			t.Error(err)
		}
		return time.Since(begin)
	}
	var alone, crowd []time.Duration
	for range n {
		alone = append(alone, claim())
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range n {
		wg.Go(func() {
			d := claim()
			mu.Lock()
			defer mu.Unlock()
			crowd = append(crowd, d)
		})
	}
	wg.Wait()
	slices.Sort(alone)
	slices.Sort(crowd)
	t.Logf("claim with its first command, of %d: one at a time p50 %v, worst %v; all at once p50 %v, worst %v", n, alone[n/2], alone[n-1], crowd[n/2], crowd[n-1])
	list, err := s.adminAccount().List(t.Context(), fleet.Filter{})
	s.must(err)
	if len(list) != 2*n {
		t.Errorf("%d sandboxes for %d claims", len(list), 2*n)
	}
	for _, i := range list {
		sb, err := s.adminAccount().Open(t.Context(), i.ID)
		s.must(err)
		s.must(sb.Destroy(t.Context()))
	}
}

// readAgentState returns the stored state of the agents in alice's only chat.
func (s *testServer) readAgentState() string {
	s.Helper()
	a := s.fleet.Account(fleet.Caller{Owner: atoll.Owner{App: "app", User: "alice"}, Scopes: []atoll.Scope{atoll.ScopeRead}})
	list, err := a.Workspaces(s.Context())
	s.must(err)
	for _, w := range list {
		if !strings.HasSuffix(w.Name, ".agents") {
			continue
		}
		files, err := a.Files(s.Context(), w.Name)
		s.must(err)
		defer func() { s.must(files.Close()) }()
		rc, err := files.Export(s.Context(), "/")
		s.must(err)
		defer func() { _ = rc.Close() }() // not read to its end
		for tr := tar.NewReader(rc); ; {
			h, err := tr.Next()
			s.must(err)
			if path.Base(h.Name) == "said" {
				b, err := io.ReadAll(tr)
				s.must(err)
				return string(b)
			}
		}
	}
	return ""
}

// makeProgramDir returns a directory with a program.
func makeProgramDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/hello", []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return dir
}
