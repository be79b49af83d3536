package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/fleet/workspace"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestWorkspace(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	w, err := a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w", Labels: map[string]string{"k": "v"}, Keep: time.Hour, Bytes: 7, Sandboxes: []string{"x"}})
	must(t, err)
	if w.Owner != atoll.Local || w.Labels["k"] != "v" || w.Bytes != 0 || w.Sandboxes != nil || !w.Expires.Equal(w.Used.Add(time.Hour+workspaceUsePrecision)) {
		t.Errorf("made %+v", w)
	}
	checkError(t, "the name again", errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w"})), atoll.ErrExists)
	checkError(t, "bad labels", errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "x", Labels: map[string]string{"": "v"}})), atoll.ErrInvalid)
	sb, err := a.Create(t.Context(), atoll.Config{Spec: atoll.Spec{Name: "user"}, Workspaces: []atoll.WorkspaceMount{
		{Workspace: "w"}, {Workspace: "w", Target: "/ro", ReadOnly: true}, {Workspace: "made", Target: "/made"},
	}})
	must(t, err)
	if got := shellOutput(t, sb, "echo hi >/workspace/f; cat /ro/f; echo no 2>/dev/null >/ro/g || echo read-only; ls /made"); got != "hi\nread-only\n" {
		t.Errorf("inside: %q", got)
	}
	f.workspaces.ForgetSize(workspace.Key{Owner: atoll.Local, Name: "w"})
	if w, err = a.Workspace(t.Context(), "w"); err != nil || !slices.Equal(w.Sandboxes, []string{"user"}) || !w.Expires.IsZero() || w.Bytes != 3 || w.Files != 1 {
		t.Errorf("mounted: %+v, %v", w, err)
	}
	err = a.RemoveWorkspace(t.Context(), "w")
	checkError(t, "remove one that is mounted", err, atoll.ErrState)
	if err == nil || !strings.Contains(err.Error(), "user") {
		t.Errorf("%v: does not name the sandbox", err)
	}
	list, err := a.Workspaces(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != "made" || list[1].Name != "w" {
		t.Errorf("list: %v, %v", list, err)
	}
	must(t, sb.Stop(t.Context()))
	checkError(t, "remove one that a stopped sandbox mounts", a.RemoveWorkspace(t.Context(), "w"), atoll.ErrState)
	must(t, sb.Destroy(t.Context()))
	if got := readTestFile(t, reopenFiles(t, a, "w"), "/f"); got != "hi\n" {
		t.Errorf("after the sandbox: %q", got)
	}
	must(t, a.RemoveWorkspace(t.Context(), "w"))
	checkError(t, "remove twice", a.RemoveWorkspace(t.Context(), "w"), atoll.ErrNotFound)
	must(t, errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w"})))
	if list, err := reopenFiles(t, a, "w").ReadDir(t.Context(), "/"); err != nil || len(list) != 0 {
		t.Errorf("a new one holds what the old one held: %v, %v", list, err)
	}
	if left, err := os.ReadDir(filepath.Join(f.workspaces.Dir, workspace.RemovedDir)); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	var types []string
	must(t, a.Events(t.Context(), event.Filter{Types: []string{"workspace.*"}}, false, func(e atoll.Event) error {
		types = append(types, strings.TrimPrefix(e.Type, "workspace.")+" "+e.Object)
		return nil
	}))
	if d := cmp.Diff([]string{"created w", "created made", "removed w", "created w"}, types); d != "" {
		t.Error(d)
	}
}

// TestWorkspacesShareTheDiskQuota mounts several workspaces in one sandbox, one of them
// twice: together they are within the owner's quota.
func TestWorkspacesShareTheDiskQuota(t *testing.T) {
	const quota, own = 8 << 20, 2 << 20
	f := openFleet(t, Options{Quota: atoll.Quota{Disk: quota}})
	cfg := atoll.Config{Spec: atoll.Spec{Limits: atoll.Resources{Disk: own}}, Workspaces: []atoll.WorkspaceMount{
		{Workspace: "a"}, {Workspace: "b", Target: "/b"}, {Workspace: "a", Target: "/again"}, {Workspace: "b", Target: "/ro", ReadOnly: true},
	}}
	sb := mustCreate(t, f.Account(LocalCaller()), cfg)
	text := "for d in /workspace /b /again; do head -c 8000000 /dev/zero >$d/f$RANDOM; done 2>/dev/null; wc -c /workspace/* /b/* | tail -n 1"
	var total int64
	if _, err := fmt.Sscan(shellOutput(t, sb, text), &total); err != nil || total > quota-own || total < (quota-own)/4 {
		t.Errorf("%d bytes, %v; want at most %d", total, err, quota-own)
	}
}

// TestFilesOfARemovedWorkspace uses the files of a workspace that was removed after
// they were opened.
func TestFilesOfARemovedWorkspace(t *testing.T) {
	f := openFleet(t, Options{})
	files, _ := newTestFiles(t, f)
	a := f.Account(LocalCaller())
	writeTestFile(t, files, "/f", "x")
	must(t, a.RemoveWorkspace(t.Context(), "w"))
	for range 2 {
		checkError(t, "read", errorOf(files.OpenFile(t.Context(), "/f")), atoll.ErrNotFound)
		checkError(t, "write", files.WriteFile(t.Context(), "/f", strings.NewReader("lost"), 0o644), atoll.ErrNotFound)
		checkError(t, "import", files.Import(t.Context(), "/", makeArchive(t, fileHeader("g", "lost"))), atoll.ErrNotFound)
		must(t, ignoreError(errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w"})), atoll.ErrExists))
	}
	if list, err := reopenFiles(t, a, "w").ReadDir(t.Context(), "/"); err != nil || len(list) != 0 {
		t.Errorf("in the new one: %v, %v", list, err)
	}
}

// TestFailedCreateLeavesWorkspaces: a failed Create creates no workspaces.
func TestFailedCreateLeavesWorkspaces(t *testing.T) {
	home := t.TempDir()
	d := &failingDriver{Driver: &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}
	d.broken.Store(true)
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	a := f.Account(LocalCaller())
	checkError(t, "create", errorOf(a.Create(t.Context(), atoll.Config{Workspaces: []atoll.WorkspaceMount{{Workspace: "w"}}})), errBrittle)
	if w, err := a.Workspace(t.Context(), "w"); err == nil && len(w.Sandboxes) > 0 {
		t.Errorf("a sandbox that is not there mounts it: %+v", w)
	}
	checkError(t, "remove", a.RemoveWorkspace(t.Context(), "w"), nil)
}

func TestRetention(t *testing.T) {
	testenv.Logic(t)
	now := atomic.Int64{}
	now.Store(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	day := func(n int) { now.Add(int64(n) * int64(24*time.Hour)) }
	f := openFleet(t, Options{Now: func() time.Time { return time.Unix(0, now.Load()) }})
	a := f.Account(LocalCaller())
	for name, keep := range map[string]time.Duration{"usual": 0, "short": time.Hour, "forever": -1, "used": 0, "read": 0, "mounted": 0} {
		must(t, errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: name, Keep: keep})))
	}
	other := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "u"}, Scopes: []atoll.Scope{atoll.ScopeRun}})
	must(t, errorOf(other.CreateWorkspace(t.Context(), atoll.Workspace{Name: "others"})))
	writeTestFile(t, reopenFiles(t, a, "usual"), "/f", "12345")
	sb, err := a.Create(t.Context(), atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}, Workspaces: []atoll.WorkspaceMount{{Workspace: "mounted"}}})
	must(t, err)
	names := func(p atoll.PruneResult, err error) []string {
		must(t, err)
		var list []string
		for _, w := range p.Workspaces {
			list = append(list, w.Name)
		}
		return list
	}
	check := func(when string, p PruneOptions, wanted ...string) {
		t.Helper()
		if got := names(a.Prune(t.Context(), p)); !slices.Equal(got, wanted) {
			t.Errorf("%s: %v, want %v", when, got, wanted)
		}
	}
	check("at once", PruneOptions{})
	day(4)
	writeTestFile(t, reopenFiles(t, a, "used"), "/f", "x")
	check("after 4 days, dry", PruneOptions{DryRun: true}, "short")
	check("after 4 days", PruneOptions{}, "short")
	check("again", PruneOptions{})
	day(3)
	check("after exactly 7 days", PruneOptions{})
	must(t, errorOf(reopenFiles(t, a, "read").ReadDir(t.Context(), "/")))
	now.Add(int64(2 * time.Minute))
	check("after 7 days, dry", PruneOptions{DryRun: true}, "usual")
	f.workspaces.ForgetSize(workspace.Key{Owner: atoll.Local, Name: "usual"})
	if p, err := a.Prune(t.Context(), PruneOptions{DryRun: true}); err != nil || p.Bytes != 5 || !p.DryRun {
		t.Errorf("dry: %+v, %v", p, err)
	}
	check("after 7 days, all owners", PruneOptions{AllOwners: true}, "others", "usual")
	must(t, sb.Destroy(t.Context()))
	check("just unmounted", PruneOptions{})
	day(8)
	check("at the end", PruneOptions{}, "mounted", "read", "used")
	if list, err := a.Workspaces(t.Context()); err != nil || len(list) != 1 || list[0].Name != "forever" {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestTimetables(t *testing.T) {
	for text, good := range map[string]bool{
		"": true, "0 3 * * *": true, "*/5 0-6 1,15 * mon-fri": true,
		"0 3 * *": false, "0 3 * * * *": false, "@daily": false, "@every 1s": false, "60 3 * * *": false, "0 3 31 2 *": false,
		"TZ=": false, "CRON_TZ=Europe/Berlin 0 3 * * *": false, "TZ=nowhere": false, "a b c d e": false, " ": false,
	} {
		f, err := Open(t.Context(), Options{Home: t.TempDir(), Drivers: []atoll.Driver{virtual.New()}, Retention: Retention{Cron: text}})
		if err == nil {
			closeFleet(t, f)
		}
		if good != (err == nil) || err != nil && (!errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("%q", text))) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestRetentionOverDays checks retention with a clock that advances by days.
func TestRetentionOverDays(t *testing.T) {
	home := t.TempDir()
	day := func(f *Fleet, a *Account, names ...string) { // checks the workspaces at noon of the next day
		t.Helper()
		now := time.Now()
		time.Sleep(time.Date(now.Year(), now.Month(), now.Day()+1, 12, 0, 0, 0, time.Local).Sub(now))
		synctest.Wait()
		list, err := a.Workspaces(context.Background())
		must(t, err)
		var got []string
		for _, w := range list {
			got = append(got, w.Name)
		}
		if !slices.Equal(got, names) {
			t.Errorf("at %v: %v, want %v", time.Now(), got, names)
		}
	}
	retaining := func(f *Fleet) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- f.runRetention(ctx) }()
		synctest.Wait()
		return func() {
			cancel()
			must(t, <-done)
		}
	}
	skipOnPostgres(t, "no database is in the bubble")
	synctest.Test(t, func(t *testing.T) {
		f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{virtual.New()}, Retention: Retention{Keep: 36 * time.Hour}})
		a := f.Account(LocalCaller())
		stop := retaining(f)
		must(t, errorOf(a.CreateWorkspace(context.Background(), atoll.Workspace{Name: "a"})))
		day(f, a, "a") // 27 hours or less
		must(t, errorOf(a.CreateWorkspace(context.Background(), atoll.Workspace{Name: "b"})))
		day(f, a, "b") // at 03:00, a has gone
		stop()
		day(f, a, "b") // without a prune
		day(f, a, "b")
		stop = retaining(f)
		list, err := a.Workspaces(context.Background())
		if err != nil || len(list) != 0 {
			t.Errorf("a run that was missed is not made up for: %v, %v", list, err)
		}
		must(t, errorOf(a.CreateWorkspace(context.Background(), atoll.Workspace{Name: "c", Keep: time.Minute})))
		time.Sleep(time.Hour)
		synctest.Wait()
		if list, err = a.Workspaces(context.Background()); err != nil || len(list) != 1 {
			t.Errorf("it looks at another time than its own: %v, %v", list, err)
		}
		day(f, a)
		stop()
	})
}

