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
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry/pgtest"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/imagetest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// Environment variables that make the test binary a server: its home, the registry, the
// driver, and the directory or namespace of the driver's sandboxes.
const (
	homeVar      = "ATOLL_REPLICA_HOME"
	registryVar  = "ATOLL_REPLICA_REGISTRY"
	driverVar    = "ATOLL_REPLICA_DRIVER"
	sandboxesVar = "ATOLL_REPLICA_PLACE"
	engineVar    = "ATOLL_REPLICA_ENGINE" // address of the Docker engine
)

// vmImage is the image of virtual machines.
const vmImage = "busybox:latest"

// Environment variables with the number of servers to kill.
const (
	killsVar   = "ATOLL_REPLICAS_KILLS"
	vmKillsVar = "ATOLL_REPLICAS_VM_KILLS" // of sandboxes that take seconds to start
)

func TestMain(m *testing.M) {
	if home := os.Getenv(homeVar); home != "" {
		if err := runServer(home); err != nil {
			fmt.Fprintln(os.Stderr, "a server has exited:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testenv.Main(m, "kubernetes or postgres", func(m *testing.M) int { return enginetest.Main(m, clustertest.Main) }))
}

// newDriver returns the driver that the environment variables select.
func newDriver(home string) atoll.Driver {
	place := os.Getenv(sandboxesVar)
	if os.Getenv(driverVar) == "kubernetes" {
		return &kubernetes.Driver{Dir: filepath.Join(home, "kubernetes"), Home: "replicas", Namespace: place}
	}
	switch os.Getenv(driverVar) {
	case "namespace":
		return sharedPrograms{&namespace.Driver{Dir: place}}
	case "docker":
		return sharedContainers{&docker.Driver{Host: os.Getenv(engineVar), Dir: place}}
	case "microvm":
		return sharedVMs{&microvm.Driver{Dir: place, Memory: 192 << 20, MinMemory: 128 << 20, CPUs: 1, Image: vmImage}}
	}
	return sharedDriver{&virtual.Driver{Dir: place}}
}

// sharedDriver is a virtual driver whose directory all servers use.
type sharedDriver struct{ *virtual.Driver }

// Shared returns true.
func (sharedDriver) Shared() bool { return true }

// sharedPrograms is a namespace driver whose directory all servers use.
type sharedPrograms struct{ *namespace.Driver }

// Shared returns true.
func (sharedPrograms) Shared() bool { return true }

// sharedContainers is a docker driver whose directory all servers use.
type sharedContainers struct{ *docker.Driver }

// Shared returns true.
func (sharedContainers) Shared() bool { return true }

// sharedVMs is a microvm driver whose directory all servers use.
type sharedVMs struct{ *microvm.Driver }

// Shared returns true.
func (sharedVMs) Shared() bool { return true }

// runServer runs a server until the process is killed or its parent exits.
func runServer(home string) error {
	ctx := context.Background()
	d := newDying(newDriver(home))
	f, err := fleet.Open(ctx, fleet.Options{Home: home, Registry: os.Getenv(registryVar), Drivers: []atoll.Driver{d}})
	if err != nil {
		return err
	}
	l, err := api.ListenUnix(filepath.Join(home, "atoll.sock"))
	if err != nil {
		return err
	}
	o := api.Options{Fleet: f, Version: "replica", Limits: api.Limits{Rate: -1, Concurrent: -1}}
	if os.Getenv(agentsVar) != "" {
		o.Agents = func() (*api.Agents, error) { return newAgents(f) }
	}
	s := api.New(o)
	if err := s.ReconcileTurns(); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	ended := make(chan error, 3)
	go func() { ended <- f.Run(ctx) }()
	go func() { ended <- s.Serve(l) }()
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- errors.Join(err, errors.New("its parent has exited"))
	}()
	fmt.Println("ready")
	select {
	case err := <-ended:
		return err
	case <-stop:
		return errors.Join(s.Shutdown(ctx), f.Close(ctx))
	}
}

// replica is a server in a separate process.
type replica struct {
	home   string
	env    []string
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr strings.Builder // read only after its end
	exited chan struct{}   // closed when the process has exited
}

// start starts the server and waits until it is ready.
func (r *replica) start() error {
	r.cmd = exec.Command(os.Args[0])
	r.cmd.Env = append(append(os.Environ(), r.env...), homeVar+"="+r.home)
	r.stderr.Reset()
	r.cmd.Stderr = &r.stderr
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
	late := time.AfterFunc(2*time.Minute, func() { _ = r.cmd.Process.Signal(syscall.SIGQUIT) }) // its goroutines say why
	line, err := bufio.NewReader(out).ReadString('\n')
	late.Stop()
	r.exited = make(chan struct{})
	cmd, dead := r.cmd, r.exited
	go func() {
		defer close(dead)
		_ = cmd.Wait() // an error: it was killed
	}()
	if err != nil || line != "ready\n" {
		<-dead
		return fmt.Errorf("a server does not start: %q, %w: %s", line, err, r.stderr.String())
	}
	return nil
}

// kill kills the server. It reports whether it was still running.
func (r *replica) kill() bool {
	running := true
	select {
	case <-r.exited:
		running = false
	default:
	}
	_ = r.cmd.Process.Kill() // fails if it has exited
	<-r.exited
	_ = r.stdin.Close()
	return running
}

// stop ends the server in order.
func (r *replica) stop() error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(time.Minute, func() { _ = r.cmd.Process.Kill() })
	defer late.Stop()
	<-r.exited
	_ = r.stdin.Close()
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("a server ended with status %d: %s", code, r.stderr.String())
	}
	return nil
}

