package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestDetachedOutlivesTheFleet: a detached command outlives the fleet. The next fleet
// finds it by its ID, with its output, and records its end once.
func TestDetachedOutlivesTheFleet(t *testing.T) {
	home := t.TempDir()
	d := newDetachingDriver(home + "/sandboxes")
	open := func() (*Fleet, *Account) {
		f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
		return f, f.Account(LocalCaller())
	}
	f, a := open()
	sb := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "box"}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}})
	p, err := sb.StartProcess(t.Context(), "work", atoll.Cmd{Shell: "echo one; read x; echo two $x; exit 3", Env: []string{"MY_TOKEN=hunter22"}, Timeout: -1})
	if err != nil || p.ID != "work" || !p.Detached || !p.Running {
		t.Fatalf("%+v, %v", p, err)
	}
	testenv.WaitFor(t, "its output", func() bool {
		now, err := sb.Process(t.Context(), "work")
		return err == nil && now.Output == int64(len("one\n"))
	})
	closeFleet(t, f)

	f, a = open()
	if sb, err = a.Open(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	list, err := sb.Processes(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != "work" || !list[0].Running {
		t.Fatalf("after the fleet's end: %+v, %v", list, err)
	}
	if now, err := sb.Process(t.Context(), "work"); err != nil || now.Output != int64(len("one\n")) {
		t.Errorf("what it has written is not there at once: %+v, %v", now, err)
	}
	var out lockedBuffer
	exit, err := sb.Attach(t.Context(), "work", Attachment{Stdout: &out, Stdin: strings.NewReader("x\n")})
	if err != nil || exit.Code != 3 || out.String() != "one\ntwo x\n" {
		t.Errorf("attach: %+v, %v, %q", exit, err, out.String())
	}
	if now, err := sb.Process(t.Context(), "work"); err != nil || now.Running || now.Code != 3 {
		t.Errorf("after its end: %+v, %v", now, err)
	}
	closeFleet(t, f)

	_, a = open()
	if sb, err = a.Open(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if now, err := sb.Process(t.Context(), "work"); err != nil || now.Running || now.Code != 3 {
		t.Errorf("a third fleet: %+v, %v", now, err)
	}
	hist, err := sb.History(t.Context())
	if err != nil || len(hist) != 1 || hist[0].ExitCode != 3 || hist[0].Stdout != "one\ntwo x\n" {
		t.Errorf("history: %+v, %v", hist, err)
	}
	exits := 0
	err = a.Events(t.Context(), event.Filter{Types: []string{"process.exited"}}, false, func(e atoll.Event) error {
		exits++
		if e.Data["process"] != "work" || e.Data["code"] != "3" {
			t.Errorf("event %+v", e)
		}
		return nil
	})
	if err != nil || exits != 1 {
		t.Errorf("its end was reported %d times, %v", exits, err)
	}
}

// TestDetachedIsKilled: KILL ends a detached command and is its result, whichever
// process sends it.
func TestDetachedIsKilled(t *testing.T) {
	home := t.TempDir()
	d := newDetachingDriver(home + "/sandboxes")
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	a := f.Account(LocalCaller())
	sb := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "box"}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}})
	p, err := sb.StartProcess(t.Context(), "", atoll.Cmd{Shell: "sleep 1000", Timeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	closeFleet(t, f)
	f = openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	if sb, err = f.Account(LocalCaller()).Open(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if err := sb.Signal(t.Context(), p.ID, "KILL"); err != nil {
		t.Fatal(err)
	}
	now, err := sb.Process(t.Context(), p.ID)
	if err != nil || now.Running || now.Signal != "KILL" || now.Error != "" {
		t.Errorf("after KILL: %+v, %v", now, err)
	}
	if err := sb.Signal(t.Context(), p.ID, "KILL"); !errors.Is(err, atoll.ErrState) {
		t.Errorf("KILL of one that has ended: %v", err)
	}
	if err := sb.Signal(t.Context(), "none", "KILL"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("KILL of none: %v", err)
	}
}

// TestDetachedEndsWithStop: Stop ends detached commands, and their end is recorded.
func TestDetachedEndsWithStop(t *testing.T) {
	home := t.TempDir()
	d := newDetachingDriver(home + "/sandboxes")
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	if _, err := sb.StartProcess(t.Context(), "work", atoll.Cmd{Shell: "sleep 1000", Timeout: -1}); err != nil {
		t.Fatal(err)
	}
	if err := sb.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := sb.Process(t.Context(), "work")
	if err != nil || p.Running || p.Error == "" {
		t.Errorf("after Stop: %+v, %v", p, err)
	}
	hist, err := sb.History(t.Context())
	if err != nil || len(hist) != 1 || hist[0].ExitCode != 137 {
		t.Errorf("history: %+v, %v", hist, err)
	}
}
