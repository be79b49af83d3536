package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// restartingDriver is the virtual driver of an engine that is being restarted: its first opens fail. Its
// sandboxes continue any command, by ending it with status 7.
type restartingDriver struct {
	*virtual.Driver

	failures atomic.Int64 // of Open
	err      error
}

func (d *restartingDriver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	if d.failures.Add(-1) >= 0 {
		return nil, fmt.Errorf("the engine is being restarted: %w", d.err)
	}
	sb, err := d.Driver.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	return &resumingSandbox{sb.(*virtual.Sandbox)}, nil
}

// OpenOwned is Open: that of the virtual driver would open a sandbox without this driver's changes.
func (d *restartingDriver) OpenOwned(ctx context.Context, id string, _ atoll.Owner) (atoll.Sandbox, error) {
	return d.Open(ctx, id)
}

type resumingSandbox struct{ *virtual.Sandbox }

func (s *resumingSandbox) ResumeExec(context.Context, atoll.Cmd, atoll.Resumption) (atoll.Exit, error) {
	return atoll.Exit{Code: 7}, nil
}

// TestResumeWaitsForDriver: a command is continued when the driver can open its sandbox again, and not if the sandbox
// is gone.
func TestResumeWaitsForDriver(t *testing.T) {
	for _, test := range []struct {
		failure error
		times   int64
		want    error
	}{
		{atoll.ErrUnavailable, 3, nil},
		{atoll.ErrDenied, 2, nil}, // an API server that has not read its rules yet
		{atoll.ErrUnsupported, 3, atoll.ErrUnsupported},
	} {
		d := &restartingDriver{Driver: &virtual.Driver{Dir: t.TempDir()}, err: test.failure}
		home := t.TempDir()
		first := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
		id := mustCreate(t, first.Account(LocalCaller()), atoll.Config{}).ID()
		second := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
		d.failures.Store(test.times)
		sb, err := second.Account(LocalCaller()).Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		exit, err := sb.ResumeExec(t.Context(), atoll.Cmd{ID: "c1", Args: []string{"true"}}, atoll.Resumption{})
		if !errors.Is(err, test.want) || err == nil && exit.Code != 7 {
			t.Errorf("after %d times %v: %+v, %v", test.times, test.failure, exit, err)
		}
	}
}

// TestResumeLeavesOthersAlone: a process that was not started to be continued is not taken from its caller.
func TestResumeLeavesOthersAlone(t *testing.T) {
	f := openFleet(t, Options{Drivers: []atoll.Driver{&virtual.Driver{Dir: t.TempDir()}}})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	in, w := io.Pipe()
	started := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		_, exit, err := sb.Run(t.Context(), "p1", atoll.Cmd{Shell: "echo; cat", Stdin: in, Stdout: signalWriter(started)})
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("status %d", exit.Code)
		}
		ended <- err
	}()
	<-started
	if _, err := sb.ResumeExec(t.Context(), atoll.Cmd{ID: "p1", Args: []string{"cat"}}, atoll.Resumption{}); !errors.Is(err, atoll.ErrState) {
		t.Errorf("ResumeExec: %v", err)
	}
	_ = w.Close()
	if err := <-ended; err != nil {
		t.Errorf("the caller's command: %v", err)
	}
}

// signalWriter sends to a channel with room when it is written to.
type signalWriter chan<- struct{}

func (w signalWriter) Write(b []byte) (int, error) {
	select {
	case w <- struct{}{}:
	default:
	}
	return len(b), nil
}
