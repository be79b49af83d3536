package atolltest

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

var lifeLaws = []law{
	{"CreateAnswers", createAnswers},
	{"StatusIsReady", statusIsReady},
	{"ListHasIt", listHasIt},
	{"OpenFindsIt", openFindsIt},
	{"OpenUnknownIsNotFound", openUnknownIsNotFound},
	{"DestroyTwice", destroyTwice},
	{"DestroyAtOnce", destroyAtOnce},
	{"DestroyedIsGone", destroyedIsGone},
	{"CreateInvalidNamesEveryProblem", createInvalidNamesEveryProblem},
	{"CreateCancelledLeavesNothing", createCancelledLeavesNothing},
	{"CreateManyAtOnce", createManyAtOnce},
	{"SandboxesAreApart", sandboxesAreApart},
	{"IDIsKept", idIsKept},
	{"FeaturesAreTrue", featuresAreTrue},
}

func createAnswers(e *env) {
	spec := e.spec()
	spec.Name = "answers"
	spec.Labels["color"] = "green"
	sb := e.create(spec)
	if sb.ID() == "" {
		e.Error("the ID is empty")
	}
	eq(e, "the first command", e.sh(sb, "echo hi"), "hi\n")
	s, err := sb.Status(e.ctx())
	if err != nil {
		e.Fatalf("Status: %v", err)
	}
	eq(e, "name", s.Name, "answers")
	eq(e, "label", s.Labels["color"], "green")
}

func statusIsReady(e *env) {
	sb := e.sandbox()
	s, err := sb.Status(e.ctx())
	if err != nil {
		e.Fatalf("Status: %v", err)
	}
	eq(e, "ID", s.ID, sb.ID())
	eq(e, "Driver", s.Driver, e.driver.Name())
	eq(e, "State", s.State, atoll.Running)
	eq(e, "Ready", s.Ready(), true)
	eq(e, "Isolation", s.Isolation, e.features.Isolation)
	if s.Created.IsZero() || s.Active.Before(s.Created) {
		e.Errorf("Created %v and Active %v make no sense", s.Created, s.Active)
	}
}

func (e *env) listed(id string) bool {
	e.Helper()
	list, err := e.driver.List(e.ctx())
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
	sb := e.sandbox()
	eq(e, "in the list", e.listed(sb.ID()), true)
}

func openFindsIt(e *env) {
	sb := e.sandbox()
	e.sh(sb, "echo kept > /tmp/kept")
	again, err := e.driver.Open(e.ctx(), sb.ID())
	if err != nil {
		e.Fatalf("Open: %v", err)
	}
	eq(e, "ID", again.ID(), sb.ID())
	eq(e, "its file", e.sh(again, "cat /tmp/kept"), "kept\n")
}

func openUnknownIsNotFound(e *env) {
	for _, id := range []string{"no-such-sandbox", "", "../../etc", "a/b", "\x00", "*"} {
		_, err := e.driver.Open(e.ctx(), id)
		e.want(err, atoll.ErrNotFound, "Open "+id)
	}
}

func destroyTwice(e *env) {
	sb := e.sandbox()
	for range 3 {
		if err := sb.Destroy(e.ctx()); err != nil {
			e.Errorf("Destroy: %v", err)
		}
	}
	again := e.sandbox()
	other, err := e.driver.Open(e.ctx(), again.ID())
	if err != nil {
		e.Fatalf("Open: %v", err)
	}
	if err := errors.Join(again.Destroy(e.ctx()), other.Destroy(e.ctx())); err != nil {
		e.Errorf("Destroy through two handles: %v", err)
	}
}

func destroyAtOnce(e *env) {
	sb := e.sandbox()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := sb.Destroy(e.ctx()); err != nil {
				e.Errorf("Destroy: %v", err)
			}
		})
	}
	wg.Wait()
}

func destroyedIsGone(e *env) {
	sb := e.sandbox()
	if err := sb.Destroy(e.ctx()); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	eq(e, "in the list", e.listed(sb.ID()), false)
	_, err := e.driver.Open(e.ctx(), sb.ID())
	e.want(err, atoll.ErrNotFound, "Open")
	_, err = sb.Exec(e.ctx(), atoll.Cmd{Args: []string{"true"}})
	e.want(err, atoll.ErrNotFound, "Exec")
	_, err = atoll.ReadFile(e.ctx(), sb, "/etc/passwd")
	e.want(err, atoll.ErrNotFound, "ReadFile")
}

