package replicas

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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry/pgtest"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// The variables that make the test binary a server: its home, the registry, the
// driver, and where the driver's sandboxes are (a directory or a namespace).
const (
	homeVar     = "ATOLL_REPLICA_HOME"
	registryVar = "ATOLL_REPLICA_REGISTRY"
	driverVar   = "ATOLL_REPLICA_DRIVER"
	placeVar    = "ATOLL_REPLICA_PLACE"
)

// killsVar says how many servers are killed.
const killsVar = "ATOLL_REPLICAS_KILLS"

func TestMain(m *testing.M) {
	if home := os.Getenv(homeVar); home != "" {
		fmt.Fprintln(os.Stderr, "a server has ended:", serve(home))
		os.Exit(1)
	}
	os.Exit(testenv.Main(m, "kubernetes or postgres", clustertest.Main))
}

// driver makes the driver that is asked for.
func driver(home string) atoll.Driver {
	place := os.Getenv(placeVar)
	if os.Getenv(driverVar) == "kubernetes" {
		return &kubernetes.Driver{Dir: filepath.Join(home, "kubernetes"), Home: "replicas", Namespace: place}
	}
	return sharedDriver{&virtual.Driver{Dir: place}}
}

// sharedDriver is a virtual driver whose directory all servers use.
type sharedDriver struct{ *virtual.Driver }

// Shared returns true.
func (sharedDriver) Shared() bool { return true }

// serve is what a server does until it is killed, or its parent is gone.
func serve(home string) error {
	ctx := context.Background()
	d := driver(home)
	f, err := fleet.Open(ctx, fleet.Options{Home: home, Registry: os.Getenv(registryVar), Drivers: []atoll.Driver{d}})
	if err != nil {
		return err
	}
	l, err := api.ListenUnix(filepath.Join(home, "atoll.sock"))
	if err != nil {
		return err
	}
	s := api.New(api.Options{Fleet: f, Version: "replica", Limits: api.Limits{Rate: -1, Concurrent: -1}})
	ended := make(chan error, 3)
	go func() { ended <- f.Run(ctx) }()
	go func() { ended <- s.Serve(l) }()
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- errors.Join(err, errors.New("its parent is gone"))
	}()
	fmt.Println("ready")
	return <-ended
}

// replica is a server in a process of its own.
type replica struct {
	home  string
	env   []string
	cmd   *exec.Cmd
	stdin io.Closer
	dead  chan struct{} // closed when it has ended
}

