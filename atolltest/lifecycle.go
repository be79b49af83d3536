package atolltest

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

var lifecycleLaws = []law{
	{"CreateReturnsWorkingSandbox", createReturnsWorkingSandbox},
	{"StatusIsReady", statusIsReady},
	{"ListHasIt", listHasIt},
	{"OpenFindsIt", openFindsIt},
	{"OpenUnknownIsNotFound", openUnknownIsNotFound},
	{"DestroyTwice", destroyTwice},
	{"DestroyAtOnce", destroyAtOnce},
	{"DestroyedIsNotFound", destroyedIsNotFound},
	{"CreateInvalidNamesEveryProblem", createInvalidNamesEveryProblem},
	{"CreateCancelledLeavesNothing", createCancelledLeavesNothing},
	{"CreateManyAtOnce", createManyAtOnce},
	{"SandboxesAreIsolated", sandboxesAreIsolated},
	{"IDIsAsRequested", idIsAsRequested},
	{"FeaturesAreTrue", featuresAreTrue},
}

func createReturnsWorkingSandbox(e *env) {
	spec := e.newSpec()
	spec.Name = "answers"
	spec.Labels["color"] = "green"
	sb := e.create(spec)
	if sb.ID() == "" {
		e.Error("the ID is empty")
	}
	wantEqual(e, "the first command", e.runShell(sb, "echo hi"), "hi\n")
	s, err := sb.Status(e.newContext())
	if err != nil {
		e.Fatalf("Status: %v", err)
	}
	wantEqual(e, "name", s.Name, "answers")
	wantEqual(e, "label", s.Labels["color"], "green")
}

func statusIsReady(e *env) {
	sb := e.newSandbox()
	s, err := sb.Status(e.newContext())
	if err != nil {
		e.Fatalf("Status: %v", err)
	}
	wantEqual(e, "ID", s.ID, sb.ID())
	wantEqual(e, "Driver", s.Driver, e.driver.Name())
	wantEqual(e, "State", s.State, atoll.Running)
	wantEqual(e, "Ready", s.Ready(), true)
	wantEqual(e, "Isolation", s.Isolation, e.features.Isolation)
	if s.Created.IsZero() || s.Active.Before(s.Created) {
		e.Errorf("Created %v and Active %v make no sense", s.Created, s.Active)
	}
}

func (e *env) isListed(id string) bool {
	e.Helper()
	list, err := e.driver.List(e.newContext())
	if err != nil {
		e.Fatalf("List: %v", err)
	}
	for _, s := range list {
		if s.ID == id {
			return true
		}
	}
	return false
}

func listHasIt(e *env) {
	sb := e.newSandbox()
	wantEqual(e, "in the list", e.isListed(sb.ID()), true)
}

func openFindsIt(e *env) {
	sb := e.newSandbox()
	e.runShell(sb, "echo kept > /tmp/kept")
	again, err := e.driver.Open(e.newContext(), sb.ID())
	if err != nil {
		e.Fatalf("Open: %v", err)
	}
	wantEqual(e, "ID", again.ID(), sb.ID())
	wantEqual(e, "its file", e.runShell(again, "cat /tmp/kept"), "kept\n")
}

func openUnknownIsNotFound(e *env) {
	for _, id := range []string{"no-such-sandbox", "", "../../etc", "a/b", "\x00", "*"} {
		_, err := e.driver.Open(e.newContext(), id)
		e.wantError(err, atoll.ErrNotFound, "Open "+id)
	}
}

func destroyTwice(e *env) {
	sb := e.newSandbox()
	for range 3 {
		if err := sb.Destroy(e.newContext()); err != nil {
			e.Errorf("Destroy: %v", err)
		}
	}
	again := e.newSandbox()
	other, err := e.driver.Open(e.newContext(), again.ID())
	if err != nil {
		e.Fatalf("Open: %v", err)
	}
	if err := errors.Join(again.Destroy(e.newContext()), other.Destroy(e.newContext())); err != nil {
		e.Errorf("Destroy through two handles: %v", err)
	}
}

func destroyAtOnce(e *env) {
	sb := e.newSandbox()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := sb.Destroy(e.newContext()); err != nil {
				e.Errorf("Destroy: %v", err)
			}
		})
	}
	wg.Wait()
}