func TestReplicas(t *testing.T) {
	testCrashes(t, "virtual", filepath.Join(t.TempDir(), "sandboxes"), 10)
}

// TestReplicasOnNamespace has programs of the host, and acts of several steps: stop, start, snapshot and
// restore.
func TestReplicasOnNamespace(t *testing.T) {
	testCrashes(t, "namespace", filepath.Join(t.TempDir(), "sandboxes"), 10)
}

func TestReplicasOnDocker(t *testing.T) {
	testCrashes(t, "docker", filepath.Join(t.TempDir(), "sandboxes"), 4, engineVar+"="+enginetest.Host(t))
}

func TestReplicasOnMicroVM(t *testing.T) {
	testenv.Real(t, "qemu")
	dir, err := os.MkdirTemp("", "vm") // short enough for sockets in it
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	d := &microvm.Driver{Dir: dir}
	if _, err := d.Probe(t.Context()); err != nil {
		testenv.Skip(t, "qemu", "%v", err)
	}
	_, err = d.ImportImage(t.Context(), vmImage, imagetest.MakeBusybox(t, "qemu"), nil)
	must(t, err)
	testCrashes(t, "microvm", dir, 2)
}

func TestReplicasOnKubernetes(t *testing.T) {
	testCrashes(t, "kubernetes", clustertest.Namespace(t, nil), 50)
}

