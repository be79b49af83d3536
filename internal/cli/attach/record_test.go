package attach

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/attach/casttest"
	"github.com/atoll-sandbox/atoll/internal/guest/vt"
)

// idle is a program that only shows what the test has it show.
type idle struct{}

func (idle) Write(p []byte) (int, error) { return len(p), nil }

func (idle) Resize(atoll.Size) {}

func (idle) Kill() {}

// TestRecordingPlaysBack plays a recording again: its screen is the terminal's,
// whatever the pieces that it came in, and after the window has changed.
func TestRecordingPlaysBack(t *testing.T) {
	shared, err := vt.NewTerminal(&atoll.TerminalSpec{Name: "t", Size: atoll.Size{Rows: 10, Cols: 40}}, time.Now, func(*vt.Terminal) (vt.Program, error) { return idle{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	var tape bytes.Buffer
	r := &Recorder{W: &tape}
	ctx, cancel := context.WithCancel(t.Context())
	shows := make(chan int, 1000)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = shared.Attach(ctx, atoll.Attachment{Stdout: counting{r, shows}, OnResize: r.RecordSize, ReadOnly: true}) // it ends by cancel
	}()
	<-shows // the first screen
	for _, b := range []byte("grüße \x1b[31m漢字\x1b[0m 👍\r\n\x1b[2;5Hthere") {
		if _, err := shared.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	resize := make(chan atoll.Size, 1)
	resize <- atoll.Size{Rows: 5, Cols: 20}
	sized := make(chan atoll.Size, 10)
	typist, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = shared.Attach(typist, atoll.Attachment{Stdout: new(bytes.Buffer), Resize: resize, OnResize: func(s atoll.Size) { sized <- s }})
	}()
	for s := range sized {
		if s.Rows == 5 {
			break
		}
	}
	if _, err := shared.Write([]byte("\r\nend")); err != nil {
		t.Fatal(err)
	}
	want := shared.Screen()
	shared.RecordExit(atoll.Exit{}) // what was written before is shown before the end
	<-over
	cancel()
	leave()
	<-left

	if got := casttest.Play(t, tape.String()).Screen(); !reflect.DeepEqual(got.Lines, want.Lines) || got.Size != want.Size || got.Row != want.Row || got.Col != want.Col {
		t.Errorf("played back:\n%+v\nthe terminal:\n%+v\n%s", got, want, tape.String())
	}
	if strings.ContainsRune(tape.String(), '\ufffd') {
		t.Error("a character was broken")
	}
}

// counting tells how much was written.
type counting struct {
	r *Recorder
	n chan int
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.r.Write(p)
	c.n <- n
	return n, err
}