func destroyedIsNotFound(e *env) {
	sb := e.newSandbox()
	if err := sb.Destroy(e.newContext()); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	wantEqual(e, "in the list", e.isListed(sb.ID()), false)
	_, err := e.driver.Open(e.newContext(), sb.ID())
	e.wantError(err, atoll.ErrNotFound, "Open")
	_, err = sb.Exec(e.newContext(), atoll.Cmd{Args: []string{"true"}})
	e.wantError(err, atoll.ErrNotFound, "Exec")
	_, err = atoll.ReadFile(e.newContext(), sb, "/etc/passwd")
	e.wantError(err, atoll.ErrNotFound, "ReadFile")
}

func createInvalidNamesEveryProblem(e *env) {
	spec := e.newSpec()
	spec.Name = "Not A Name!"
	spec.Dir = "relative"
	spec.Env = []string{"=x"}
	_, err := e.driver.Create(e.newContext(), spec)
	e.wantError(err, atoll.ErrInvalid, "Create")
	if err == nil {
		return
	}
	var fault *atoll.Error
	if !errors.As(err, &fault) || fault.Op != "create" {
		e.Errorf("the error %#v does not say that it was create", err)
	}
	text := err.Error()
	for _, what := range []string{"Not A Name!", "relative", "=x"} {
		if !strings.Contains(text, what) {
			e.Errorf("the error %q does not name %q", err, what)
		}
	}
}

func createCancelledLeavesNothing(e *env) {
	ctx, cancel := context.WithCancel(e.newContext())
	cancel()
	sb, err := e.driver.Create(ctx, e.newSpec())
	if err == nil {
		e.Errorf("Create with a cancelled context gave sandbox %s", sb.ID())
		_ = sb.Destroy(e.newContext()) // the failure is reported above
	}
	e.wantError(err, context.Canceled, "Create")
	list, err := e.driver.List(e.newContext())
	if err != nil {
		e.Fatalf("List: %v", err)
	}
	for _, s := range list {
		if s.Labels[label] == e.Name() {
			e.Errorf("sandbox %s was left behind", s.ID)
		}
	}
}

func createManyAtOnce(e *env) {
	const n = 8
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			sb, err := e.driver.Create(e.newContext(), e.newSpec())
			if err != nil {
				e.Errorf("Create: %v", err)
				return
			}
			ids[i] = sb.ID()
			exit, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: "echo hi"})
			if err != nil || string(exit.Stdout) != "hi\n" {
				e.Errorf("Exec: %q, %v", exit.Stdout, err)
			}
			if err := sb.Destroy(e.newContext()); err != nil {
				e.Errorf("Destroy: %v", err)
			}
		})
	}
	wg.Wait()
	seen := make(map[string]bool)
	for _, id := range ids {
		if seen[id] {
			e.Errorf("two sandboxes are called %s", id)
		}
		seen[id] = true
	}
}

func sandboxesAreIsolated(e *env) {
	a, b := e.newSandbox(), e.newSandbox()
	e.runShell(a, "echo secret > /tmp/of-a")
	exit := e.exec(b, atoll.Cmd{Shell: "cat /tmp/of-a"})
	if exit.Code == 0 {
		e.Errorf("a neighbour read %q", exit.Stdout)
	}
}

func idIsAsRequested(e *env) {
	spec := e.newSpec()
	spec.ID = atoll.NewID()
	sb := e.create(spec)
	wantEqual(e, "ID", sb.ID(), spec.ID)
	wantEqual(e, "in the list", e.isListed(spec.ID), true)
	again, err := e.driver.Create(e.newContext(), spec)
	if err == nil {
		_ = again.Destroy(e.newContext()) // the failure is reported below
	}
	e.wantError(err, atoll.ErrExists, "Create with an ID that is taken")
	wantEqual(e, "the first one works", e.runShell(sb, "echo works"), "works\n")
	for _, id := range []string{"x", "../../../../x", "S123456789012", "s12345678901/", strings.Repeat("s", 14)} {
		spec.ID = id
		sb, err := e.driver.Create(e.newContext(), spec)
		if err == nil {
			_ = sb.Destroy(e.newContext()) // the failure is reported below
		}
		e.wantError(err, atoll.ErrInvalid, "Create with the ID "+id)
	}
}