// testCrashes puts load on two servers and kills one of them repeatedly. Acknowledged
// changes must be kept, others must be complete or have no effect, and nothing else may
// exist.
func testCrashes(t *testing.T, driver, place string, kills int, env ...string) {
	variable := killsVar
	if driver == "microvm" {
		variable = vmKillsVar
	}
	kills = testenv.Rounds(t, min(4, kills), kills, variable)
	replicas, clients := startReplicas(t, driver, place, env...)
	ctx := t.Context()
	work, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	workers := make([]*worker, 4)
	for i := range workers {
		w := &worker{n: i, clients: clients}
		workers[i] = w
		wg.Go(func() {
			if err := w.makeChanges(work); err != nil {
				t.Errorf("worker %d: %v", w.n, err)
			}
		})
	}
	done := 0
	for ; done < kills && hasTime(t); done++ {
		waitForProgress(t, workers, replicas)
		time.Sleep(time.Duration(50+rand.IntN(700)) * time.Millisecond) // kill at a random time
		r := replicas[rand.IntN(2)]
		if !r.kill() {
			t.Errorf("a server had exited before kill %d", done)
		}
		if err := r.start(); err != nil {
			t.Error(err)
			break
		}
		if done%50 == 49 {
			t.Logf("%s: %d kills", driver, done+1)
		}
	}
	stop()
	wg.Wait()
	checkAll(ctx, t, clients, workers)
	checkNothingLeft(ctx, t, driver, place, replicas)
	if done < kills {
		t.Errorf("%d of %d kills before the deadline of the test", done, kills)
	}
	acked, doubtful := 0, 0
	for _, w := range workers {
		acked, doubtful = acked+int(w.acknowledged.Load()), doubtful+w.uncertain
	}
	t.Logf("%s: %d kills; %d changes were acknowledged and kept, %d were interrupted", driver, done, acked, doubtful)
	if acked < done || doubtful == 0 {
		t.Error("too few changes")
	}
}

// checkTime is how long the comparison at the end of a test may take.
const checkTime = 4 * time.Minute

// hasTime reports whether there is time left for another kill.
func hasTime(t *testing.T) bool {
	deadline, has := t.Deadline()
	return !has || time.Until(deadline) > checkTime
}

