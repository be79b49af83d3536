package atolltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest/internal/killtest"
)

// killTimeout bounds each operation on a sandbox whose process was killed.
const killTimeout = 2 * time.Minute

// The marker is a file with one line for each state of a sandbox.
const (
	markerDir    = "/workspace/kill"
	oldMarker    = "old"
	newMarker    = "new"
	noMarker     = "none" // there are no files
	killedName   = "killed"
	killedTarget = "8.8.8.8:443"
)

// KillAtEveryStep kills a process at every step of every act that changes sandboxes of a driver, and
// checks what the next process finds: the sandbox is what it was before the act or is what it is
// after it, it answers, and nothing is half there. open opens the driver whose sandboxes are in a
// directory. perAct is how many steps of each act are tried, spread evenly, unless $ATOLL_KILLS is another number
// or "all". The test has to call nothing else: it runs in the processes that are killed. kept are patterns, as of
// [path.Match], of names below the directory that a driver may make and keep at any time, such as what it has found
// out about its host.
func KillAtEveryStep(t *testing.T, perAct int, open func(t testing.TB, dir string) atoll.Driver, kept ...string) {
	t.Helper()
	var task killTask
	if killtest.Task(t, &task) {
		task.run(t, open)
		return
	}
	dir, err := os.MkdirTemp("", "atoll-kill-")
	if err != nil {
		t.Fatal(err)
	}
	k := &killSuite{dir: dir, open: open, perAct: perAct, kept: kept}
	k.reopenDriver(t)
	t.Cleanup(func() {
		k.destroyAll(t)
		k.close(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	k.destroyAll(t)
	k.findClean(t)
	for _, act := range killActs {
		t.Run(act.name, func(t *testing.T) { k.killDuring(t, act) })
	}
}

// killTask is what a process does until it is killed.
type killTask struct {
	Dir, Act, ID string
}

func (task *killTask) run(t *testing.T, open func(testing.TB, string) atoll.Driver) {
	d := open(t, task.Dir)
	i := slices.IndexFunc(killActs, func(a killAct) bool { return a.name == task.Act })
	if i < 0 {
		t.Fatalf("there is no act %q", task.Act)
	}
	var sb atoll.Sandbox
	if task.ID != "" {
		var err error
		if sb, err = d.Open(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), killTimeout)
	defer cancel()
	killtest.Begin()
	if err := killActs[i].do(ctx, d, sb); err != nil {
		t.Fatal(err)
	}
	killtest.End()
	os.Exit(0) // without the cleanup of a test: the sandboxes are not its own
}

// killAct is an act that a process is killed in.
type killAct struct {
	name      string
	ability   any                                                                // that the sandbox needs; nil: none
	fresh     bool                                                               // each kill has a new sandbox
	prepare   func(k *killSuite, t *testing.T, sb atoll.Sandbox)                 // brings a running sandbox into the state before; nil: it is
	do        func(ctx context.Context, d atoll.Driver, sb atoll.Sandbox) error  // in the process that is killed
	before    atoll.State                                                        // state of the sandbox before
	after     atoll.State                                                        // and after; Destroyed: it does not exist
	marker    string                                                             // content of the marker after the act; empty: as before
	check     func(k *killSuite, t *testing.T, sb atoll.Sandbox, completed bool) // more that has to hold; nil: nothing
	checkGone func(k *killSuite, t *testing.T)                                   // more that has to hold when the sandbox does not exist; nil: nothing
}

var killActs = []killAct{
	{
		name: "create", fresh: true, before: atoll.Destroyed, after: atoll.Running,
		do: func(ctx context.Context, d atoll.Driver, _ atoll.Sandbox) error {
			_, err := d.Create(ctx, atoll.Spec{Name: killedName})
			return err
		},
	},
	{
		name: "stop", ability: new(atoll.Stopper), before: atoll.Running, after: atoll.Stopped,
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error {
			return sb.(atoll.Stopper).Stop(ctx)
		},
	},
	{
		name: "start", ability: new(atoll.Stopper), before: atoll.Stopped, after: atoll.Running,
		prepare: func(_ *killSuite, t *testing.T, sb atoll.Sandbox) {
			requireNoError(t, "stop", sb.(atoll.Stopper).Stop(t.Context()))
		},
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error {
			return sb.(atoll.Stopper).Start(ctx)
		},
	},
	{
		name: "pause", ability: new(atoll.Pauser), before: atoll.Running, after: atoll.Paused,
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error {
			return sb.(atoll.Pauser).Pause(ctx)
		},
	},
	{
		name: "resume", ability: new(atoll.Pauser), before: atoll.Paused, after: atoll.Running,
		prepare: func(_ *killSuite, t *testing.T, sb atoll.Sandbox) {
			requireNoError(t, "pause", sb.(atoll.Pauser).Pause(t.Context()))
		},
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error {
			return sb.(atoll.Pauser).Resume(ctx)
		},
	},
	{
		name: "snapshot", ability: new(atoll.Snapshotter), before: atoll.Running, after: atoll.Running,
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error {
			_, err := sb.(atoll.Snapshotter).Snapshot(ctx, killedName)
			return err
		},
		check: checkKilledSnapshot,
	},
	{
		name: "restore", ability: new(atoll.Snapshotter), before: atoll.Running, after: atoll.Running, marker: newMarker,
		prepare: func(k *killSuite, t *testing.T, sb atoll.Sandbox) {
			k.writeMarker(t, sb, newMarker)
			_, err := sb.(atoll.Snapshotter).Snapshot(t.Context(), killedName)
			requireNoError(t, "snapshot", err)
			k.writeMarker(t, sb, oldMarker)
		},
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error {
			return sb.(atoll.Snapshotter).Restore(ctx, killedName)
		},
	},
	{
		name: "remove snapshot", ability: new(atoll.SnapshotKeeper), before: atoll.Running, after: atoll.Running,
		prepare: func(_ *killSuite, t *testing.T, sb atoll.Sandbox) {
			_, err := sb.(atoll.Snapshotter).Snapshot(t.Context(), killedName)
			requireNoError(t, "snapshot", err)
		},
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error {
			return sb.(atoll.SnapshotKeeper).RemoveSnapshot(ctx, killedName)
		},
		check: checkKilledSnapshot,
	},
	{
		name: "fork", ability: new(atoll.Forker), before: atoll.Running, after: atoll.Running,
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error {
			_, err := sb.(atoll.Forker).Fork(ctx, "", atoll.Spec{Name: killedName})
			return err
		},
		check: checkKilledFork,
	},
	{
		name: "set network", ability: new(atoll.NetworkController), before: atoll.Running, after: atoll.Running,
		prepare: func(_ *killSuite, t *testing.T, sb atoll.Sandbox) {
			requireNoError(t, "set network", sb.(atoll.NetworkController).SetNetwork(t.Context(), atoll.Network{}))
		},
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error {
			return sb.(atoll.NetworkController).SetNetwork(ctx, atoll.Network{Allow: []string{killedTarget}})
		},
		check: checkKilledNetwork,
	},
	{
		name: "fresh start", ability: new(atoll.FreshStarter), before: atoll.Stopped, after: atoll.Running, marker: noMarker,
		prepare: func(k *killSuite, t *testing.T, sb atoll.Sandbox) {
			k.writeMarker(t, sb, oldMarker)
			requireNoError(t, "stop", sb.(atoll.Stopper).Stop(t.Context()))
		},
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error {
			return sb.(atoll.FreshStarter).StartFresh(ctx)
		},
	},
	{
		name: "keep disk", ability: new(atoll.DiskKeeper), fresh: true, before: atoll.Running, after: atoll.Destroyed,
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error {
			return sb.(atoll.DiskKeeper).DestroyKeepDisk(ctx, killedName)
		},
		checkGone: checkKilledDisk,
	},
	{
		name: "remove disk", ability: new(atoll.DiskKeeper), fresh: true, before: atoll.Running, after: atoll.Running,
		prepare: func(k *killSuite, t *testing.T, _ atoll.Sandbox) {
			requireNoError(t, "keep disk", k.newSandbox(t).(atoll.DiskKeeper).DestroyKeepDisk(t.Context(), killedName))
		},
		do: func(ctx context.Context, d atoll.Driver, _ atoll.Sandbox) error {
			return d.(atoll.DiskStore).RemoveDisk(ctx, killedName)
		},
		check: func(k *killSuite, t *testing.T, _ atoll.Sandbox, completed bool) {
			if removed := !k.removeKilledDisk(t); completed && !removed {
				t.Error("the disk exists")
			}
		},
	},
	{
		name: "destroy", fresh: true, before: atoll.Running, after: atoll.Destroyed,
		do: func(ctx context.Context, _ atoll.Driver, sb atoll.Sandbox) error { return sb.Destroy(ctx) },
	},
}

func requireNoError(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// killSuite is the process that looks at what killed ones have left.
type killSuite struct {
	dir    string
	open   func(testing.TB, string) atoll.Driver
	perAct int // kills
	d      atoll.Driver
	clean  []string // the names in dir when there is no sandbox
	kept   []string // patterns of others
}

// reopenDriver opens the driver as a new process would.
func (k *killSuite) reopenDriver(t *testing.T) {
	t.Helper()
	k.close(t)
	k.d = k.open(t, k.dir)
}

func (k *killSuite) close(t *testing.T) {
	t.Helper()
	if c, ok := k.d.(io.Closer); ok {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	k.d = nil
}

// findClean finds what a driver that has had a sandbox keeps in its directory.
func (k *killSuite) findClean(t *testing.T) {
	t.Helper()
	sb := k.newSandbox(t)
	if forker, ok := sb.(atoll.Forker); ok && hasAbility(sb, new(atoll.Forker)) {
		_, err := forker.Fork(t.Context(), "", atoll.Spec{})
		requireNoError(t, "fork", err)
	}
	if s, ok := sb.(atoll.Stopper); ok && hasAbility(sb, new(atoll.Stopper)) {
		requireNoError(t, "stop", s.Stop(t.Context()))
		requireNoError(t, "start", s.Start(t.Context()))
	}
	if s, ok := sb.(atoll.DiskKeeper); ok && hasAbility(sb, new(atoll.DiskKeeper)) {
		requireNoError(t, "keep disk", s.DestroyKeepDisk(t.Context(), killedName))
		k.removeKilledDisk(t)
	}
	k.destroyAll(t)
	k.clean = k.listFiles(t)
}

// listFiles returns the names of the files in the driver's directory, at two levels.
func (k *killSuite) listFiles(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(k.dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || name == k.dir {
			return err
		}
		below, err := filepath.Rel(k.dir, name)
		names = append(names, below)
		if err == nil && e.IsDir() && strings.Contains(below, "/") {
			return fs.SkipDir
		}
		return err
	})
	requireNoError(t, "list the driver's directory", err)
	return names
}

func (k *killSuite) newSandbox(t *testing.T) atoll.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), killTimeout)
	defer cancel()
	sb, err := k.d.Create(ctx, atoll.Spec{})
	requireNoError(t, "create", err)
	k.writeMarker(t, sb, oldMarker)
	return sb
}

// writeMarker writes the marker: several files, so that a half copy shows.
func (k *killSuite) writeMarker(t *testing.T, sb atoll.Sandbox, content string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), killTimeout)
	defer cancel()
	exit, err := sb.Exec(ctx, atoll.Cmd{Shell: fmt.Sprintf("mkdir -p %[1]s; for i in 1 2 3 4 5; do echo %[2]s >%[1]s/$i; done", markerDir, content)})
	if err != nil || exit.Code != 0 {
		t.Fatalf("write the marker: %d %s, %v", exit.Code, exit.Stderr, err)
	}
}

