package replicas

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/commandtest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// linesVar is the environment variable with the lines that the commands print.
const linesVar = "ATOLL_RESUME_LINES"

// balancer is a load balancer of this process: it connects to the current server, and can cut all
// connections.
type balancer struct {
	mu    sync.Mutex
	to    *replica   // guarded by mu
	conns []net.Conn // guarded by mu

	waited, restored atomic.Int64 // calls of client.Options.OnReconnect
}

// countReconnect is a client.Options.OnReconnect.
func (b *balancer) countReconnect(lost error) {
	if lost != nil {
		b.waited.Add(1)
	} else {
		b.restored.Add(1)
	}
}

func (b *balancer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	b.mu.Lock()
	to := b.to
	b.mu.Unlock()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(to.home, "atoll.sock"))
	if err == nil {
		b.mu.Lock()
		b.conns = append(b.conns, conn)
		b.mu.Unlock()
	}
	return conn, err
}

// cut cuts all connections.
func (b *balancer) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		_ = c.Close()
	}
	b.conns = nil
}

// turnTo makes a server the one of new connections.
func (b *balancer) turnTo(r *replica) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = r
}

// progress is a writer that calls at after so many bytes, once each.
type progress struct {
	bytes.Buffer
	at    []int
	calls chan int
}

func (p *progress) Write(b []byte) (int, error) {
	n, err := p.Buffer.Write(b)
	for len(p.at) > 0 && p.Len() >= p.at[0] {
		p.calls <- p.at[0]
		p.at = p.at[1:]
	}
	return n, err
}

// TestCommandOutlivesConnectionAndServer runs commands with output all the time, while the client's
// connection is cut, its server is killed and started again, and a rollout changes to another server.
// The output is whole, once and in order, and the status is right.
func TestCommandOutlivesConnectionAndServer(t *testing.T) {
	testResume(t, "namespace", filepath.Join(t.TempDir(), "sandboxes"))
}

func TestCommandOutlivesServerOnKubernetes(t *testing.T) {
	testResume(t, "kubernetes", clustertest.Namespace(t, nil))
}

// TestCommandOutlivesServerAndCluster runs one command over a cut connection, two killed servers, and restarts of
// everything between a server and the pod.
func TestCommandOutlivesServerAndCluster(t *testing.T) {
	replicas, _ := startReplicas(t, "kubernetes", clustertest.Namespace(t, nil))
	b := &balancer{to: replicas[0]}
	c := commandtest.Start(t, createBehind(t, b))
	restart := func(component string) func() {
		return func() {
			clustertest.Tool(t, "kill", component)
			clustertest.Tool(t, "start", component)
		}
	}
	for _, fault := range []func(){
		b.cut,
		restart("kubelet"),
		func() {
			replicas[0].kill()
			must(t, replicas[0].start())
		},
		restart("containerd"),
		restart("apiserver"),
		func() { // the other server knows the cluster as it was
			b.turnTo(replicas[1])
			replicas[0].kill()
			must(t, replicas[0].start())
		},
		func() { // both at once
			clustertest.Tool(t, "kill", "apiserver")
			b.turnTo(replicas[0])
			replicas[1].kill()
			clustertest.Tool(t, "start", "apiserver")
			must(t, replicas[1].start())
		},
	} {
		fault()
		c.WaitForOutput(t)
	}
	t.Logf("%d lines", c.Finish(t))
}

// createBehind creates a sandbox with a client behind a load balancer. It is destroyed when the test ends.
func createBehind(t *testing.T, b *balancer) *client.Sandbox {
	t.Helper()
	c, err := client.New(client.Options{Host: "http://balancer", DialContext: b.dial, OnReconnect: b.countReconnect})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // only its idle connections
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var cfg atoll.Config
	cfg.Name = "outlives"
	sb, err := c.CreateSandbox(ctx, cfg)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		must(t, sb.Destroy(ctx))
	})
	return sb
}