// startReplicas starts two servers of one fleet, and returns a client of each.
func startReplicas(t *testing.T, driver, place string, env ...string) (replicas []*replica, clients []*client.Client) {
	db, err := pgtest.Start(context.Background())
	if errors.Is(err, pgtest.ErrMissing) {
		testenv.Skip(t, "postgres", "%v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, db.Stop(context.Background())) })
	workspaces, key := t.TempDir(), t.TempDir() // shared by all servers
	for range 2 {
		r := &replica{home: t.TempDir(), env: []string{registryVar + "=" + db.URL("public"), driverVar + "=" + driver, sandboxesVar + "=" + place}}
		r.env = append(r.env, env...)
		must(t, os.Symlink(workspaces, filepath.Join(r.home, "workspaces")))
		must(t, os.Symlink(key, filepath.Join(r.home, "kubernetes")))
		must(t, r.start())
		t.Cleanup(func() { r.kill() })
		c, err := client.New(client.Options{Host: "unix://" + filepath.Join(r.home, "atoll.sock")})
		must(t, err)
		t.Cleanup(func() { _ = c.Close() }) // only its idle connections
		replicas, clients = append(replicas, r), append(clients, c)
	}
	return replicas, clients
}

// sandboxModel is the expected state of a sandbox.
type sandboxModel struct {
	name, id          string
	exists, uncertain bool  // exists was acknowledged; uncertain: the opposite may be true
	acknowledged      []int // numbers of changes
	attempted         int   // number of the last change
}

// worker is a client of both servers that changes sandboxes.
type worker struct {
	n         int
	clients   []*client.Client
	sandboxes []*sandboxModel

	acknowledged atomic.Int64 // changes
	uncertain    int
	lastError    atomic.Value // error of the last uncertain change, as text
}

// progressTime limits how long nothing may be acknowledged. A template of VMs that does not boot is given up after 45 s and booted again, on a busy
// host slowly.
const progressTime = 3 * time.Minute

// waitForProgress waits until another change was acknowledged. If there is none, the goroutines of the servers are logged.
func waitForProgress(t *testing.T, workers []*worker, replicas []*replica) {
	t.Helper()
	sum := func() (n int64) {
		for _, w := range workers {
			n += w.acknowledged.Load()
		}
		return n
	}
	before := sum()
	ctx, cancel := context.WithTimeout(t.Context(), progressTime)
	defer cancel()
	if !testenv.Poll(ctx, func() bool { return sum() > before }) {
		for _, w := range workers {
			t.Logf("worker %d: last error: %v", w.n, w.lastError.Load())
		}
		for _, r := range replicas {
			_ = r.cmd.Process.Signal(syscall.SIGQUIT) // it may have exited
			<-r.exited
			t.Logf("a server: %s", &r.stderr)
		}
		t.Fatalf("nothing was acknowledged for %v", progressTime)
	}
}

// makeChanges makes random changes until ctx is done. An unavailable server is not a
// failure.
func (w *worker) makeChanges(ctx context.Context) error {
	for turn := w.n; ctx.Err() == nil; {
		err := w.makeChange(ctx, w.clients[turn%len(w.clients)])
		switch {
		case err == nil:
			w.acknowledged.Add(1)
			continue
		case ctx.Err() != nil || errors.Is(err, atoll.ErrUnavailable) || errors.Is(err, atoll.ErrState): // an act of a killed server is settled later
			w.uncertain++
			w.lastError.Store(err.Error())
			turn++
		default:
			return err
		}
	}
	return nil
}

// makeChange creates a sandbox, or changes or destroys one whose state is certain.
func (w *worker) makeChange(ctx context.Context, c *client.Client) error {
	var sure []*sandboxModel // whose state is certain
	var doubtful []*sandboxModel
	for _, b := range w.sandboxes {
		switch {
		case b.uncertain:
			doubtful = append(doubtful, b)
		case b.exists:
			sure = append(sure, b)
		}
	}
	if len(doubtful) > maxDoubtful {
		return settleDoubt(ctx, c, doubtful[0])
	}
	if len(sure) < 2 {
		return w.createSandbox(ctx, c)
	}
	b := sure[rand.IntN(len(sure))]
	sb, err := c.Sandbox(ctx, b.id)
	if err != nil {
		return err
	}
	if rand.IntN(6) == 0 {
		b.uncertain = true
		if err := sb.Destroy(ctx); err != nil {
			return err
		}
		b.exists, b.uncertain = false, false
		return nil
	}
	if st, err := sb.Status(ctx); err != nil || st.State == atoll.Stopped {
		if err == nil {
			err = sb.Start(ctx) // a server was killed between stop and start
		}
		return err
	}
	if rand.IntN(4) == 0 && sb.Has((*atoll.Snapshotter)(nil)) && sb.Has((*atoll.Stopper)(nil)) {
		return cycle(ctx, sb)
	}
	b.attempted++
	n := strconv.Itoa(b.attempted)
	if rand.IntN(2) == 0 {
		err = sb.WriteFile(ctx, "/tmp/n."+n, strings.NewReader(n), 0o644)
	} else {
		var exit atoll.Exit // a command that is killed between truncating and writing a file loses it by itself
		exit, err = sb.Exec(ctx, atoll.Cmd{Args: []string{"sh", "-c", `printf %s "$1" > /tmp/next.$1 && mv /tmp/next.$1 /tmp/n.$1`, "sh", n}})
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("exit status %d: %s", exit.Code, exit.Stderr)
		}
	}
	if err == nil {
		b.acknowledged = append(b.acknowledged, b.attempted)
	}
	return err
}

// maxDoubtful is how many sandboxes of a worker stay whose state is uncertain, so that they are compared at the end.
const maxDoubtful = 3

// settleDoubt compares a sandbox whose state is uncertain with its model, and destroys it.
func settleDoubt(ctx context.Context, c *client.Client, b *sandboxModel) error {
	sb, err := c.Sandbox(ctx, b.name)
	if err == nil && len(b.acknowledged) > 0 {
		if st, err := sb.Status(ctx); err == nil && st.State == atoll.Stopped { // a server was killed between stop and start
			if err := sb.Start(ctx); err != nil && !errors.Is(err, atoll.ErrNotFound) {
				return err
			}
		}
		if err := checkFiles(ctx, sb, b); err != nil && !errors.Is(err, atoll.ErrNotFound) { // its destruction was interrupted, and may be finished by now
			return err
		}
	}
	if err == nil {
		err = sb.Destroy(ctx)
	}
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	b.exists, b.uncertain = false, false
	return nil
}

// checkFiles compares the files of a sandbox with the changes that were acknowledged. Each change has a file of its own, since an
// interrupted one may still be made after a later one was acknowledged.
func checkFiles(ctx context.Context, sb *client.Sandbox, b *sandboxModel) error {
	exit, err := sb.Exec(ctx, atoll.Cmd{Shell: `for f in /tmp/n.*; do [ ! -e "$f" ] || echo "${f#/tmp/n.} $(cat "$f")"; done`})
	if err != nil {
		return err
	}
	var found []int
	for line := range strings.Lines(string(exit.Stdout)) {
		name, content, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(name)
		if err != nil || content != name || n > b.attempted {
			return fmt.Errorf("%s: the file of change %q holds %q; %d were attempted", b.name, name, content, b.attempted)
		}
		found = append(found, n)
	}
	for _, n := range b.acknowledged {
		if !slices.Contains(found, n) {
			return fmt.Errorf("%s has the changes %d: %d were acknowledged, %d attempted; %s", b.name, found, b.acknowledged, b.attempted, exit.Stderr)
		}
	}
	return nil
}

// cycle does acts of several steps that leave the files of a sandbox as they are.
func cycle(ctx context.Context, sb *client.Sandbox) error {
	if rand.IntN(2) == 0 {
		if err := sb.Stop(ctx); err != nil {
			return err
		}
		return sb.Start(ctx)
	}
	snapshot, err := sb.Snapshot(ctx, "")
	if err != nil {
		return err
	}
	if err := sb.Restore(ctx, snapshot.ID); err != nil {
		return err
	}
	return sb.RemoveSnapshot(ctx, snapshot.ID)
}

func (w *worker) createSandbox(ctx context.Context, c *client.Client) error {
	b := &sandboxModel{name: fmt.Sprintf("box%d-%d", w.n, len(w.sandboxes)), uncertain: true}
	w.sandboxes = append(w.sandboxes, b)
	cfg := atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}}
	cfg.Name = b.name
	sb, err := c.CreateSandbox(ctx, cfg)
	if err != nil {
		return err
	}
	b.id, b.exists, b.uncertain = sb.ID(), true, false
	return nil
}

