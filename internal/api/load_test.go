package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// What the load test loads the server with.
const (
	loadSandboxes = 1000
	loadClients   = 64
	// Bytes of live memory and goroutines that may be there afterwards and were
	// not before: pools and caches that were empty at first.
	loadHeap       = 16 << 20
	loadGoroutines = 10
)

// TestLoad has a thousand sandboxes alive and many clients at work in them, among
// them one that hardly reads and some that vanish, for ATOLL_LOAD_TIME.
func TestLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute: run without -short")
	}
	loadTime := 3 * time.Second
	if testenv.All() {
		loadTime = 10 * time.Second
	}
	if d, err := time.ParseDuration(os.Getenv("ATOLL_LOAD_TIME")); err == nil {
		loadTime = d
	}
	home := t.TempDir()
	f, err := fleet.Open(t.Context(), fleet.Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := api.ListenUnix(filepath.Join(home, "atoll.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := api.New(api.Options{Fleet: f, Limits: api.Limits{Rate: -1, Concurrent: -1}})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(s.Shutdown(ctx), <-served, f.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	few := population(t, home, 20)
	drill(t, home, few, 2*time.Second) // caches and pools are full after this
	evacuate(t, home, few)
	before := measure()
	ids := population(t, home, loadSandboxes)
	took := drill(t, home, ids, loadTime)
	alive := measure()
	evacuate(t, home, ids)
	after := measure()
	slices.Sort(took)
	at := func(p float64) time.Duration { return took[int(p*float64(len(took)-1))] }
	t.Logf("%d execs in %v by %d clients in %d sandboxes: %.0f a second; p50 %v, p99 %v, longest %v; live heap %d KiB for each sandbox, %+d KiB after all, goroutines %+d",
		len(took), loadTime, loadClients, loadSandboxes, float64(len(took))/loadTime.Seconds(), at(.5), at(.99), at(1),
		(alive.heap-before.heap)>>10/loadSandboxes, (after.heap-before.heap)>>10, after.goroutines-before.goroutines)
	if after.heap > before.heap+loadHeap {
		t.Errorf("live memory grew from %d to %d bytes", before.heap, after.heap)
	}
	if after.goroutines > before.goroutines+loadGoroutines {
		t.Errorf("there were %d goroutines and are %d\n%s", before.goroutines, after.goroutines, stacks())
	}
}

// population makes sandboxes.
func population(t *testing.T, home string, n int) []string {
	t.Helper()
	c := dial(t, home)
	defer func() { _ = c.Close() }() // only its idle connections
	ids := make([]string, n)
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for i := k; i < len(ids); i += 8 {
				cfg := atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}}
				cfg.Name = fmt.Sprintf("box%d", i)
				sb, err := c.CreateSandbox(t.Context(), cfg)
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = sb.ID()
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return ids
}

// evacuate destroys sandboxes.
func evacuate(t *testing.T, home string, ids []string) {
	t.Helper()
	c := dial(t, home)
	for _, id := range ids {
		sb, err := c.Sandbox(t.Context(), id)
		if err == nil {
			err = sb.Destroy(t.Context())
		}
		if err != nil {
			t.Errorf("destroy: %v", err)
		}
	}
	_ = c.Close() // only its idle connections
}

// drill lets the clients work for a while and returns how long each exec took.
func drill(t *testing.T, home string, ids []string, d time.Duration) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for n := range loadClients {
		wg.Go(func() {
			c := dial(t, home)
			defer func() { _ = c.Close() }() // only its idle connections
			mine := execs(ctx, t, c, ids, uint64(n))
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	wg.Go(func() { slowReader(ctx, t, home, ids[0]) })
	wg.Go(func() { vanish(ctx, t, home, ids[1]) })
	wg.Wait()
	if len(took) == 0 {
		t.Fatal("nothing was done")
	}
	return took
}

// execs runs commands, one after another, until ctx is done.
func execs(ctx context.Context, t *testing.T, c *client.Client, ids []string, seed uint64) []time.Duration {
	var took []time.Duration
	rng := rand.New(rand.NewPCG(1, seed))
	for ctx.Err() == nil {
		sb, err := c.Sandbox(context.WithoutCancel(ctx), ids[2+rng.IntN(len(ids)-2)])
		if err != nil {
			t.Errorf("open: %v", err)
			return took
		}
		word := fmt.Sprint(rng.Uint64())
		begun := time.Now()
		exit, err := sb.Exec(context.WithoutCancel(ctx), atoll.Cmd{Args: []string{"sh", "-c", `echo "$1" | tee /tmp/last`, "sh", word}})
		if err != nil || exit.Code != 0 || string(exit.Stdout) != word+"\n" {
			t.Errorf("exec: %+v, %v", exit, err)
			return took
		}
		took = append(took, time.Since(begun))
	}
	return took
}

// slowReader takes a little of a command's endless output now and then: neither
// the server's memory nor the others may feel it.
func slowReader(ctx context.Context, t *testing.T, home, id string) {
	c := dial(t, home)
	defer func() { _ = c.Close() }() // only its idle connections
	sb, err := c.Sandbox(ctx, id)
	if err != nil {
		t.Errorf("slow reader: %v", err)
		return
	}
	_, err = sb.Exec(ctx, atoll.Cmd{Args: []string{"yes"}, Stdout: &sleepy{ctx}, Timeout: -1})
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("slow reader: %v", err)
	}
}

// sleepy is a writer that takes its time.
type sleepy struct {
	ctx context.Context //nolint:containedctx // it ends the writer's rest
}

func (s *sleepy) Write(b []byte) (int, error) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-s.ctx.Done():
	}
	return len(b), nil
}

