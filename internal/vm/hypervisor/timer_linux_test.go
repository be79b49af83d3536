package hypervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/vm/timer"
	"github.com/atoll-sandbox/atoll/internal/vm/virtiofs"
)

// TestVMWithWrongTimerBootsAgain checks how often a VM boots whose kernel measures its timer wrongly a number of times: not for ever.
func TestVMWithWrongTimerBootsAgain(t *testing.T) {
	for _, c := range []struct {
		wrong, boots int
		ok           bool
	}{{0, 1, true}, {maxBoots - 1, maxBoots, true}, {maxBoots, maxBoots, false}} {
		n := 0
		boot := func() error {
			if n++; n <= c.wrong {
				return &timerError{atoll.ErrUnavailable}
			}
			return nil
		}
		cleaned := 0
		_, err := repeatBoot(t.Context(), maxBoots, func() (*launchedMonitor, error) { return nil, boot() }, func() error { cleaned++; return nil })
		if (err == nil) != c.ok || n != c.boots || cleaned != c.boots-1 || err != nil && !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("%d wrong timers: %d boots, %d times cleaned, %v", c.wrong, n, cleaned, err)
		}
	}
}

// TestWrongTimerIsTheReason boots a VM whose guest says that its timer is wrong: the error says so after several boots, that of a
// template, too. Its share is served for each boot.
func TestWrongTimerIsTheReason(t *testing.T) {
	c := vmConfig(t)
	c.Append, c.boots = "test=timer", 2
	program, err := virtiofs.Find9PHelper()
	if err != nil {
		testenv.Skip(t, "qemu", "%v", err)
	}
	served := 0
	c.Shares = []Share{{Tag: "files", Proto: Plan9, Serve: func(ctx context.Context) (*os.File, error) {
		served++
		return virtiofs.Serve(ctx, virtiofs.Share{Helper: c.Helper, Program: program, Dir: t.TempDir(), User: 1000, Nobody: 1_700_000_123})
	}}}
	_, err = Start(t.Context(), c)
	if served != c.boots {
		t.Errorf("the share was served %d times, want %d", served, c.boots)
	}
	c.Shares, c.boots = nil, 1
	var fault *timerError
	if !errors.As(err, &fault) || !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), timer.Fault) {
		t.Errorf("%v", err)
	}
	b, err := os.ReadFile(filepath.Join(c.Dir, BootLog))
	if err != nil || !strings.Contains(string(b), timer.Fault) {
		t.Errorf("%v: %s", err, b)
	}
	if end, err := LastEnd(c.Dir); err != nil || end.Reason != ByTimer {
		t.Errorf("%+v, %v", end, err)
	}
	home := t.TempDir()
	if err := SaveTemplate(t.Context(), c, filepath.Join(home, "template")); !errors.As(err, &fault) {
		t.Errorf("as a template: %v", err)
	}
	if list, err := os.ReadDir(home); err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}
