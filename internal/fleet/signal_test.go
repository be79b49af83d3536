package fleet

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// notifyOnText returns a writer that closes a channel when a text was written.
func notifyOnText(text string) (io.Writer, <-chan struct{}) {
	seen := make(chan struct{})
	var mu sync.Mutex
	var all strings.Builder
	return writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		before := strings.Contains(all.String(), text)
		all.Write(b)
		if !before && strings.Contains(all.String(), text) {
			close(seen)
		}
		return len(b), nil
	}), seen
}

func TestSignalsReachAProcess(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	if !sb.driverFeatures().Signals {
		t.Fatal("the virtual driver has no signals")
	}
	mustStart(t, sb, "p", atoll.Cmd{Shell: "trap 'echo caught' USR1; trap 'echo bye; exit 9' TERM; echo up; while :; do :; done", Timeout: -1})
	up, isUp := notifyOnText("up\n")
	caught, isCaught := notifyOnText("caught\n")
	var wg sync.WaitGroup
	for _, w := range []io.Writer{up, caught} {
		wg.Go(func() {
			exit, err := sb.Attach(minuteContext(t), "p", Attachment{Stdout: w})
			if err != nil || exit.Code != 9 {
				t.Errorf("%+v, %v", exit, err)
			}
		})
	}
	<-isUp
	if err := sb.Signal(minuteContext(t), "p", "USR1"); err != nil {
		t.Fatal(err)
	}
	<-isCaught
	if err := sb.Signal(minuteContext(t), "p", "TERM"); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

func TestSignalsOfCallerAndOthers(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	signals := make(chan string)
	out, isUp := notifyOnText("up\n")
	one, isOne := notifyOnText("one\n")
	ended := make(chan atoll.Exit)
	go func() {
		_, exit, err := sb.Run(minuteContext(t), "p", atoll.Cmd{
			Shell: "trap 'echo one' USR1; trap 'exit 4' TERM; echo up; while :; do :; done", Stdout: io.MultiWriter(out, one), Signals: signals,
		})
		if err != nil {
			t.Error(err)
		}
		ended <- exit
	}()
	<-isUp
	signals <- "USR1"
	<-isOne
	if err := sb.Signal(minuteContext(t), "p", "TERM"); err != nil {
		t.Fatal(err)
	}
	if exit := <-ended; exit.Code != 4 {
		t.Errorf("%+v", exit)
	}
}

func TestUnnamedCommandAcceptsOnlyKill(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	out, isUp := notifyOnText("up\n")
	ended := make(chan atoll.Exit)
	go func() {
		exit, err := sb.Exec(minuteContext(t), atoll.Cmd{Shell: "echo up; while :; do :; done", Stdout: out})
		if err != nil {
			t.Error(err)
		}
		ended <- exit
	}()
	<-isUp
	list, err := sb.Processes(t.Context())
	if err != nil || len(list) != 1 || !list[0].Running {
		t.Fatal(list, err)
	}
	if err := sb.Signal(minuteContext(t), list[0].ID, "INT"); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("INT: %v", err)
	}
	if err := sb.Signal(minuteContext(t), list[0].ID, "KILL"); err != nil {
		t.Fatal(err)
	}
	if exit := <-ended; exit.Signal != "KILL" {
		t.Errorf("%+v", exit)
	}
}

func TestAttachedClientResizesTerminal(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	if !sb.driverFeatures().TTY {
		t.Fatal("the virtual driver has no terminals")
	}
	p := mustStart(t, sb, "p", atoll.Cmd{Shell: "stty size; trap 'stty size; exit 0' WINCH; echo up; while :; do :; done", TTY: &atoll.TTY{Size: atoll.Size{Rows: 10, Cols: 20}}, Timeout: -1})
	if !p.TTY {
		t.Errorf("%+v", p)
	}
	resize := make(chan atoll.Size, 1)
	out, isUp := notifyOnText("up\r\n")
	var wg sync.WaitGroup
	wg.Go(func() {
		if exit, err := sb.Attach(minuteContext(t), "p", Attachment{Stdout: out, Resize: resize}); err != nil || exit.Code != 0 {
			t.Errorf("%+v, %v", exit, err)
		}
	})
	<-isUp
	resize <- atoll.Size{Rows: 30, Cols: 40}
	wg.Wait()
	if out, errs, _, _ := attachToEnd(t, sb, "p", Attachment{}); out != "10 20\r\nup\r\n30 40\r\n" || errs != "" {
		t.Errorf("%q, %q", out, errs)
	}
}

func TestADriverWithoutSignalsOrTerminals(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	b := sb.b.driver
	b.mu.Lock()
	b.features.Signals, b.features.TTY = false, false
	b.mu.Unlock()
	mustStart(t, sb, "p", atoll.Cmd{Shell: "cat", Timeout: -1})
	if err := sb.Signal(minuteContext(t), "p", "INT"); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("INT: %v", err)
	}
	if err := sb.Signal(minuteContext(t), "p", "KILL"); err != nil {
		t.Errorf("KILL: %v", err)
	}
	if _, err := sb.StartProcess(t.Context(), "q", atoll.Cmd{Shell: "cat", TTY: &atoll.TTY{}}); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("a terminal: %v", err)
	}
}