// TestConcurrentPruneAndCreate removes workspaces while sandboxes start to use them:
// the second operation must see the result of the first.
func TestConcurrentPruneAndCreate(t *testing.T) {
	home := t.TempDir()
	fleets := [2]*Fleet{openFleet(t, Options{Home: home, Retention: Retention{Keep: time.Nanosecond}}), openFleet(t, Options{Home: home})}
	later := func() time.Time { return time.Now().Add(2 * time.Minute) } // everything is old
	fleets[0].opts.Now = later
	a, b := fleets[0].Account(LocalCaller()), fleets[1].Account(LocalCaller())
	const spaces, rounds = 4, 6
	stop := make(chan struct{})
	var pruner, users sync.WaitGroup
	var removed atomic.Int64
	pruner.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			p, err := a.Prune(context.Background(), PruneOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			removed.Add(int64(len(p.Workspaces)))
		}
	})
	for i := range spaces * 2 {
		users.Go(func() {
			for n := range rounds {
				name := fmt.Sprint("w", i%spaces)
				sb, err := b.Create(context.Background(), atoll.Config{Workspaces: []atoll.WorkspaceMount{{Workspace: name}}})
				if err != nil {
					t.Error(err)
					return
				}
				file := fmt.Sprintf("f-%d-%d", i, n)
				exit, err := sb.Exec(context.Background(), atoll.Cmd{Shell: "echo data >/workspace/" + file + " && cat /workspace/" + file})
				if err != nil || string(exit.Stdout) != "data\n" {
					t.Errorf("in a workspace that is mounted: %q %q, %v", exit.Stdout, exit.Stderr, err)
				}
				if got, err := os.ReadFile(filepath.Join(fleets[0].workspaces.HostPath(workspace.Key{Owner: atoll.Local, Name: name}), file)); err != nil || string(got) != "data\n" {
					t.Errorf("a workspace was removed while it was mounted: %q, %v", got, err)
				}
				if err := sb.Destroy(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
	close(stop)
	pruner.Wait()
	if removed.Load() == 0 {
		t.Error("nothing was ever removed: this shows nothing")
	}
}

// TestInterruptedRemoval opens a fleet after processes died at every step of removing,
// writing and creating a workspace.
func TestInterruptedRemoval(t *testing.T) {
	home := t.TempDir()
	f := openFleet(t, Options{Home: home})
	at := func(name string) workspace.Key {
		return workspace.Key{Owner: atoll.Owner{App: "App", User: "u"}, Name: name}
	}
	u := f.Account(Caller{Owner: at("").Owner, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeRead}})
	for _, name := range []string{"begun", "done", "again", "opened"} {
		must(t, errorOf(u.CreateWorkspace(t.Context(), atoll.Workspace{Name: name})))
		writeTestFile(t, reopenFiles(t, u, name), "/f", name)
	}
	for _, name := range []string{"begun", "done", "again", "opened"} {
		d, err := f.workspaces.SetAside(at(name))
		must(t, err)
		if name == "done" || name == "again" { // the registry was written
			must(t, f.registry.Write(t.Context(), func(tx *sql.Tx) error { return f.deleteWorkspaceRow(t.Context(), tx, at(name), "") }))
		}
		must(t, d.Release())
	}
	must(t, errorOf(u.CreateWorkspace(t.Context(), atoll.Workspace{Name: "again"})))
	writeTestFile(t, reopenFiles(t, u, "again"), "/f", "new")
	if got := readTestFile(t, reopenFiles(t, u, "opened"), "/f"); got != "opened" { // by a process that was there all the time
		t.Errorf("opened: %q", got)
	}
	for _, dir := range []string{".lifted", "app"} { // unfinished deletions of hostile files
		for _, plant := range []func(string) error{
			func(name string) error { return syscall.Mkfifo(name, 0o600) },
			func(name string) error { return os.WriteFile(name, nil, 0o600) },
			func(name string) error { return os.Symlink("/", name) },
		} {
			d, err := f.workspaces.NewStaging(workspace.RemovedDir)
			must(t, err)
			at := filepath.Join(f.workspaces.Dir, d.Name, dir)
			must(t, os.Mkdir(at, 0o700))
			must(t, plant(filepath.Join(at, "x")))
			must(t, d.Release())
		}
	}
	d, err := f.workspaces.NewStaging(workspace.IncomingDir) // an upload
	must(t, err)
	must(t, f.workspaces.Root.WriteFile(d.Name+"/half", []byte("x"), 0o600))
	must(t, d.Release())
	alive, err := f.workspaces.NewStaging(workspace.IncomingDir) // one of a running process
	must(t, err)
	must(t, f.workspaces.Create(at("unknown"))) // made, but not written down
	must(t, os.WriteFile(filepath.Join(f.workspaces.HostPath(at("unknown")), "f"), []byte("precious"), 0o600))
	must(t, f.workspaces.Create(at("empty")))
	must(t, os.WriteFile(filepath.Join(f.workspaces.Dir, "stray"), []byte("x"), 0o600))
	must(t, os.MkdirAll(filepath.Join(f.workspaces.Dir, "Not!ours", "x", "y"), 0o700))

	g := openFleet(t, Options{Home: home, tidyTimeout: time.Minute}) // on a busy machine all of it takes longer than opening may
	for _, dir := range []string{workspace.RemovedDir, workspace.IncomingDir} {
		left, err := os.ReadDir(filepath.Join(g.workspaces.Dir, dir))
		must(t, err)
		if dir == workspace.IncomingDir {
			left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return e.Name() == filepath.Base(alive.Name) })
		}
		if len(left) != 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
	if ok, err := f.workspaces.Root.Lstat(alive.Name); err != nil {
		t.Errorf("what was going on was swept: %v, %v", ok, err)
	}
	must(t, alive.Remove(t.Context()))
	must(t, g.tidyWorkspaces(t.Context()))
	v := g.Account(u.caller)
	for name, content := range map[string]string{"begun": "begun", "again": "new", "opened": "opened", "unknown": "precious"} {
		if got := readTestFile(t, reopenFiles(t, v, name), "/f"); got != content {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, name := range []string{"done", "empty"} {
		checkError(t, name, errorOf(v.Workspace(t.Context(), name)), atoll.ErrNotFound)
		if ok, err := g.workspaces.Exists(at(name)); ok || err != nil {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}

// TestLostRegistry opens a fleet whose registry was lost: its workspaces must be kept.
func TestLostRegistry(t *testing.T) {
	home := t.TempDir()
	f, err := Open(t.Context(), withPostgres(Options{Home: home, Drivers: []atoll.Driver{virtual.New()}}))
	must(t, err)
	u := f.Account(Caller{Owner: atoll.Owner{App: "App", User: "u@x.y"}, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeRead}})
	must(t, errorOf(u.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w"})))
	files, err := u.Files(t.Context(), "w")
	must(t, err)
	writeTestFile(t, files, "/f", "precious")
	must(t, files.Close())
	closeFleet(t, f)
	for _, name := range []string{"atoll.db", "atoll.db-wal", "atoll.db-shm"} {
		if err := os.Remove(filepath.Join(home, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	g := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{virtual.New()}})
	if got := readTestFile(t, reopenFiles(t, g.Account(u.caller), "w"), "/f"); got != "precious" {
		t.Errorf("after the registry was lost: %q", got)
	}
}
