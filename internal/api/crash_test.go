package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// serveHome, set in the environment, makes the test binary a server of that
// home, which is to be killed.
const serveHome = "ATOLL_TEST_SERVE_HOME"

func TestMain(m *testing.M) {
	if home := os.Getenv(serveHome); home != "" {
		if err := serveUntilKilled(home); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveUntilKilled serves a home on its unix socket. It ends, if nobody kills it,
// when standard input does.
func serveUntilKilled(home string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f, err := fleet.Open(ctx, fleet.Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}})
	if err != nil {
		return err
	}
	go func() { _ = f.Run(ctx) }() // its owner is the process, which is killed
	l, err := api.ListenUnix(filepath.Join(home, "atoll.sock"))
	if err != nil {
		return err
	}
	limits := api.Limits{Rate: -1, Concurrent: -1}
	if err := limitDescriptors(&limits); err != nil {
		return err
	}
	s := api.New(api.Options{Fleet: f, Version: "crash", Limits: limits})
	fmt.Println("ready")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
		os.Exit(3)
	}()
	return s.Serve(l)
}

// victim is a server to be killed.
type victim struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ready chan struct{} // closed when it serves
	dead  chan struct{} // closed when it has ended
	log   strings.Builder
}

func startVictim(t *testing.T, home string, env ...string) *victim {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{cmd: exec.Command(self), ready: make(chan struct{}), dead: make(chan struct{})}
	v.cmd.Env = append(append(os.Environ(), serveHome+"="+home), env...)
	v.cmd.Stderr = &v.log
	out, err := v.cmd.StdoutPipe()
	if err == nil {
		v.stdin, err = v.cmd.StdinPipe()
	}
	if err == nil {
		err = v.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(v.dead)
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			if sc.Text() == "ready" {
				close(v.ready)
			}
		}
		_ = v.cmd.Wait() // it was killed
	}()
	return v
}

// await returns when the server serves, and fails if it ends before.
func (v *victim) await(t *testing.T) {
	t.Helper()
	select {
	case <-v.ready:
	case <-v.dead:
		t.Fatalf("the server ended: %s", v.log.String())
	case <-time.After(time.Minute):
		t.Fatal("the server does not come up")
	}
}

// kill ends the server at once.
func (v *victim) kill(t *testing.T) {
	t.Helper()
	if err := v.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-v.dead
	_ = v.stdin.Close() // its reader is gone
}

// fact is what is known of something that the server was told: what it has
// acknowledged last, and what it was told since and did not answer.
type fact struct {
	sure  string
	maybe []string
}

// tell runs a change to value and notes what became of it.
func (f *fact) tell(value string, change func() error) error {
	err := change()
	if err == nil {
		f.sure, f.maybe = value, nil
	} else {
		f.maybe = append(f.maybe, value)
	}
	return err
}

// settle fails unless value is one of those that are possible, which it then is.
func (f *fact) settle(t *testing.T, what, value string) {
	t.Helper()
	if value != f.sure && !slices.Contains(f.maybe, value) {
		t.Errorf("%s is %q: acknowledged was %q, possible %q", what, value, f.sure, f.maybe)
	}
	*f = fact{sure: value}
}

// box is what a worker knows of one sandbox.
type box struct {
	id, name string // id is empty while its creation is not acknowledged
	state    fact   // "running", "stopped", "gone"
	files    map[string]*fact
}

// worker is one client under load, with sandboxes and a workspace of its own.
type worker struct {
	n     int
	rng   *rand.Rand
	boxes []*box
	made  int
	space map[string]*fact // files of its workspace

	acked    atomic.Int64 // changes
	doubtful int          // likewise
}

// work changes things until the server is gone.
func (w *worker) work(ctx context.Context, c *client.Client) error {
	for ctx.Err() == nil {
		if err := w.step(ctx, c); err != nil {
			w.doubtful++
			return err
		}
		w.acked.Add(1)
	}
	return nil
}

func (w *worker) step(ctx context.Context, c *client.Client) error {
	live := slices.DeleteFunc(slices.Clone(w.boxes), func(b *box) bool { return b.state.sure == "gone" })
	k := w.rng.IntN(100)
	switch {
	case len(live) < 3 || k < 8 && len(live) < 6:
		return w.create(ctx, c)
	case k < 25:
		return w.put(w.space, func(name, text string) error {
			return c.Files(w.workspace()).WriteFile(ctx, "/"+name, strings.NewReader(text), 0o644)
		})
	}
	b := live[w.rng.IntN(len(live))]
	sb, err := c.Sandbox(ctx, b.id)
	if err != nil {
		return err
	}
	switch {
	case k < 32:
		return b.state.tell("gone", func() error { return sb.Destroy(ctx) })
	case b.state.sure == "stopped":
		return b.state.tell("running", func() error { return sb.Start(ctx) })
	case k < 38:
		return b.state.tell("stopped", func() error { return sb.Stop(ctx) })
	case k < 70:
		return w.put(b.files, func(name, text string) error {
			exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"sh", "-c", `printf %s "$1" > "/$2"`, "sh", text, name}})
			if err == nil && exit.Code != 0 {
				err = fmt.Errorf("exit status %d: %s", exit.Code, exit.Stderr)
			}
			return err
		})
	}
	return w.put(b.files, func(name, text string) error { return sb.WriteFile(ctx, "/"+name, strings.NewReader(text), 0o644) })
}