func testResume(t *testing.T, driver, place string) {
	replicas, _ := startReplicas(t, driver, place)
	b := &balancer{to: replicas[0]}
	sb := createBehind(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	faults := []struct {
		name string
		do   func()
	}{
		{"the connection is cut", b.cut},
		{"the server is killed and started again", func() {
			replicas[0].kill()
			must(t, replicas[0].start())
		}},
		{"a rollout changes to another server", func() {
			b.turnTo(replicas[1])
			replicas[0].kill()
			must(t, replicas[0].start())
		}},
		{"and back", func() {
			b.turnTo(replicas[0])
			b.cut()
		}},
	}
	lines := testenv.Rounds(t, 60, 60, linesVar) // one each 100 ms
	script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo line $i; echo error $i >&2; i=$((i+1)); sleep 0.1; done; exit 7`, lines)
	t.Run("streams", func(t *testing.T) {
		stdout := &progress{calls: make(chan int, len(faults))}
		for i := range faults {
			stdout.at = append(stdout.at, 60+80*i)
		}
		var stderr bytes.Buffer
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, f := range faults {
				select {
				case <-stdout.calls:
				case <-ctx.Done():
					t.Errorf("no output before: %s", f.name)
					return
				}
				f.do()
			}
		})
		exit, err := sb.Exec(ctx, atoll.Cmd{Shell: script, Stdout: stdout, Stderr: &stderr})
		if err != nil || exit.Code != 7 {
			t.Errorf("Exec: %+v, %v", exit, err)
			cancel()
		}
		wg.Wait()
		if n := b.waited.Load(); n == 0 || b.restored.Load() != n {
			t.Errorf("the client told %d times that it waits for the server, and %d times that it is back", n, b.restored.Load())
		}
		checkLines(t, "line", stdout.String(), lines)
		checkLines(t, "error", stderr.String(), lines)
	})
	t.Run("one request", func(t *testing.T) {
		started := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			<-started
			for _, f := range faults[:3] {
				f.do()
			}
		})
		wg.Go(func() {
			defer close(started)
			for ctx.Err() == nil { // a command that no guest has started yet is lost with its connection
				if _, err := atoll.ReadFile(ctx, sb, "/tmp/started"); err == nil {
					return
				}
			}
		})
		exit, err := sb.Exec(ctx, atoll.Cmd{Shell: ": > /tmp/started; " + script})
		if err != nil || exit.Code != 7 {
			t.Errorf("Exec: %+v, %v", exit, err)
			cancel()
		}
		wg.Wait()
		checkLines(t, "line", string(exit.Stdout), lines)
		checkLines(t, "error", string(exit.Stderr), lines)
	})
	t.Run("input", func(t *testing.T) {
		r, w := io.Pipe()
		defer w.Close()
		stdout := &progress{calls: make(chan int, len(faults)), at: []int{10, 100, 200, 300}}
		var wg sync.WaitGroup
		wg.Go(func() {
			defer w.Close()
			for i := range lines {
				if _, err := fmt.Fprintln(w, "line", i); err != nil {
					return
				}
				select {
				case n := <-stdout.calls:
					faults[map[int]int{10: 0, 100: 1, 200: 2, 300: 3}[n]].do()
				case <-time.After(50 * time.Millisecond): // so that it takes a while
				case <-ctx.Done():
					return
				}
			}
		})
		exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "cat; echo line end >&2; exit 9", Stdin: r, Stdout: stdout, Stderr: stdout})
		if err != nil || exit.Code != 9 {
			t.Errorf("Exec: %+v, %v", exit, err)
			_ = w.Close()
		}
		wg.Wait()
		out, ended := strings.CutSuffix(stdout.String(), "line end\n")
		if !ended {
			t.Errorf("the error output is not at the end: %q", stdout.String())
		}
		checkLines(t, "line", out, lines)
	})
}

func checkLines(t *testing.T, word, got string, n int) {
	t.Helper()
	var want strings.Builder
	for i := range n {
		fmt.Fprintln(&want, word, i)
	}
	if got != want.String() {
		t.Errorf("the output differs: %q", got)
	}
}