func createInvalidNamesEveryProblem(e *env) {
	spec := e.spec()
	spec.Name = "Not A Name!"
	spec.Dir = "relative"
	spec.Env = []string{"=x"}
	_, err := e.driver.Create(e.ctx(), spec)
	e.want(err, atoll.ErrInvalid, "Create")
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
	ctx, cancel := context.WithCancel(e.ctx())
	cancel()
	sb, err := e.driver.Create(ctx, e.spec())
	if err == nil {
		e.Errorf("Create with a cancelled context gave sandbox %s", sb.ID())
		_ = sb.Destroy(e.ctx()) // the failure is reported
	}
	e.want(err, context.Canceled, "Create")
	list, err := e.driver.List(e.ctx())
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
			sb, err := e.driver.Create(e.ctx(), e.spec())
			if err != nil {
				e.Errorf("Create: %v", err)
				return
			}
			ids[i] = sb.ID()
			exit, err := sb.Exec(e.ctx(), atoll.Cmd{Shell: "echo hi"})
			if err != nil || string(exit.Stdout) != "hi\n" {
				e.Errorf("Exec: %q, %v", exit.Stdout, err)
			}
			if err := sb.Destroy(e.ctx()); err != nil {
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

func sandboxesAreApart(e *env) {
	a, b := e.sandbox(), e.sandbox()
	e.sh(a, "echo secret > /tmp/of-a")
	exit := e.exec(b, atoll.Cmd{Shell: "cat /tmp/of-a"})
	if exit.Code == 0 {
		e.Errorf("a neighbour read %q", exit.Stdout)
	}
}

func idIsKept(e *env) {
	spec := e.spec()
	spec.ID = atoll.NewID()
	sb := e.create(spec)
	eq(e, "ID", sb.ID(), spec.ID)
	eq(e, "in the list", e.listed(spec.ID), true)
	again, err := e.driver.Create(e.ctx(), spec)
	if err == nil {
		_ = again.Destroy(e.ctx()) // the failure is reported below
	}
	e.want(err, atoll.ErrExists, "Create with an ID that is taken")
	eq(e, "the first one works", e.sh(sb, "echo works"), "works\n")
	for _, id := range []string{"x", "../../../../x", "S123456789012", "s12345678901/", strings.Repeat("s", 14)} {
		spec.ID = id
		sb, err := e.driver.Create(e.ctx(), spec)
		if err == nil {
			_ = sb.Destroy(e.ctx()) // likewise
		}
		e.want(err, atoll.ErrInvalid, "Create with the ID "+id)
	}
}

// featuresAreTrue checks each flag against the interface that it announces.
func featuresAreTrue(e *env) {
	sb := e.sandbox()
	f := e.features
	check := func(what string, flag, have bool) {
		e.Helper()
		eq(e, "Features."+what+" and its interface", flag, have)
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
		e.want(atoll.Stop(e.ctx(), sb), atoll.ErrUnsupported, "Stop")
	}
	if !f.Pause {
		e.want(atoll.Pause(e.ctx(), sb), atoll.ErrUnsupported, "Pause")
	}
	if !f.Fork {
		_, err := atoll.Fork(e.ctx(), sb, "", e.spec())
		e.want(err, atoll.ErrUnsupported, "Fork")
	}
	if !f.Dial {
		_, err := atoll.Dial(e.ctx(), sb, "tcp", "localhost:1")
		e.want(err, atoll.ErrUnsupported, "Dial")
	}
	if !f.Listen {
		_, err := atoll.Listen(e.ctx(), sb, "tcp", "127.0.0.1:0")
		e.want(err, atoll.ErrUnsupported, "Listen")
	}
	if !f.Watch {
		err := atoll.Watch(e.ctx(), sb, "/", func(atoll.FileEvent) error { return nil })
		e.want(err, atoll.ErrUnsupported, "Watch")
	}
	if !f.TTY {
		_, err := sb.Exec(e.ctx(), atoll.Cmd{Args: []string{"true"}, TTY: &atoll.TTY{}})
		e.want(err, atoll.ErrUnsupported, "a terminal")
	}
	if !f.Signals {
		_, err := sb.Exec(e.ctx(), atoll.Cmd{Args: []string{"true"}, Signals: make(chan string)})
		e.want(err, atoll.ErrUnsupported, "signals")
	}
	if !f.Mounts {
		spec := e.spec()
		spec.Mounts = []atoll.Mount{{Source: e.TempDir(), Target: "/mnt"}}
		e.refuses(spec, "a mount")
	}
	if !f.Images {
		spec := e.spec()
		spec.Image = "busybox:latest"
		e.refuses(spec, "an image")
	}
	if !f.Users {
		_, err := sb.Exec(e.ctx(), atoll.Cmd{Args: []string{"true"}, User: "nobody"})
		e.want(err, atoll.ErrUnsupported, "another user")
	}
}

// refuses fails unless Create answers ErrUnsupported.
func (e *env) refuses(spec atoll.Spec, what string) {
	e.Helper()
	sb, err := e.driver.Create(e.ctx(), spec)
	if err == nil {
		_ = sb.Destroy(e.ctx()) // the failure is reported below
	}
	e.want(err, atoll.ErrUnsupported, what)
}