// put gives one of a few files a new content.
func (w *worker) put(files map[string]*fact, write func(name, text string) error) error {
	name := fmt.Sprintf("file%d", w.rng.IntN(4))
	if files[name] == nil {
		files[name] = new(fact)
	}
	text := strings.Repeat(fmt.Sprintf("%x-", w.rng.Uint64()), 1+w.rng.IntN(50))
	return files[name].tell(text, func() error { return write(name, text) })
}

func (w *worker) workspace() string { return fmt.Sprintf("space%d", w.n) }

func (w *worker) create(ctx context.Context, c *client.Client) error {
	w.made++
	b := &box{name: fmt.Sprintf("box%d-%d", w.n, w.made), state: fact{sure: "gone"}, files: make(map[string]*fact)}
	w.boxes = append(w.boxes, b)
	cfg := atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}}
	cfg.Name = b.name
	cfg.Workspaces = []atoll.WorkspaceMount{{Workspace: w.workspace()}}
	return b.state.tell("running", func() error {
		sb, err := c.CreateSandbox(ctx, cfg)
		if err == nil {
			b.id = sb.ID()
		}
		return err
	})
}

// check compares what the server has with what it has acknowledged.
func (w *worker) check(ctx context.Context, t *testing.T, c *client.Client, all map[string]atoll.Info) {
	t.Helper()
	for _, b := range w.boxes {
		info, there := all[b.name]
		delete(all, b.name)
		state := "gone"
		if there {
			state = string(info.State)
			if b.id != "" && info.ID != b.id {
				t.Errorf("%s was %s and is now %s", b.name, b.id, info.ID)
			}
			b.id = info.ID
		}
		b.state.settle(t, b.name, state)
		if !there {
			continue
		}
		sb, err := c.Sandbox(ctx, b.id)
		if err != nil {
			t.Errorf("%s: %v", b.name, err)
			continue
		}
		w.checkFiles(ctx, t, b.name, b.files, func(name string) (io.ReadCloser, error) { return sb.OpenFile(ctx, name) })
		if state != "running" {
			continue
		}
		if exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"echo", "alive"}}); err != nil || string(exit.Stdout) != "alive\n" {
			t.Errorf("%s does not answer: %q, %v", b.name, exit.Stdout, err)
		}
	}
	w.boxes = slices.DeleteFunc(w.boxes, func(b *box) bool { return b.state.sure == "gone" })
	files := c.Files(w.workspace())
	w.checkFiles(ctx, t, w.workspace(), w.space, func(name string) (io.ReadCloser, error) { return files.OpenFile(ctx, name) })
}

func (w *worker) checkFiles(_ context.Context, t *testing.T, of string, files map[string]*fact, open func(string) (io.ReadCloser, error)) {
	t.Helper()
	for name, f := range files {
		rc, err := open("/" + name)
		var b []byte
		if err == nil {
			b, err = io.ReadAll(rc)
			err = errors.Join(err, rc.Close())
		}
		if errors.Is(err, atoll.ErrNotFound) && f.sure == "" {
			continue // it was never acknowledged
		}
		if err != nil {
			t.Errorf("%s: %s: %v", of, name, err)
			continue
		}
		f.settle(t, of+" "+name, string(b))
	}
}

