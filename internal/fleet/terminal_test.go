package fleet

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
)

// TestTerminalRights: the scope read allows looking at terminals but not typing; input
// is not recorded; secrets in commands are hidden.
func TestTerminalRights(t *testing.T) {
	f := openFleet(t, Options{})
	mine := f.Account(LocalCaller())
	ctx := t.Context()
	sb, err := mine.Create(ctx, atoll.Config{Spec: atoll.Spec{Name: "box"}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := sb.OpenTerminal(ctx, atoll.TerminalSpec{Name: "main", Args: []string{"sh", "-c", "echo for hush-hush-42; read x; exit 4"}, Env: []string{"TOKEN=hush-hush-42"}})
	if err != nil || strings.Contains(info.Command, "hush") {
		t.Fatalf("opened: %+v, %v", info, err)
	}
	who := LocalCaller()
	who.Scopes = []atoll.Scope{atoll.ScopeRead}
	reader, err := f.Account(who).Open(ctx, "box")
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"opening": func() error { _, err := reader.OpenTerminal(ctx, atoll.TerminalSpec{}); return err }(),
		"typing":  reader.SendTerminal(ctx, "main", []byte("x")),
		"closing": reader.CloseTerminal(ctx, "main"),
		"attaching": func() error {
			_, err := reader.AttachTerminal(ctx, "main", atoll.Attachment{Stdout: io.Discard})
			return err
		}(),
	} {
		if !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("%s with only the scope read: %v", what, err)
		}
	}
	if _, err := reader.ReadTerminal(ctx, "main"); err != nil {
		t.Errorf("reading: %v", err)
	}
	if list, err := reader.ListTerminals(ctx); err != nil || len(list) != 1 {
		t.Errorf("listing: %+v, %v", list, err)
	}
	watched := make(chan atoll.Exit, 1)
	go func() {
		exit, err := reader.AttachTerminal(ctx, "main", atoll.Attachment{Stdout: io.Discard, ReadOnly: true})
		if err != nil {
			t.Error(err)
		}
		watched <- exit
	}()
	if err := sb.SendTerminal(ctx, "main", []byte("pass-word-7\r")); err != nil {
		t.Error(err)
	}
	if exit := <-watched; exit.Code != 4 {
		t.Errorf("a watching client got %+v", exit)
	}
	if err := sb.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.ReadTerminal(ctx, "main"); !errors.Is(err, atoll.ErrState) {
		t.Errorf("reading while it is paused: %v", err)
	}
	if err := errors.Join(sb.Resume(ctx), sb.CloseTerminal(ctx, "main")); err != nil {
		t.Error(err)
	}
	checkNotRecorded(t, mine, "hush-hush-42", "pass-word-7")
}

