package virtual

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func TestTerminalEndsWithItsSandbox(t *testing.T) {
	d := New()
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	ts := sb.(*Sandbox)
	info, err := ts.OpenTerminal(t.Context(), atoll.TerminalSpec{Args: []string{"sh", "-c", "echo it\\'s here; sleep 60"}})
	if err != nil {
		t.Fatal(err)
	}
	if info.Command != `sh -c 'echo it\'\''s here; sleep 60'` {
		t.Errorf("command %s", info.Command)
	}
	var once sync.Once
	seen := make(chan struct{})
	var exit atoll.Exit
	var wg sync.WaitGroup
	wg.Go(func() {
		exit, err = ts.AttachTerminal(t.Context(), info.Name, atoll.Attachment{Stdout: writer(func(b []byte) {
			if strings.Contains(string(b), "it's here") {
				once.Do(func() { close(seen) })
			}
		})})
	})
	<-seen
	if err := ts.Destroy(context.Background()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err != nil || exit.Code != 137 {
		t.Errorf("the attached client got %+v, %v", exit, err)
	}
}

type writer func(b []byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}