// start starts the server and waits until it serves.
func (r *replica) start() error {
	r.cmd = exec.Command(os.Args[0])
	r.cmd.Env = append(append(os.Environ(), r.env...), homeVar+"="+r.home)
	var said strings.Builder
	r.cmd.Stderr = &said
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		r.stdin, err = r.cmd.StdinPipe()
	}
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		return err
	}
	late := time.AfterFunc(time.Minute, func() { _ = r.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	late.Stop()
	r.dead = make(chan struct{})
	cmd, dead := r.cmd, r.dead
	go func() {
		defer close(dead)
		_ = cmd.Wait() // it is killed
	}()
	if err != nil || line != "ready\n" {
		<-dead
		return fmt.Errorf("a server does not come up: %q, %w: %s", line, err, said.String())
	}
	return nil
}

// kill ends the server at once. It reports whether it lived until then.
func (r *replica) kill() bool {
	lived := true
	select {
	case <-r.dead:
		lived = false
	default:
	}
	_ = r.cmd.Process.Kill() // or it has ended
	<-r.dead
	_ = r.stdin.Close()
	return lived
}

func TestReplicas(t *testing.T) {
	crash(t, "virtual", filepath.Join(t.TempDir(), "sandboxes"), 10)
}

func TestReplicasOnKubernetes(t *testing.T) {
	crash(t, "kubernetes", clustertest.Namespace(t, nil), 50)
}

// crash loads two servers and kills one of them, again and again: what was
// acknowledged is there, what was not is whole or gone, and nothing else is.
func crash(t *testing.T, driver, place string, kills int) {
	kills = testenv.Rounds(t, 4, kills, killsVar)
	db, err := pgtest.Start(context.Background())
	if errors.Is(err, pgtest.ErrMissing) {
		testenv.Skip(t, "postgres", "%v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, db.Stop(context.Background())) })
	shelf, key := t.TempDir(), t.TempDir() // what all servers share besides
	var replicas []*replica
	var clients []*client.Client
	for range 2 {
		r := &replica{home: t.TempDir(), env: []string{registryVar + "=" + db.URL("public"), driverVar + "=" + driver, placeVar + "=" + place}}
		must(t, os.Symlink(shelf, filepath.Join(r.home, "workspaces")))
		must(t, os.Symlink(key, filepath.Join(r.home, "kubernetes")))
		must(t, r.start())
		t.Cleanup(func() { r.kill() })
		c, err := client.New(client.Options{Host: "unix://" + filepath.Join(r.home, "atoll.sock")})
		must(t, err)
		t.Cleanup(func() { _ = c.Close() }) // only its idle connections
		replicas, clients = append(replicas, r), append(clients, c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	work, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	workers := make([]*worker, 4)
	for i := range workers {
		w := &worker{n: i, clients: clients}
		workers[i] = w
		wg.Go(func() {
			if err := w.work(work); err != nil {
				t.Errorf("worker %d: %v", w.n, err)
			}
		})
	}
	for n := range kills {
		worked(t, workers)
		time.Sleep(time.Duration(50+rand.IntN(700)) * time.Millisecond) // the random instant
		r := replicas[rand.IntN(2)]
		if !r.kill() {
			t.Errorf("a server had ended by itself before kill %d", n)
		}
		if err := r.start(); err != nil {
			t.Error(err)
			break
		}
	}
	stop()
	wg.Wait()
	check(ctx, t, clients, workers)
	acked, doubtful := 0, 0
	for _, w := range workers {
		acked, doubtful = acked+int(w.acked.Load()), doubtful+w.doubtful
	}
	t.Logf("%s: %d kills; %d changes were acknowledged and kept, %d were under way when their server was killed", driver, kills, acked, doubtful)
	if acked < kills || doubtful == 0 {
		t.Error("that is no load")
	}
}

// box is what a worker knows of a sandbox of its own.
type box struct {
	name, id        string
	there, maybe    bool // it was acknowledged that it is there; the other may be true as well
	wrote, mayWrite int  // what /n holds: at least, at most
}

// worker is a client of both servers.
type worker struct {
	n       int
	clients []*client.Client
	boxes   []*box

	acked    atomic.Int64 // changes
	doubtful int
	last     atomic.Value // why the last change was doubtful, as text
}

// worked waits until something more was acknowledged.
func worked(t *testing.T, workers []*worker) {
	t.Helper()
	sum := func() (n int64) {
		for _, w := range workers {
			n += w.acked.Load()
		}
		return n
	}
	before, late := sum(), time.Now().Add(time.Minute)
	for sum() == before {
		if time.Now().After(late) {
			t.Fatalf("nothing was acknowledged for a minute: %v", workers[0].last.Load())
		}
		time.Sleep(5 * time.Millisecond) // no event tells of it
	}
}

// work changes things until ctx is done. A server that is gone is no failure.
func (w *worker) work(ctx context.Context) error {
	for turn := w.n; ctx.Err() == nil; {
		err := w.step(ctx, w.clients[turn%len(w.clients)])
		switch {
		case err == nil:
			w.acked.Add(1)
			continue
		case ctx.Err() != nil || errors.Is(err, atoll.ErrUnavailable):
			w.doubtful++
			w.last.Store(err.Error())
			turn++
		default:
			return err
		}
	}
	return nil
}

func (w *worker) step(ctx context.Context, c *client.Client) error {
	var sure []*box // those of which it is known how they are
	for _, b := range w.boxes {
		if b.there && !b.maybe {
			sure = append(sure, b)
		}
	}
	if len(sure) < 2 {
		return w.create(ctx, c)
	}
	b := sure[rand.IntN(len(sure))]
	sb, err := c.Sandbox(ctx, b.id)
	if err != nil {
		return err
	}
	if rand.IntN(6) == 0 {
		b.maybe = true
		if err := sb.Destroy(ctx); err != nil {
			return err
		}
		b.there, b.maybe = false, false
		return nil
	}
	b.mayWrite++
	n := strconv.Itoa(b.mayWrite)
	if rand.IntN(2) == 0 {
		err = sb.WriteFile(ctx, "/tmp/n", strings.NewReader(n), 0o644)
	} else {
		var exit atoll.Exit
		exit, err = sb.Exec(ctx, atoll.Cmd{Args: []string{"sh", "-c", `printf %s "$1" > /tmp/n`, "sh", n}})
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("exit status %d: %s", exit.Code, exit.Stderr)
		}
	}
	if err == nil {
		b.wrote = b.mayWrite
	}
	return err
}

func (w *worker) create(ctx context.Context, c *client.Client) error {
	b := &box{name: fmt.Sprintf("box%d-%d", w.n, len(w.boxes)), maybe: true}
	w.boxes = append(w.boxes, b)
	cfg := atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}}
	cfg.Name = b.name
	sb, err := c.CreateConfig(ctx, cfg)
	if err != nil {
		return err
	}
	b.id, b.there, b.maybe = sb.ID(), true, false
	return nil
}

// check compares what the servers have with what they have acknowledged, once what
// was under way in those that were killed is settled.
func check(ctx context.Context, t *testing.T, clients []*client.Client, workers []*worker) {
	t.Helper()
	all := make(map[string]atoll.Info)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) { // nothing tells that all is settled
		list, err := clients[0].Sandboxes(ctx, client.Filter{})
		must(t, err)
		clear(all)
		half := ""
		for _, i := range list {
			if i.State != atoll.Running {
				half = fmt.Sprintf("%s (%s) is left %s: %+v", i.Name, i.ID, i.State, i.Conditions)
			}
			if _, twice := all[i.Name]; twice {
				t.Errorf("%s is there twice", i.Name)
			}
			all[i.Name] = i
		}
		if half == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Error(half)
			break
		}
	}
	for n, w := range workers {
		for _, b := range w.boxes {
			w.check(ctx, t, clients[n%len(clients)], b, all)
			delete(all, b.name)
		}
	}
	for name := range all {
		t.Errorf("%s is there, and nobody has made it", name)
	}
}

func (w *worker) check(ctx context.Context, t *testing.T, c *client.Client, b *box, all map[string]atoll.Info) {
	t.Helper()
	i, there := all[b.name]
	if there != b.there && !b.maybe {
		t.Errorf("%s: it is there: %t; acknowledged was %t", b.name, there, b.there)
	}
	if !there {
		return
	}
	if b.id != "" && b.id != i.ID {
		t.Errorf("%s was %s and is %s", b.name, b.id, i.ID)
	}
	sb, err := c.Sandbox(ctx, i.ID)
	if err != nil {
		t.Errorf("%s: %v", b.name, err)
		return
	}
	text, err := read(ctx, sb)
	if n, nerr := strconv.Atoi(text); b.wrote > 0 && (err != nil || nerr != nil || n < b.wrote || n > b.mayWrite) {
		t.Errorf("%s holds %q, %v: acknowledged was %d, and %d was tried", b.name, text, err, b.wrote, b.mayWrite)
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Errorf("%s: %v", b.name, err)
	}
}

func read(ctx context.Context, sb *client.Sandbox) (string, error) {
	b, err := atoll.ReadFile(ctx, sb, "/tmp/n")
	return string(b), err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