// readMarker returns the content of the marker, which is the same in all its files.
func (k *killSuite) readMarker(t *testing.T, sb atoll.Sandbox) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), killTimeout)
	defer cancel()
	exit, err := sb.Exec(ctx, atoll.Cmd{Shell: fmt.Sprintf("[ -e %[1]s ] || echo %[2]s %[2]s %[2]s %[2]s %[2]s; [ ! -e %[1]s ] || cat %[1]s/[1-5]", markerDir, noMarker)})
	if err != nil || exit.Code != 0 {
		t.Errorf("the sandbox does not answer: %d %s, %v", exit.Code, exit.Stderr, err)
		return ""
	}
	lines := strings.Fields(string(exit.Stdout))
	if len(lines) != 5 || len(slices.Compact(slices.Clone(lines))) != 1 {
		t.Errorf("half of the files are there: %q", lines)
		return ""
	}
	return lines[0]
}

// hasAbility reports whether a sandbox has an ability: a pointer to its interface.
func hasAbility(sb atoll.Sandbox, ability any) bool {
	r, ok := sb.(atoll.AbilityReporter)
	return !ok || r.Has(ability)
}

// killDuring kills a process at the instants of an act.
func (k *killSuite) killDuring(t *testing.T, act killAct) {
	k.destroyAll(t)
	if act.ability != nil {
		sb := k.newSandbox(t)
		if !hasInterface(sb, act.ability) || !hasAbility(sb, act.ability) {
			t.Skipf("the %s driver can't %s here", k.d.Name(), act.name)
		}
	}
	full := k.killOnce(t, act, 0)
	if !full.Ended {
		t.Fatalf("the act failed: %s", full.Output)
	}
	points := killtest.Points(t, full.Calls, k.perAct)
	t.Logf("%d calls change something; killed at %d of them", full.Calls, len(points))
	for _, call := range points {
		k.killOnce(t, act, call)
		if t.Failed() {
			return
		}
	}
}