// checkAll compares the sandboxes of the servers with the acknowledged changes, after
// operations of killed servers were reconciled.
func checkAll(ctx context.Context, t *testing.T, clients []*client.Client, workers []*worker) {
	t.Helper()
	all := make(map[string]atoll.Info)
	half := ""
	settling, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	testenv.Poll(settling, func() bool {
		list, err := clients[0].Sandboxes(ctx, client.Filter{})
		must(t, err)
		clear(all)
		half = ""
		for _, i := range list {
			if i.State == atoll.Stopped { // a server was killed between stop and start
				if sb, err := clients[0].Sandbox(ctx, i.ID); err == nil {
					_ = sb.Start(ctx) // the next round tells
				}
			}
			if i.State != atoll.Running {
				half = fmt.Sprintf("%s (%s) is left %s: %+v", i.Name, i.ID, i.State, i.Conditions)
			}
			if _, twice := all[i.Name]; twice {
				t.Errorf("%s exists twice", i.Name)
			}
			all[i.Name] = i
		}
		return half == ""
	})
	if half != "" {
		t.Error(half)
	}
	for n, w := range workers {
		for _, b := range w.sandboxes {
			w.checkSandbox(ctx, t, clients[n%len(clients)], b, all)
			delete(all, b.name)
		}
	}
	for name := range all {
		t.Errorf("%s exists, but no worker created it", name)
	}
}

// checkSandbox compares a sandbox with its model and destroys it.
func (w *worker) checkSandbox(ctx context.Context, t *testing.T, c *client.Client, b *sandboxModel, all map[string]atoll.Info) {
	t.Helper()
	i, there := all[b.name]
	if there != b.exists && !b.uncertain {
		t.Errorf("%s: exists is %t, acknowledged was %t", b.name, there, b.exists)
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
	if len(b.acknowledged) > 0 {
		if err := checkFiles(ctx, sb, b); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Errorf("%s: %v", b.name, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