// vanish begins commands and goes away in the middle, without a word.
func vanish(ctx context.Context, t *testing.T, home, id string) {
	for ctx.Err() == nil {
		var mu sync.Mutex
		var conns []net.Conn
		c, err := client.New(client.Options{
			Host: "unix://" + filepath.Join(home, "atoll.sock"),
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(home, "atoll.sock"))
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, conn)
				return conn, err
			},
		})
		if err != nil {
			t.Errorf("vanishing client: %v", err)
			return
		}
		sb, err := c.Sandbox(context.WithoutCancel(ctx), id)
		if err != nil {
			t.Errorf("vanishing client: %v", err)
			return
		}
		wrote := &firstByte{seen: make(chan struct{})}
		done := make(chan error, 1)
		go func() {
			_, err := sb.Exec(context.WithoutCancel(ctx), atoll.Cmd{Args: []string{"yes"}, Stdout: wrote, Timeout: -1})
			done <- err
		}()
		<-wrote.seen
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close() // this is how it vanishes
		}
		mu.Unlock()
		if err := <-done; !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("vanishing client: %v", err)
			return
		}
		_ = c.Close() // its connections are closed already
	}
}

// firstByte tells when something was written.
type firstByte struct {
	once sync.Once
	seen chan struct{}
}

func (f *firstByte) Write(b []byte) (int, error) {
	f.once.Do(func() { close(f.seen) })
	return len(b), nil
}

type usage struct {
	heap       int64
	goroutines int
}

// measure returns what is in use once all has come to rest.
func measure() usage {
	var u usage
	var m runtime.MemStats
	for range 50 { // connections and their goroutines end by and by
		runtime.GC()
		runtime.ReadMemStats(&m)
		n := runtime.NumGoroutine()
		if int64(m.HeapAlloc) == u.heap && n == u.goroutines {
			break
		}
		u = usage{int64(m.HeapAlloc), n}
		<-time.After(100 * time.Millisecond)
	}
	return u
}

func stacks() []byte {
	b := make([]byte, 1<<20)
	return bytes.TrimSpace(b[:runtime.Stack(b, true)])
}