// hasInterface reports whether a sandbox implements the interface that ability points to.
func hasInterface(sb atoll.Sandbox, ability any) bool {
	switch ability.(type) {
	case *atoll.Stopper:
		_, ok := sb.(atoll.Stopper)
		return ok
	case *atoll.Pauser:
		_, ok := sb.(atoll.Pauser)
		return ok
	case *atoll.Snapshotter:
		_, ok := sb.(atoll.Snapshotter)
		return ok
	case *atoll.SnapshotKeeper:
		_, ok := sb.(atoll.SnapshotKeeper)
		return ok
	case *atoll.Forker:
		_, ok := sb.(atoll.Forker)
		return ok
	case *atoll.NetworkController:
		_, ok := sb.(atoll.NetworkController)
		return ok
	case *atoll.FreshStarter:
		_, ok := sb.(atoll.FreshStarter)
		return ok
	case *atoll.DiskKeeper:
		_, ok := sb.(atoll.DiskKeeper)
		return ok
	}
	return false
}

// killOnce kills a process at one call of an act, and checks what it has left.
func (k *killSuite) killOnce(t *testing.T, act killAct, call int) (r killtest.Result) {
	t.Helper()
	id := k.prepareSandbox(t, act)
	k.close(t)
	r = killtest.Run(t, killTask{Dir: k.dir, Act: act.name, ID: id}, call)
	k.reopenDriver(t)
	if r.Killed == "" && !r.Ended {
		t.Errorf("call %d: the act failed: %s", call, r.Output)
		return r
	}
	failed := t.Failed()
	k.checkLeft(t, act, id, r.Ended)
	if t.Failed() && !failed {
		t.Errorf("this was after a kill before call %d: %s (0: none)", call, r.Killed)
	}
	return r
}

