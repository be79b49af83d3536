package previewserver

import (
	"context"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
)

// SandboxURL returns what a browser opens for a port of a sandbox, which the first
// argument names; without one it is the project's of this directory.
func SandboxURL(ctx context.Context, a *app.App, args []string, port int) (string, error) {
	if err := a.EnsureServer(ctx); err != nil {
		return "", err
	}
	var sb *client.Sandbox
	var err error
	if len(args) > 0 {
		sb, err = a.OpenSandbox(ctx, args[0])
	} else {
		var w *pairing.Pair
		if w, err = pairing.Find(ctx, a, ""); err == nil {
			sb = w.Sandbox
		}
	}
	if err != nil {
		return "", err
	}
	list, err := a.Conn.Routes(ctx, sb.ID())
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fmt.Errorf("%w: the server leads no names to this sandbox: its proxy is for the people of its own machine", atoll.ErrUnavailable)
	}
	if list[0].Locked {
		l, err := a.Conn.CreateRouteLink(ctx, atoll.RouteLink{Sandbox: sb.ID(), Port: port, Expires: time.Now().Add(app.LinkLife).UTC()})
		if err != nil {
			return "", err
		}
		return openHere(a, l, list)
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

// openPorts formats the list of open ports.
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
