package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
)

// openLink is how long a link is good that is made to open a browser.
const openLink = 12 * time.Hour

// openTime is how long a browser may take to be told what to open.
const openTime = 20 * time.Second

func (a *app) openCommand() *cobra.Command {
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "open [SANDBOX [PORT]]",
		Short: "Open a port of a sandbox in the browser",
		Long: `Open a port of a sandbox in the browser, by its name: http://3000-box.localhost:7080/.
Without PORT that is the main one, the configured or the one that was opened first;
without SANDBOX the one of this directory's project. A server is started if none
runs. Where there is no browser, or with --print, the URL is printed. Where a link is
needed, one is made that is good for 12 hours.`,
		Example: `  atoll open
  atoll open box 3000
  curl "$(atoll open box 3000 --print)"`,
		Args:              needArgs(0, 2, "a sandbox and a port"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			port, err := portAt(args, 1)
			if err != nil {
				return err
			}
			url, err := a.urlOf(cmd.Context(), args, port)
			if err != nil {
				return err
			}
			if a.json {
				return a.print(map[string]string{"url": url})
			}
			if !printOnly {
				if opened, err := a.browse(cmd.Context(), url); opened || err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(a.out, plain(url))
			return err
		},
	}
	cmd.Flags().BoolVarP(&printOnly, "print", "p", false, "print the URL, open nothing")
	return cmd
}

// urlOf returns what a browser opens for a port of a sandbox, which the first
// argument names; without one it is the project's of this directory.
func (a *app) urlOf(ctx context.Context, args []string, port int) (string, error) {
	if err := a.background(ctx); err != nil {
		return "", err
	}
	var sb *client.Sandbox
	var err error
	if len(args) > 0 {
		sb, err = a.open(ctx, args[0])
	} else {
		var w *workplace
		if w, err = a.project(ctx, ""); err == nil {
			sb = w.sb
		}
	}
	if err != nil {
		return "", err
	}
	list, err := a.link.Routes(ctx, sb.ID())
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fmt.Errorf("%w: the server leads no names to this sandbox: its proxy is for the people of its own machine", atoll.ErrUnavailable)
	}
	if list[0].Locked {
		l, err := a.link.CreateRouteLink(ctx, atoll.RouteLink{Sandbox: sb.ID(), Port: port, Expires: time.Now().Add(openLink).UTC()})
		if err != nil {
			return "", err
		}
		return a.openHere(l, list)
	}
	for _, r := range list {
		if r.Port == port {
			return r.URL, nil
		}
	}
	name := list[0].Name
	if name == "" {
		name = list[0].Sandbox
	}
	return "", fmt.Errorf("%w: no program in %s listens on port %d%s", atoll.ErrNotFound, name, port, openPorts(list))
}

// openPorts says which ports are open.
func openPorts(list []atoll.Route) string {
	text := ""
	for _, r := range list {
		if r.Port > 0 {
			text += fmt.Sprintf(" %d", r.Port)
		}
	}
	if text == "" {
		return ": none is open"
	}
	return "; these are open:" + text
}

// browse opens a URL in the browser of whoever sits here; false: there is none.
func (a *app) browse(ctx context.Context, url string) (bool, error) {
	program := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		program = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return false, nil
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return false, nil //nolint:nilerror // it is printed instead
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openTime, fmt.Errorf("%w: %s has not ended for %v", atoll.ErrTimeout, program, openTime))
	defer cancel()
	cmd := exec.CommandContext(ctx, path, url)
	cmd.Stderr = a.err
	if err := cmd.Run(); err != nil {
		return false, fmt.Errorf("%s: %w", program, errors.Join(context.Cause(ctx), err))
	}
	a.progress("atoll: %s", plain(url))
	return true, nil
}