// prepareSandbox returns the id of a sandbox in the state before an act; empty: it is to be created.
func (k *killSuite) prepareSandbox(t *testing.T, act killAct) string {
	t.Helper()
	if act.before == atoll.Destroyed {
		return ""
	}
	list, err := k.d.List(t.Context())
	requireNoError(t, "list", err)
	var sb atoll.Sandbox
	if act.fresh || len(list) == 0 {
		sb = k.newSandbox(t)
	} else {
		sb, err = k.d.Open(t.Context(), list[0].ID)
		requireNoError(t, "open", err)
	}
	if act.prepare != nil {
		act.prepare(k, t, sb)
	}
	return sb.ID()
}

// checkLeft checks what a process that did an act, maybe only in part, has left, and brings the
// sandbox back into a running state, or removes it.
func (k *killSuite) checkLeft(t *testing.T, act killAct, id string, completed bool) {
	t.Helper()
	list, err := k.d.List(t.Context())
	requireNoError(t, "list", err)
	var sb atoll.Sandbox
	for _, s := range list {
		if id != "" && s.ID != id {
			continue // a fork: see its check
		}
		if s.State != act.after && (completed || s.State != act.before) {
			t.Errorf("it is %s: %v", s.State, s.Conditions)
		}
		sb, err = k.d.Open(t.Context(), s.ID)
		requireNoError(t, "open", err)
		k.checkSandbox(t, act, sb, s.State, completed)
	}
	if sb == nil && act.after != atoll.Destroyed && (completed || act.before != atoll.Destroyed) {
		t.Fatal("the sandbox is lost")
	}
	if sb != nil && act.after == atoll.Destroyed && completed {
		t.Error("the sandbox exists")
	}
	if sb == nil && act.checkGone != nil {
		act.checkGone(k, t)
	}
	if act.fresh || t.Failed() {
		k.destroyAll(t)
		k.checkClean(t)
	}
}

