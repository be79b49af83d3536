package docker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/testing/commandtest"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
)

// engineRoutes are the ways to a guest: its socket on this host, and the API of the engine.
var engineRoutes = map[string]func(t *testing.T, e *enginetest.Engine) *docker.Driver{
	"socket": func(t *testing.T, e *enginetest.Engine) *docker.Driver {
		return &docker.Driver{Host: e.Host, Dir: t.TempDir()}
	},
	"tcp": func(t *testing.T, e *enginetest.Engine) *docker.Driver {
		return &docker.Driver{Host: startRelay(t, e.Host), Dir: t.TempDir()}
	},
}

// startCommand starts a command in a new sandbox, which is destroyed when the test ends.
func startCommand(t *testing.T, d *docker.Driver) *commandtest.Command {
	t.Helper()
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := sb.Destroy(ctx); err != nil {
			t.Error(err)
		}
	})
	return commandtest.Start(t, sb)
}

// TestCommandOutlivesEngine restarts an engine whose containers outlive it: a foreground command's output is
// whole, once and in order, and its status is right.
func TestCommandOutlivesEngine(t *testing.T) {
	for name, newDriver := range engineRoutes {
		t.Run(name, func(t *testing.T) {
			e := enginetest.Start(t, "--live-restore")
			c := startCommand(t, newDriver(t, e))
			for range 2 {
				e.Restart(t)
				c.WaitForOutput(t)
			}
			t.Logf("%d lines", c.Finish(t))
		})
	}
}

// TestCommandEndsWithEngine restarts an engine whose containers end with it: a foreground command fails
// with an error that says so.
func TestCommandEndsWithEngine(t *testing.T) {
	for name, newDriver := range engineRoutes {
		t.Run(name, func(t *testing.T) {
			e := enginetest.Start(t, "")
			c := startCommand(t, newDriver(t, e))
			e.Restart(t)
			if err := c.WaitForFailure(t); !errors.Is(err, atoll.ErrUnavailable) || errors.Is(err, atoll.ErrTimeout) {
				t.Errorf("%v", err)
			} else {
				t.Log(err)
			}
		})
	}
}
