package guest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// beats returns how often the heart of a box has beaten.
func beats(t *testing.T, b *box) int {
	t.Helper()
	text, err := atoll.ReadFile(t.Context(), b, "/tmp/beat")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "x")
}

// TestStill stops commands where they are, as long as somebody wants it.
func TestStill(t *testing.T) {
	testenv.Real(t, "namespace")
	if os.Getuid() != 0 {
		missing(t, "root")
	}
	if unified() == "" {
		missing(t, "a hierarchy of cgroups, version 2")
	}
	m := machines()["cgroup"]
	m.made = make(map[string]*box)
	sb, err := m.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	b := sb.(*box) //nolint:forcetypeassert // the test's own
	defer func() {
		if err := b.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if _, err := b.Detach(t.Context(), atoll.Cmd{Shell: "while :; do echo x >> /tmp/beat; sleep 0.01; done"}); err != nil {
		t.Fatal(err)
	}
	goesOn := func(after string) {
		t.Helper()
		if _, err := b.Exec(t.Context(), atoll.Cmd{Shell: "n=$(wc -c < /tmp/beat); until [ $(wc -c < /tmp/beat) -gt $n ]; do :; done", Timeout: time.Minute}); err != nil {
			t.Errorf("%s: %v", after, err)
		}
	}
	stands := func(while string) {
		t.Helper()
		before := beats(t, b)
		events, err := os.ReadFile(filepath.Join(b.cgroup.Name(), "cgroup.events"))
		if text := string(events); err != nil || !strings.Contains(text, "populated 1\n") || !strings.Contains(text, "frozen 1\n") {
			t.Errorf("%s: the kernel reports %q, %v", while, text, err)
		}
		if after := beats(t, b); after != before {
			t.Errorf("%s: %d beats, then %d", while, before, after)
		}
	}
	if _, err := b.Exec(t.Context(), atoll.Cmd{Shell: "until [ -s /tmp/beat ]; do :; done", Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	fault := errors.New("as it was")
	err = b.RunFrozen(t.Context(), nil, func() error {
		stands("while it is still")
		return fault
	})
	if !errors.Is(err, fault) {
		t.Errorf("Still: %v", err)
	}
	goesOn("after Still")
	_ = b.RunFrozen(t.Context(), nil, func() error { // it may report that its connection has ended
		stands("before the connection ends")
		b.Disconnect() // as the end of the host's process does
		goesOn("after the connection has ended")
		return nil
	})
	for range 2 {
		if err := b.Pause(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	stands("paused")
	if err := b.RunFrozen(t.Context(), nil, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	stands("paused still")
	b.Disconnect()
	stands("paused, and connected anew")
	if err := b.Pause(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	goesOn("after Pause")
	if err := b.RunFrozen(t.Context(), []string{"/no-such-directory"}, func() error { t.Error("called"); return nil }); err == nil {
		t.Error("a directory that is not there stands still")
	}
	goesOn("after a Still that failed")
}