// checkSandbox checks that a sandbox answers and is whole, and leaves it running.
func (k *killSuite) checkSandbox(t *testing.T, act killAct, sb atoll.Sandbox, state atoll.State, completed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), killTimeout)
	defer cancel()
	switch state {
	case atoll.Running:
	case atoll.Paused:
		requireNoError(t, "resume", sb.(atoll.Pauser).Resume(ctx))
	default:
		s, ok := sb.(atoll.Stopper)
		if !ok {
			return
		}
		requireNoError(t, "start", s.Start(ctx))
	}
	if act.before == atoll.Destroyed {
		exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo hi"})
		if err != nil || string(exit.Stdout) != "hi\n" {
			t.Errorf("the sandbox does not answer: %q, %v", exit.Stdout, err)
		}
		return
	}
	want := oldMarker
	if completed && act.marker != "" {
		want = act.marker
	}
	if got := k.readMarker(t, sb); got != want && (completed || got != act.marker || got == "") {
		t.Errorf("its files are the %q ones, want %q", got, want)
	}
	if act.check != nil {
		act.check(k, t, sb, completed)
	}
	k.removeSnapshots(t, sb)
}

// removeSnapshots removes the snapshots of a sandbox, which the act of the next kill creates.
func (k *killSuite) removeSnapshots(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	keeper, ok := sb.(atoll.SnapshotKeeper)
	if !ok || !hasAbility(sb, new(atoll.SnapshotKeeper)) {
		return
	}
	list, err := keeper.Snapshots(t.Context())
	requireNoError(t, "list snapshots", err)
	for _, s := range list {
		requireNoError(t, "remove a snapshot", keeper.RemoveSnapshot(t.Context(), s.ID))
	}
}

// checkKilledSnapshot checks that a snapshot is complete or does not exist.
func checkKilledSnapshot(k *killSuite, t *testing.T, sb atoll.Sandbox, _ bool) {
	t.Helper()
	list, err := sb.(atoll.SnapshotKeeper).Snapshots(t.Context())
	requireNoError(t, "list snapshots", err)
	if len(list) > 1 {
		t.Errorf("it has %d snapshots", len(list))
	}
	for _, s := range list {
		requireNoError(t, "restore", sb.(atoll.Snapshotter).Restore(t.Context(), s.ID))
		if got := k.readMarker(t, sb); got != oldMarker {
			t.Errorf("the snapshot has the %q files", got)
		}
	}
}

