package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestStartAttached: the first client gets all output, however slowly it reads; the command goes on without
// it; others find it by its number, and its exit after its end.
func TestStartAttached(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	ctx := minuteContext(t)
	var out bytes.Buffer
	p, err := sb.StartAttached(ctx, "", atoll.Cmd{Args: []string{"sh", "-c", "i=0; while [ $i -lt 30000 ]; do echo 0123456789012345678901234567890123456789012345678; i=$((i+1)); done; exit 3"}, Stdout: &out, Stdin: strings.NewReader("")})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Exit(); err != nil || exit.Code != 3 || out.Len() != 30000*50 {
		t.Errorf("%+v, %v, %d bytes", exit, err, out.Len())
	}
	again, err := sb.ProcessByNumber(ctx, p.Number())
	if err != nil || again.ID != p.ID || again.Running || again.Code != 3 || len(again.Args) != 3 {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := sb.ProcessByNumber(ctx, p.Number()+1); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("another number: %v", err)
	}

	client, leave := context.WithCancel(ctx)
	first, w := io.Pipe()
	_, err = sb.StartAttached(client, "named", atoll.Cmd{Args: []string{"sh", "-c", "echo one; read x; echo got $x"}, Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(first, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	leave()
	_ = first.Close()
	if err := sb.WriteInput(ctx, "named", []byte("two\n")); err != nil {
		t.Fatal(err)
	}
	var kept bytes.Buffer
	exit, err := sb.Attach(ctx, "named", Attachment{Stdout: &kept})
	if err != nil || exit.Code != 0 || kept.String() != "one\ngot two\n" {
		t.Errorf("%+v, %v, %q", exit, err, &kept)
	}
	if err := sb.WriteInput(ctx, "named", nil); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("input after its end: %v", err)
	}
	if err := sb.Resize(ctx, "named", atoll.Size{}); !errors.Is(err, atoll.ErrState) {
		t.Errorf("resize without a terminal: %v", err)
	}
	p, err = sb.StartAttached(ctx, "", atoll.Cmd{Args: []string{"cat"}, Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := sb.CloseInput(ctx, p.ID); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Exit(); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
}
