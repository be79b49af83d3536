package fleet

import (
	"errors"
	"io"
	"strings"
	"testing"

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