// checkKilledFork checks that a fork is complete or does not exist, and removes it.
func checkKilledFork(k *killSuite, t *testing.T, sb atoll.Sandbox, completed bool) {
	t.Helper()
	list, err := k.d.List(t.Context())
	requireNoError(t, "list", err)
	if n := len(list); n > 2 || completed && n < 2 {
		t.Errorf("there are %d sandboxes", n)
	}
	for _, s := range list {
		if s.ID == sb.ID() {
			continue
		}
		fork, err := k.d.Open(t.Context(), s.ID)
		requireNoError(t, "open the fork", err)
		if got := k.readMarker(t, fork); got != oldMarker {
			t.Errorf("the fork has the %q files", got)
		}
		requireNoError(t, "destroy the fork", fork.Destroy(t.Context()))
	}
}

// checkKilledNetwork checks that the rules are the old or the new ones, and that they decide.
func checkKilledNetwork(_ *killSuite, t *testing.T, sb atoll.Sandbox, completed bool) {
	t.Helper()
	c, err := sb.(atoll.NetworkController).CheckNetwork(t.Context(), killedTarget)
	requireNoError(t, "check the network", err)
	if completed && !c.Allowed {
		t.Errorf("the rules are the old ones: %+v", c)
	}
}

// checkKilledDisk checks that the disk of a sandbox that was removed is kept, with its files, and removes it.
func checkKilledDisk(k *killSuite, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), killTimeout)
	defer cancel()
	sb, err := k.d.Create(ctx, atoll.Spec{VM: &atoll.VM{Disk: killedName}})
	requireNoError(t, "create a sandbox with the persistent disk", err)
	if got := k.readMarker(t, sb); got != oldMarker {
		t.Errorf("the persistent disk has the %q files", got)
	}
	requireNoError(t, "destroy the sandbox with the persistent disk", sb.Destroy(ctx))
	if !k.removeKilledDisk(t) {
		t.Error("the disk is lost")
	}
}

// removeKilledDisk removes the persistent disk, and reports whether it existed.
func (k *killSuite) removeKilledDisk(t *testing.T) bool {
	t.Helper()
	disks := k.d.(atoll.DiskStore)
	list, err := disks.Disks(t.Context())
	requireNoError(t, "list disks", err)
	for _, disk := range list {
		requireNoError(t, "remove the disk", disks.RemoveDisk(t.Context(), disk.Name))
	}
	return len(list) > 0
}

// destroyAll destroys all sandboxes of the driver.
func (k *killSuite) destroyAll(t *testing.T) {
	t.Helper()
	list, err := k.d.List(context.Background()) // a cleanup has no other context
	requireNoError(t, "list", err)
	for _, s := range list {
		sb, err := k.d.Open(context.Background(), s.ID)
		requireNoError(t, "open", err)
		requireNoError(t, "destroy", sb.Destroy(context.Background()))
	}
}

// checkClean checks that no file of a sandbox is left once all were destroyed.
func (k *killSuite) checkClean(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), killTimeout)
	defer cancel()
	for {
		list, err := k.d.List(ctx)
		requireNoError(t, "list", err)
		var left []string
		for _, name := range k.listFiles(t) {
			matches := func(pattern string) bool { ok, err := path.Match(pattern, name); return ok && err == nil }
			if !slices.Contains(k.clean, name) && !slices.ContainsFunc(k.kept, matches) {
				left = append(left, name)
			}
		}
		if len(list) == 0 && len(left) == 0 {
			return
		}
		k.ageFiles(left)
		select {
		case <-time.After(20 * time.Millisecond): // a killed process may have a child that was just forked
		case <-ctx.Done():
			t.Errorf("left are %v", left)
			return
		}
	}
}

// ageFiles makes files look as if they were old: a driver leaves young ones to the process that may still
// be at work.
func (k *killSuite) ageFiles(names []string) {
	long := time.Now().Add(-time.Hour)
	for _, name := range names {
		_ = os.Chtimes(filepath.Join(k.dir, name), long, long) // it may be gone
	}
}
