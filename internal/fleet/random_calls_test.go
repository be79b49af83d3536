package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// modelSandbox is a sandbox in the model.
type modelSandbox struct {
	id, name string
	owner    int
	state    atoll.State
	memory   int64
}

// fleetModel is a fleet that two processes have open, and its model.
type fleetModel struct {
	home   string
	driver *virtual.Driver
	fleets []*Fleet
	owners []Caller
	quota  atoll.Quota
	all    []*modelSandbox
}

const (
	worldSandboxes = 3
	worldMemory    = 8 << 20
)

func newFleetModel(t *rapid.T, home string) *fleetModel {
	w := &fleetModel{home: home, quota: atoll.Quota{Sandboxes: worldSandboxes, Memory: worldMemory}}
	for _, user := range []string{"ann", "bob"} {
		w.owners = append(w.owners, Caller{Owner: atoll.Owner{App: "model", User: user}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	}
	w.fleets = []*Fleet{w.openProcess(t), w.openProcess(t)}
	w.driver = &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}
	return w
}

func (w *fleetModel) openProcess(t *rapid.T) *Fleet {
	f, err := Open(context.Background(), withPostgres(Options{
		Home: w.home, Quota: w.quota, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(w.home, "sandboxes")}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (w *fleetModel) closeProcess(t *rapid.T) {
	for _, f := range w.fleets {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// pickOwner returns a random owner with an account of a random process.
func (w *fleetModel) pickOwner(t *rapid.T) (int, *Account) {
	o := rapid.IntRange(0, len(w.owners)-1).Draw(t, "owner")
	f := rapid.IntRange(0, len(w.fleets)-1).Draw(t, "process")
	return o, w.fleets[f].Account(w.owners[o])
}

// pickSandbox returns a random sandbox, destroyed or not; nil if there is none.
func (w *fleetModel) pickSandbox(t *rapid.T) *modelSandbox {
	if len(w.all) == 0 {
		t.Skip("there is no sandbox")
	}
	return rapid.SampledFrom(w.all).Draw(t, "sandbox")
}

// fitsQuota reports whether an owner's quota allows more sandboxes and this much
// memory.
func (w *fleetModel) fitsQuota(owner int, memory int64, more int) bool {
	n, m := more, memory
	for _, s := range w.all {
		if s.owner == owner && s.state != atoll.Destroyed {
			n++
			if s.state == atoll.Running || s.state == atoll.Paused {
				m += s.memory
			}
		}
	}
	return n <= worldSandboxes && m <= worldMemory
}

func (w *fleetModel) hasName(owner int, name string) bool {
	return name != "" && slices.ContainsFunc(w.all, func(s *modelSandbox) bool { return s.owner == owner && s.name == name && s.state != atoll.Destroyed })
}

// expectError fails the test unless err is one of the expected errors, which may
// include nil.
func expectError(t *rapid.T, what string, err error, right ...error) {
	t.Helper()
	for _, r := range right {
		if r == nil && err == nil || r != nil && errors.Is(err, r) {
			return
		}
	}
	t.Fatalf("%s: %v; want one of %v", what, err, right)
}

func (w *fleetModel) create(t *rapid.T) {
	o, a := w.pickOwner(t)
	s := &modelSandbox{owner: o, state: atoll.Running}
	s.name = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "name")
	s.memory = rapid.SampledFrom([]int64{1 << 20, 4 << 20}).Draw(t, "memory")
	sb, err := a.Create(context.Background(), atoll.Config{Spec: atoll.Spec{Name: s.name, Limits: atoll.Resources{Memory: s.memory}}})
	w.addCreated(t, "create", s, sb, err)
}

// addCreated adds a new sandbox to the model, or checks the error of its creation.
func (w *fleetModel) addCreated(t *rapid.T, what string, s *modelSandbox, sb atoll.Sandbox, err error) {
	var right []error
	if w.hasName(s.owner, s.name) {
		right = append(right, atoll.ErrExists)
	}
	if !w.fitsQuota(s.owner, s.memory, 1) {
		right = append(right, atoll.ErrQuota)
	}
	if len(right) == 0 {
		right = append(right, nil)
	}
	expectError(t, what, err, right...)
	if err == nil {
		s.id = sb.ID()
		w.all = append(w.all, s)
	}
}

func (w *fleetModel) fork(t *rapid.T) {
	o, a := w.pickOwner(t)
	from := w.pickSandbox(t)
	sb, err := a.Open(context.Background(), from.id)
	if from.owner != o || from.state == atoll.Destroyed {
		expectError(t, "open", err, atoll.ErrNotFound)
		return
	}
	expectError(t, "open", err, nil)
	s := &modelSandbox{owner: o, state: atoll.Running, memory: from.memory}
	s.name = rapid.SampledFrom([]string{"", "x", "z"}).Draw(t, "name")
	fork, err := sb.Fork(context.Background(), "", atoll.Spec{Name: s.name})
	w.addCreated(t, "fork", s, fork, err)
}

// newAction returns an action on a random sandbox by one of the owners and processes.
func (w *fleetModel) newAction(what string, from []atoll.State, to atoll.State, do func(*Sandbox) error) func(*rapid.T) {
	return func(t *rapid.T) {
		o, a := w.pickOwner(t)
		s := w.pickSandbox(t)
		sb, err := a.Open(context.Background(), s.id)
		if s.owner != o || s.state == atoll.Destroyed {
			expectError(t, "open", err, atoll.ErrNotFound)
			return
		}
		expectError(t, "open", err, nil)
		err = do(sb)
		switch {
		case s.state == to:
			expectError(t, what, err, nil)
		case !slices.Contains(from, s.state):
			expectError(t, what+" of one that is "+string(s.state), err, atoll.ErrState)
		case what == "start" && !w.fitsQuota(o, s.memory, 0):
			expectError(t, what, err, atoll.ErrQuota)
		default:
			expectError(t, what, err, nil)
			s.state = to
		}
	}
}

func (w *fleetModel) exec(t *rapid.T) {
	o, a := w.pickOwner(t)
	s := w.pickSandbox(t)
	sb, err := a.Open(context.Background(), s.id)
	if s.owner != o || s.state == atoll.Destroyed {
		expectError(t, "open", err, atoll.ErrNotFound)
		return
	}
	expectError(t, "open", err, nil)
	if err := sb.f.refreshIfStale(context.Background()); err != nil {
		t.Fatal(err)
	}
	exit, err := sb.Exec(context.Background(), atoll.Cmd{Shell: "echo hi"})
	if s.state != atoll.Running {
		expectError(t, "exec in one that is "+string(s.state), err, atoll.ErrState)
	} else if err != nil || string(exit.Stdout) != "hi\n" {
		t.Fatalf("exec: %q, %v", exit.Stdout, err)
	}
}

func (w *fleetModel) update(t *rapid.T) {
	o, a := w.pickOwner(t)
	s := w.pickSandbox(t)
	name := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name")
	_, err := a.Update(context.Background(), s.id, Change{Name: &name})
	switch {
	case s.owner != o || s.state == atoll.Destroyed:
		expectError(t, "update", err, atoll.ErrNotFound)
	case s.name != name && w.hasName(o, name):
		expectError(t, "update", err, atoll.ErrExists)
	default:
		expectError(t, "update", err, nil)
		s.name = name
	}
}

// restart closes one process and opens another.
func (w *fleetModel) restart(t *rapid.T) {
	i := rapid.IntRange(0, len(w.fleets)-1).Draw(t, "process")
	if err := w.fleets[i].Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.fleets[i] = w.openProcess(t)
}

func (w *fleetModel) reconcile(t *rapid.T) {
	if err := w.fleets[0].Reconcile(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// check compares the model with both processes and the driver.
func (w *fleetModel) check(t *rapid.T) {
	want := make(map[string]string)
	exist := make(map[string]bool)
	for _, s := range w.all {
		want[s.id] = fmt.Sprintf("%s %q %s", w.owners[s.owner].Owner, s.name, s.state)
		exist[s.id] = s.state != atoll.Destroyed
	}
	for _, f := range w.fleets {
		admin := f.Account(LocalCaller())
		list, err := admin.List(context.Background(), Filter{All: true, AllOwners: true})
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, i := range list {
			if _, ok := want[i.ID]; ok || i.State != atoll.Destroyed { // failed creates are remembered as destroyed
				got[i.ID] = fmt.Sprintf("%s %q %s", i.Owner, i.Name, i.State)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("the registry has %v, the model %v", got, want)
		}
		for id, s := range want {
			if got[id] != s {
				t.Fatalf("the registry has %q for %s, the model %q", got[id], id, s)
			}
		}
	}
	there, err := w.driver.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, st := range there {
		if !exist[st.ID] {
			t.Fatalf("the driver has an orphan: %+v", st)
		}
		n++
	}
	for id, is := range exist {
		if is {
			n--
			if !slices.ContainsFunc(there, func(s atoll.Status) bool { return s.ID == id }) {
				t.Fatalf("the driver has lost %s", id)
			}
		}
	}
	if n != 0 {
		t.Fatalf("the driver has %d sandboxes too many", n)
	}
}

// TestModel makes random calls as several owners through two processes, and compares
// the fleet with the model.
func TestModel(t *testing.T) {
	rapidtest.Check(t, func(rt *rapid.T) {
		w := newFleetModel(rt, t.TempDir())
		defer w.closeProcess(rt)
		ctx := context.Background()
		rt.Repeat(map[string]func(*rapid.T){
			"create":    w.create,
			"create2":   w.create,
			"fork":      w.fork,
			"exec":      w.exec,
			"stop":      w.newAction("stop", []atoll.State{atoll.Running, atoll.Paused}, atoll.Stopped, func(s *Sandbox) error { return s.Stop(ctx) }),
			"start":     w.newAction("start", []atoll.State{atoll.Stopped}, atoll.Running, func(s *Sandbox) error { return s.Start(ctx) }),
			"destroy":   w.newAction("destroy", states, atoll.Destroyed, func(s *Sandbox) error { return s.Destroy(ctx) }),
			"update":    w.update,
			"restart":   w.restart,
			"reconcile": w.reconcile,
			"":          w.check,
		})
	})
}
