package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// openTime is how long a browser may take to be told what to open.
const openTime = 20 * time.Second

// OpenBrowser opens a URL in the user's browser; it returns false if there is none.
func (a *App) OpenBrowser(ctx context.Context, address string) (bool, error) {
	program := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		program = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return false, nil
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return false, nil // it is printed instead
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openTime, fmt.Errorf("%w: %s has not ended for %v", atoll.ErrTimeout, program, openTime))
	defer cancel()
	cmd := exec.CommandContext(ctx, path, address)
	cmd.Stderr = a.Err
	if err := cmd.Run(); err != nil {
		return false, fmt.Errorf("%s: %w", program, errors.Join(context.Cause(ctx), err))
	}
	a.Progress("atoll: %s", output.Clean(address))
	return true, nil
}

// ConsoleURL returns the address at which a browser finds the server that commands go to, without the
// path of the console. ErrUnavailable: no server listens for browsers.
func (a *App) ConsoleURL(ctx context.Context, c *Connection) (string, error) {
	if strings.HasPrefix(c.Host, "https://") || strings.HasPrefix(c.Host, "http://") {
		return strings.TrimSuffix(c.Host, "/"), nil
	}
	info, err := c.Info(ctx)
	if err != nil {
		return "", err
	}
	if len(info.Addresses) == 0 {
		return "", fmt.Errorf("%w: no server listens for browsers: stop the one that runs, if there is one, with 'atoll serve --stop', and start 'atoll serve --listen %s'", atoll.ErrUnavailable, DefaultConsoleAddress)
	}
	return strings.TrimSuffix(info.Addresses[0], "/"), nil
}
