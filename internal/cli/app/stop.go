package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
)

// serverStopTimeout bounds how long a server may take to end. Its grace period is part
// of it.
const serverStopTimeout = 5 * time.Minute

// StopServer ends the server of the home and waits until it has ended. Without a
// server it returns a notice, see [exitcode.IsNotice].
func (a *App) StopServer(ctx context.Context) error {
	if err := a.CheckHome(); err != nil {
		return err
	}
	l, err := a.connectSocket(ctx)
	if err != nil {
		return err
	}
	if l == nil {
		return exitcode.With(exitcode.OK, fmt.Errorf("%w: no server runs for %s", atoll.ErrNotFound, a.Home))
	}
	if err := l.close(ctx); err != nil {
		return err
	}
	info := a.ReadServerInfo()
	if info.PID <= 0 {
		return fmt.Errorf("%w: the server on %s has not written its process id to %s", atoll.ErrUnavailable, a.SocketPath(), a.serverInfoFile())
	}
	process, err := os.FindProcess(info.PID)
	if err == nil {
		err = process.Signal(syscall.SIGTERM)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the server (process %d): %w", info.PID, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, serverStopTimeout, fmt.Errorf("%w: the server (process %d) has not ended for %v", atoll.ErrTimeout, info.PID, serverStopTimeout))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for process.Signal(syscall.Signal(0)) == nil && a.ReadServerInfo().PID == info.PID {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C: // the end of another process: there is nothing to wait on
		}
	}
	a.Progress("atoll: the server (process %d) has ended", info.PID)
	return a.PrintChange(Change{Action: "stopped", Kind: "server", ID: fmt.Sprint(info.PID)})
}