// TestCrash kills the server at random instants under load and looks, after each
// restart, whether it has what it said it has, and nothing else. ATOLL_CRASHES is
// how often.
func TestCrash(t *testing.T) {
	rounds := testenv.Rounds(t, 5, 16, "ATOLL_CRASHES")
	home := t.TempDir()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	workers := make([]*worker, 6)
	for i := range workers {
		workers[i] = &worker{n: i, rng: rand.New(rand.NewPCG(seed, uint64(i+1))), space: make(map[string]*fact)}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	for round := range rounds {
		if round%8 == 7 { // sometimes it dies before it serves
			v := startVictim(t, home)
			select {
			case <-v.ready:
			case <-time.After(time.Duration(rng.IntN(40)) * time.Millisecond):
			}
			v.kill(t)
		}
		v := startVictim(t, home)
		v.await(t)
		crashRound(ctx, t, home, workers, func() {
			select {
			case <-v.dead:
				t.Errorf("the server ended by itself: %s", v.log.String())
			case <-time.After(time.Duration(rng.IntN(250)) * time.Millisecond):
			}
			// On a busy machine little was acknowledged until now: a little longer.
			longer, stop := context.WithTimeout(ctx, time.Second)
			testenv.Poll(longer, func() bool { return acknowledged(workers) >= 4*(round+1) })
			stop()
			v.kill(t)
		})
		if t.Failed() {
			t.Fatalf("in round %d of %d", round+1, rounds)
		}
	}
	v := startVictim(t, home)
	v.await(t)
	c := dial(t, home)
	checkAll(ctx, t, home, c, workers)
	checkEvents(ctx, t, c)
	v.kill(t)
	acked, doubtful := acknowledged(workers), 0
	for _, w := range workers {
		doubtful += w.doubtful
	}
	t.Logf("%d changes were acknowledged and kept, %d were under way when the server was killed", acked, doubtful)
	if acked < 3*rounds || doubtful < rounds {
		t.Errorf("%d acknowledged and %d interrupted changes in %d rounds: that is no load", acked, doubtful, rounds)
	}
}

// acknowledged is how many changes of workers were.
func acknowledged(workers []*worker) int {
	n := 0
	for _, w := range workers {
		n += int(w.acked.Load())
	}
	return n
}

// crashRound checks what there is, then loads the server until kill returns.
func crashRound(ctx context.Context, t *testing.T, home string, workers []*worker, kill func()) {
	t.Helper()
	c := dial(t, home)
	checkAll(ctx, t, home, c, workers)
	work, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() {
			if err := w.work(work, c); err != nil && !errors.Is(err, atoll.ErrUnavailable) && !errors.Is(err, context.Canceled) {
				t.Errorf("worker %d: %v", w.n, err)
			}
		})
	}
	kill()
	stop()
	wg.Wait()
}

func dial(t *testing.T, home string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Host: "unix://" + filepath.Join(home, "atoll.sock")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // only its idle connections
	return c
}

// checkAll compares the server, its registry's list and the disk.
func checkAll(ctx context.Context, t *testing.T, home string, c *client.Client, workers []*worker) {
	t.Helper()
	list, err := c.Sandboxes(ctx, client.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]atoll.Info)
	ids := make(map[string]bool)
	for _, i := range list {
		if _, twice := all[i.Name]; twice || ids[i.ID] {
			t.Errorf("%s %s is there twice", i.Name, i.ID)
		}
		if i.State != atoll.Running && i.State != atoll.Stopped {
			t.Errorf("%s is left %s: %+v", i.Name, i.State, i.Conditions)
		}
		all[i.Name], ids[i.ID] = i, true
	}
	for _, w := range workers {
		w.check(ctx, t, c, all)
	}
	for name := range all {
		t.Errorf("%s is there, and nobody has made it", name)
	}
	entries, err := os.ReadDir(filepath.Join(home, "sandboxes"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if atoll.CheckID(e.Name()) == nil && !ids[e.Name()] {
			t.Errorf("sandboxes/%s is an orphan", e.Name())
		}
		delete(ids, e.Name())
	}
	for id := range ids {
		t.Errorf("%s has nothing on disk", id)
	}
}

// after is the table of states that the seeds and the issue name, with what a
// restart may find.
var after = map[atoll.State][]atoll.State{
	"":              {atoll.Created, atoll.Starting, atoll.Running},
	atoll.Created:   {atoll.Starting, atoll.Running, atoll.Destroyed},
	atoll.Starting:  {atoll.Running, atoll.Failed, atoll.Stopped, atoll.Destroyed},
	atoll.Running:   {atoll.Stopping, atoll.Stopped, atoll.Pausing, atoll.Failed, atoll.Destroyed},
	atoll.Stopping:  {atoll.Stopped, atoll.Failed, atoll.Running, atoll.Destroyed},
	atoll.Stopped:   {atoll.Starting, atoll.Destroyed, atoll.Running},
	atoll.Failed:    {atoll.Starting, atoll.Destroyed},
	atoll.Destroyed: {},
}

// checkEvents looks whether each sandbox went from state to state as the table
// says.
func checkEvents(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	at := make(map[string]atoll.State)
	list, err := c.Events(ctx, client.EventFilter{Types: []string{"sandbox.*"}})
	if err != nil || len(list) == 0 {
		t.Errorf("%d events, %v", len(list), err)
	}
	for _, e := range list {
		state := atoll.State(strings.TrimPrefix(e.Type, "sandbox."))
		if _, known := after[state]; !known {
			continue
		}
		if !slices.Contains(after[at[e.Object]], state) {
			t.Errorf("%s went from %q to %q", e.Object, at[e.Object], state)
		}
		at[e.Object] = state
	}
}
