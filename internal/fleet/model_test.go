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
)

// theirs is a sandbox as the model knows it.
type theirs struct {
	id, name string
	owner    int
	state    atoll.State
	memory   int64
}

// world is a fleet, as two processes see it, and the model of it.
type world struct {
	home   string
	driver *virtual.Driver
	fleets []*Fleet
	owners []Caller
	quota  atoll.Quota
	all    []*theirs
}

const (
	worldSandboxes = 3
	worldMemory    = 8 << 20
)

func newWorld(t *rapid.T, home string) *world {
	w := &world{home: home, quota: atoll.Quota{Sandboxes: worldSandboxes, Memory: worldMemory}}
	for _, user := range []string{"ann", "bob"} {
		w.owners = append(w.owners, Caller{Owner: atoll.Owner{App: "model", User: user}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	}
	w.fleets = []*Fleet{w.open(t), w.open(t)}
	w.driver = &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}
	return w
}

func (w *world) open(t *rapid.T) *Fleet {
	f, err := Open(context.Background(), placed(Options{
		Home: w.home, Quota: w.quota, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(w.home, "sandboxes")}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (w *world) close(t *rapid.T) {
	for _, f := range w.fleets {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// someone is one of the owners, at one of the processes.
func (w *world) someone(t *rapid.T) (int, *Account) {
	o := rapid.IntRange(0, len(w.owners)-1).Draw(t, "owner")
	f := rapid.IntRange(0, len(w.fleets)-1).Draw(t, "process")
	return o, w.fleets[f].For(w.owners[o])
}

// one is a sandbox that is not destroyed, or was; nil if there is none.
func (w *world) one(t *rapid.T) *theirs {
	if len(w.all) == 0 {
		t.Skip("there is no sandbox")
	}
	return rapid.SampledFrom(w.all).Draw(t, "sandbox")
}

// room says whether an owner's quota allows a sandbox of so much memory, as one
// more or not.
func (w *world) room(owner int, memory int64, more int) bool {
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

func (w *world) named(owner int, name string) bool {
	return name != "" && slices.ContainsFunc(w.all, func(s *theirs) bool { return s.owner == owner && s.name == name && s.state != atoll.Destroyed })
}

// expect fails unless err is one of those that are right; nil is one of them if
// it is in the list.
func expect(t *rapid.T, what string, err error, right ...error) {
	t.Helper()
	for _, r := range right {
		if r == nil && err == nil || r != nil && errors.Is(err, r) {
			return
		}
	}
	t.Fatalf("%s: %v; want one of %v", what, err, right)
}

func (w *world) create(t *rapid.T) {
	o, a := w.someone(t)
	s := &theirs{owner: o, state: atoll.Running}
	s.name = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "name")
	s.memory = rapid.SampledFrom([]int64{1 << 20, 4 << 20}).Draw(t, "memory")
	sb, err := a.Create(context.Background(), atoll.Config{Spec: atoll.Spec{Name: s.name, Limits: atoll.Resources{Memory: s.memory}}})
	w.made(t, "create", s, sb, err)
}

// made takes a new sandbox into the model, or checks why there is none.
func (w *world) made(t *rapid.T, what string, s *theirs, sb atoll.Sandbox, err error) {
	var right []error
	if w.named(s.owner, s.name) {
		right = append(right, atoll.ErrExists)
	}
	if !w.room(s.owner, s.memory, 1) {
		right = append(right, atoll.ErrQuota)
	}
	if len(right) == 0 {
		right = append(right, nil)
	}
	expect(t, what, err, right...)
	if err == nil {
		s.id = sb.ID()
		w.all = append(w.all, s)
	}
}

func (w *world) fork(t *rapid.T) {
	o, a := w.someone(t)
	from := w.one(t)
	sb, err := a.Open(context.Background(), from.id)
	if from.owner != o || from.state == atoll.Destroyed {
		expect(t, "open", err, atoll.ErrNotFound)
		return
	}
	expect(t, "open", err, nil)
	s := &theirs{owner: o, state: atoll.Running, memory: from.memory}
	s.name = rapid.SampledFrom([]string{"", "x", "z"}).Draw(t, "name")
	fork, err := sb.Fork(context.Background(), "", atoll.Spec{Name: s.name})
	w.made(t, "fork", s, fork, err)
}

// act does something to a sandbox through one of the processes, as one of the
// owners.
func (w *world) act(what string, from []atoll.State, to atoll.State, do func(*Sandbox) error) func(*rapid.T) {
	return func(t *rapid.T) {
		o, a := w.someone(t)
		s := w.one(t)
		sb, err := a.Open(context.Background(), s.id)
		if s.owner != o || s.state == atoll.Destroyed {
			expect(t, "open", err, atoll.ErrNotFound)
			return
		}
		expect(t, "open", err, nil)
		err = do(sb)
		switch {
		case s.state == to:
			expect(t, what, err, nil)
		case !slices.Contains(from, s.state):
			expect(t, what+" of one that is "+string(s.state), err, atoll.ErrState)
		case what == "start" && !w.room(o, s.memory, 0):
			expect(t, what, err, atoll.ErrQuota)
		default:
			expect(t, what, err, nil)
			s.state = to
		}
	}
}

func (w *world) exec(t *rapid.T) {
	o, a := w.someone(t)
	s := w.one(t)
	sb, err := a.Open(context.Background(), s.id)
	if s.owner != o || s.state == atoll.Destroyed {
		expect(t, "open", err, atoll.ErrNotFound)
		return
	}
	expect(t, "open", err, nil)
	if err := sb.f.refreshIfStale(context.Background()); err != nil {
		t.Fatal(err)
	}
	exit, err := sb.Exec(context.Background(), atoll.Cmd{Shell: "echo hi"})
	if s.state != atoll.Running {
		expect(t, "exec in one that is "+string(s.state), err, atoll.ErrState)
	} else if err != nil || string(exit.Stdout) != "hi\n" {
		t.Fatalf("exec: %q, %v", exit.Stdout, err)
	}
}

func (w *world) update(t *rapid.T) {
	o, a := w.someone(t)
	s := w.one(t)
	name := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name")
	_, err := a.Update(context.Background(), s.id, Change{Name: &name})
	switch {
	case s.owner != o || s.state == atoll.Destroyed:
		expect(t, "update", err, atoll.ErrNotFound)
	case s.name != name && w.named(o, name):
		expect(t, "update", err, atoll.ErrExists)
	default:
		expect(t, "update", err, nil)
		s.name = name
	}
}

// restart closes one process and begins another.
func (w *world) restart(t *rapid.T) {
	i := rapid.IntRange(0, len(w.fleets)-1).Draw(t, "process")
	if err := w.fleets[i].Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.fleets[i] = w.open(t)
}

func (w *world) reconcile(t *rapid.T) {
	if err := w.fleets[0].Reconcile(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// check compares the model with what both processes and the driver say.
func (w *world) check(t *rapid.T) {
	want := make(map[string]string)
	exist := make(map[string]bool)
	for _, s := range w.all {
		want[s.id] = fmt.Sprintf("%s %q %s", w.owners[s.owner].Owner, s.name, s.state)
		exist[s.id] = s.state != atoll.Destroyed
	}
	for _, f := range w.fleets {
		admin := f.For(LocalCaller())
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
				t.Fatalf("the registry says %q of %s, the model %q", got[id], id, s)
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

// TestModel does many random things, by several owners through two processes,
// and checks that the fleet is what the model says.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t.TempDir())
		defer w.close(rt)
		ctx := context.Background()
		rt.Repeat(map[string]func(*rapid.T){
			"create":    w.create,
			"create2":   w.create,
			"fork":      w.fork,
			"exec":      w.exec,
			"stop":      w.act("stop", []atoll.State{atoll.Running, atoll.Paused}, atoll.Stopped, func(s *Sandbox) error { return s.Stop(ctx) }),
			"start":     w.act("start", []atoll.State{atoll.Stopped}, atoll.Running, func(s *Sandbox) error { return s.Start(ctx) }),
			"destroy":   w.act("destroy", states, atoll.Destroyed, func(s *Sandbox) error { return s.Destroy(ctx) }),
			"update":    w.update,
			"restart":   w.restart,
			"reconcile": w.reconcile,
			"":          w.check,
		})
	})
}
