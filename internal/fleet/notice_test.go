package fleet

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
)

// runLeader runs the tasks of a leading process until the test ends.
func runLeader(t *testing.T, f *Fleet) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// errSeen ends following events.
var errSeen = errors.New("seen")

// waitForEvent waits for an event for which is returns true.
func waitForEvent(t *testing.T, a *Account, filter event.Filter, is func(atoll.Event) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := a.Events(ctx, filter, true, func(e atoll.Event) error {
		if is(e) {
			return errSeen
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		t.Fatalf("the event of %v never came: %v", filter.Types, err)
	}
}

// waitForListener waits until the fleet listens to the notices of a sandbox.
func waitForListener(t *testing.T, r *lastingState) {
	t.Helper()
	waitFor(t, "the fleet listens", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.listeners) > 0
	})
}

// TestNoticesBecomeEvents: notices of a sandbox become events, with a limit, and
// running programs keep the sandbox in use.
func TestNoticesBecomeEvents(t *testing.T) {
	home := t.TempDir()
	d := newDetachingDriver(home + "/sandboxes")
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	runLeader(t, f)
	a := f.Account(LocalCaller())
	sb := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "box"}, Secrets: map[string]string{"S": "sesame-open"}})
	r := d.stateOf(sb.ID())
	waitForListener(t, r)
	r.notifyListeners(atoll.Notice{Kind: atoll.NoticePortOpened, Port: 8080, Address: "127.0.0.1", Command: "serve"})
	waitForEvent(t, a, event.Filter{Types: []string{"sandbox.port.opened"}}, func(e atoll.Event) bool {
		return e.Object == sb.ID() && e.Data["port"] == "8080" && e.Data["address"] == "127.0.0.1" && e.Data["command"] == "serve"
	})
	r.notifyListeners(atoll.Notice{Kind: atoll.NoticeDenied, Message: "sesame-open.example.com is not allowed"})
	waitForEvent(t, a, event.Filter{Types: []string{"network.denied"}}, func(e atoll.Event) bool { return e.Message == "***.example.com is not allowed" })

	for range 900 {
		r.notifyListeners(atoll.Notice{Kind: atoll.NoticeDenied, Message: "flood"})
	}
	r.notifyListeners(atoll.Notice{Kind: atoll.NoticeActive})
	waitFor(t, "the sandbox is in use", func() bool { return reportsActivity(sb.b) })
	n := 0
	if err := a.Events(t.Context(), event.Filter{Types: []string{"network.denied"}}, false, func(atoll.Event) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	if n < 10 || n > 300 {
		t.Errorf("%d events of 901 notices", n)
	}
	if at := sb.b.lastActive(f.now().Add(time.Hour)); !at.Equal(at.UTC()) || at.Before(f.now().Add(time.Minute)) {
		t.Errorf("while something runs inside, it was last active at %v", at)
	}
}

func reportsActivity(b *handle) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.busyInside
}

// TestNoticeOfAProcess: the end of a command is reported and recorded even if no
// server is connected to the command.
func TestNoticeOfAProcess(t *testing.T) {
	home := t.TempDir()
	d := newDetachingDriver(home + "/sandboxes")
	f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Spec: atoll.Spec{Name: "box"}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}})
	p, err := sb.StartProcess(t.Context(), "", atoll.Cmd{Shell: "read x; echo $x; exit 7", Timeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	closeFleet(t, f)
	f = openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
	runLeader(t, f)
	a := f.Account(LocalCaller())
	if sb, err = a.Open(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	r := d.stateOf(sb.ID())
	waitForListener(t, r)
	if _, err := r.detached[0].in.Write([]byte("late\n")); err != nil {
		t.Fatal(err)
	}
	waitForEvent(t, a, event.Filter{Types: []string{"process.exited"}}, func(e atoll.Event) bool {
		return e.Data["process"] == p.ID && e.Data["code"] == strconv.Itoa(7)
	})
	if exit, err := sb.Attach(t.Context(), p.ID, Attachment{}); err != nil || exit.Code != 7 { // its end is behind it then
		t.Errorf("attach: %+v, %v", exit, err)
	}
	hist, err := sb.History(t.Context())
	if err != nil || len(hist) != 1 || hist[0].Stdout != "late\n" {
		t.Errorf("history: %+v, %v", hist, err)
	}
}