// TestViewers: the list of terminals says who is attached, in events too, but not to whom a link was given.
func TestViewers(t *testing.T) {
	f := openFleet(t, Options{})
	mine := f.Account(LocalCaller())
	ctx := t.Context()
	sb, err := mine.Create(ctx, atoll.Config{Spec: atoll.Spec{Name: "box"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sb.OpenTerminal(ctx, atoll.TerminalSpec{Name: "main", Args: []string{"sh", "-c", "echo ready; read x"}}); err != nil {
		t.Fatal(err)
	}
	token := func(k atoll.Token) *Sandbox {
		k.Scopes = []atoll.Scope{atoll.ScopeRead}
		if k, err = mine.CreateToken(ctx, k); err != nil {
			t.Fatal(err)
		}
		who, err := f.Authenticate(ctx, k.Secret)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Account(who).Open(ctx, sb.ID())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	guest := token(atoll.Token{Name: "for-bob", Link: &atoll.Link{Sandbox: sb.ID()}, Expires: f.now().Add(time.Hour)})
	gone := make(chan error, 3)
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	for i, viewer := range []*Sandbox{sb, token(atoll.Token{Name: "laptop"}), guest} { // one after the other
		shown := make(chan struct{}, 1)
		go func() {
			ctx := ctx
			if i == 0 {
				ctx = leaving
			}
			_, err := viewer.AttachTerminal(ctx, "main", atoll.Attachment{ReadOnly: true, Viewer: "the admin", Stdout: writerFunc(func(p []byte) (int, error) {
				select {
				case shown <- struct{}{}:
				default:
				}
				return len(p), nil
			})})
			gone <- err
		}()
		<-shown
	}
	list, err := sb.ListTerminals(ctx)
	want := []atoll.Viewer{{Name: "local", ReadOnly: true}, {Name: "local (laptop)", ReadOnly: true}, {Name: "link of local (for-bob)", ReadOnly: true}}
	if err != nil || len(list) != 1 || !slices.Equal(list[0].Viewers, want) {
		t.Errorf("%+v, %v", list, err)
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	if list, err = guest.ListTerminals(ctx); err != nil || len(list) != 1 || list[0].Clients != 2 || list[0].Viewers != nil {
		t.Errorf("whom a link was given to sees %+v, %v", list, err)
	}
	if err := sb.SendTerminal(ctx, "main", []byte("x\r")); err != nil {
		t.Error(err)
	}
	var events []string
	for range cap(gone) - 1 {
		if err := <-gone; err != nil {
			t.Error(err)
		}
	}
	err = mine.Events(ctx, event.Filter{}, false, func(e atoll.Event) error {
		if strings.HasPrefix(e.Type, "terminal.") && e.Type != "terminal.opened" {
			events = append(events, e.Type+" "+e.Data["viewer"])
		}
		return nil
	})
	slices.Sort(events)
	if err != nil || !slices.Equal(events, []string{
		"terminal.attached link of local (for-bob)", "terminal.attached local", "terminal.attached local (laptop)",
		"terminal.detached link of local (for-bob)", "terminal.detached local", "terminal.detached local (laptop)",
	}) {
		t.Errorf("events %q, %v", events, err)
	}
}

// TestViewersPushNoEventsOut: who attaches and leaves all the time stores a few events only.
func TestViewersPushNoEventsOut(t *testing.T) {
	f := openFleet(t, Options{})
	mine := f.Account(LocalCaller())
	sb := mustCreate(t, mine, atoll.Config{})
	if _, err := sb.OpenTerminal(t.Context(), atoll.TerminalSpec{Name: "main"}); err != nil {
		t.Fatal(err)
	}
	for range 3 * viewerEvents {
		ctx, leave := context.WithCancel(t.Context())
		_, err := sb.AttachTerminal(ctx, "main", atoll.Attachment{ReadOnly: true, Stdout: writerFunc(func(p []byte) (int, error) {
			leave()
			return len(p), nil
		})})
		if leave(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	n := 0
	err := mine.Events(t.Context(), event.Filter{}, false, func(e atoll.Event) error {
		if e.Type == "terminal.attached" || e.Type == "terminal.detached" {
			n++
		}
		return nil
	})
	if err != nil || n < viewerEvents || n > 2*viewerEvents {
		t.Errorf("%d events, %v", n, err)
	}
	must(t, sb.CloseTerminal(t.Context(), "main"))
}

// checkNotRecorded fails the test if events or the audit log contain one of the texts,
// or nothing about terminals.
func checkNotRecorded(t *testing.T, a *Account, texts ...string) {
	t.Helper()
	audit, err := a.Audit(t.Context(), AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range audit {
		all.WriteString(e.Action + " " + e.Detail + "\n")
	}
	err = a.Events(t.Context(), event.Filter{}, false, func(e atoll.Event) error {
		all.WriteString(e.Type + " " + e.Data["terminal"] + " " + e.Data["command"] + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if strings.Contains(all.String(), text) {
			t.Errorf("%q is in a record:\n%s", text, all.String())
		}
	}
	for _, want := range []string{"open terminal", "send to terminal main", "terminal.opened main", "terminal.closed main"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no record of %q:\n%s", want, all.String())
		}
	}
}