// featuresAreTrue checks each flag of Features against the interface that it
// announces.
func featuresAreTrue(e *env) {
	sb := e.newSandbox()
	f := e.features
	check := func(what string, flag, have bool) {
		e.Helper()
		wantEqual(e, "Features."+what+" and its interface", flag, have)
	}
	_, ok := atoll.As[atoll.Stopper](sb)
	check("Stop", f.Stop, ok)
	_, ok = atoll.As[atoll.Pauser](sb)
	check("Pause", f.Pause, ok)
	_, ok = atoll.As[atoll.Snapshotter](sb)
	check("Snapshot", f.Snapshot, ok)
	_, ok = atoll.As[atoll.Forker](sb)
	check("Fork", f.Fork, ok)
	_, ok = atoll.As[atoll.Dialer](sb)
	check("Dial", f.Dial, ok)
	_, ok = atoll.As[atoll.Listener](sb)
	check("Listen", f.Listen, ok)
	_, ok = atoll.As[atoll.DirFS](sb)
	check("Files", f.Files, ok)
	_, ok = atoll.As[atoll.Meter](sb)
	check("Stats", f.Stats, ok)
	_, ok = atoll.As[atoll.Historian](sb)
	check("History", f.History, ok)
	_, ok = atoll.As[atoll.Watcher](sb)
	check("Watch", f.Watch, ok)
	if f.Isolation == "" {
		e.Error("Features.Isolation is empty")
	}
	if !f.Stop {
		e.wantError(atoll.Stop(e.newContext(), sb), atoll.ErrUnsupported, "Stop")
	}
	if !f.Pause {
		e.wantError(atoll.Pause(e.newContext(), sb), atoll.ErrUnsupported, "Pause")
	}
	if !f.Fork {
		_, err := atoll.Fork(e.newContext(), sb, "", e.newSpec())
		e.wantError(err, atoll.ErrUnsupported, "Fork")
	}
	if !f.Dial {
		_, err := atoll.Dial(e.newContext(), sb, "tcp", "localhost:1")
		e.wantError(err, atoll.ErrUnsupported, "Dial")
	}
	if !f.Listen {
		_, err := atoll.Listen(e.newContext(), sb, "tcp", "127.0.0.1:0")
		e.wantError(err, atoll.ErrUnsupported, "Listen")
	}
	if !f.Watch {
		err := atoll.Watch(e.newContext(), sb, "/", func(atoll.FileEvent) error { return nil })
		e.wantError(err, atoll.ErrUnsupported, "Watch")
	}
	if !f.TTY {
		_, err := sb.Exec(e.newContext(), atoll.Cmd{Args: []string{"true"}, TTY: &atoll.TTY{}})
		e.wantError(err, atoll.ErrUnsupported, "a terminal")
	}
	if !f.Signals {
		_, err := sb.Exec(e.newContext(), atoll.Cmd{Args: []string{"true"}, Signals: make(chan string)})
		e.wantError(err, atoll.ErrUnsupported, "signals")
	}
	if !f.Mounts {
		spec := e.newSpec()
		spec.Mounts = []atoll.Mount{{Source: e.TempDir(), Target: "/mnt"}}
		e.mustRefuse(spec, "a mount")
	}
	if !f.Images {
		spec := e.newSpec()
		spec.Image = "busybox:latest"
		e.mustRefuse(spec, "an image")
	}
	if !f.Users {
		_, err := sb.Exec(e.newContext(), atoll.Cmd{Args: []string{"true"}, User: "nobody"})
		e.wantError(err, atoll.ErrUnsupported, "another user")
	}
}

// mustRefuse fails unless Create returns ErrUnsupported.
func (e *env) mustRefuse(spec atoll.Spec, what string) {
	e.Helper()
	sb, err := e.driver.Create(e.newContext(), spec)
	if err == nil {
		_ = sb.Destroy(e.newContext()) // the failure is reported below
	}
	e.wantError(err, atoll.ErrUnsupported, what)
}
