package sandbox

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/attach"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/project/projectfile"
)

// webLink holds the flags of 'atoll attach --web'.
type webLink struct {
	wanted   bool
	readOnly bool
	life     string // duration
	lifeSaid bool   // life is not the default
	provider string // whose page; empty: what the project says
}

// attachWeb prints a link to the page of a sandbox's terminals, or of one terminal. args are
// the sandbox and optionally the terminal.
func (a commands) attachWeb(ctx context.Context, args []string, w webLink) error {
	life, err := app.ParseLinkLife(w.life)
	if err != nil {
		return err
	}
	if err := a.EnsureServer(ctx); err != nil {
		return err
	}
	sb, err := a.OpenSandbox(ctx, args[0])
	if err != nil {
		return err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	switch provider, err := a.terminalProvider(ctx, w.provider, info); {
	case err != nil:
		return err
	case provider == projectfile.Zellij && w.lifeSaid:
		return fmt.Errorf("%w: --for: a token of Zellij has no end: 'zellij web --revoke-token' in the sandbox is its end", atoll.ErrInvalid)
	case provider == projectfile.Zellij:
		return a.attachZellij(ctx, sb, args, output.SandboxName(info.Status), w.readOnly)
	}
	c, err := a.Client(ctx)
	if err != nil {
		return err
	}
	base, err := a.ConsoleURL(ctx, c)
	if err != nil {
		return err
	}
	shown, err := a.webTerminal(ctx, sb, args, w.readOnly)
	if err != nil {
		return err
	}
	t := atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}, Expires: time.Now().Add(life).UTC(), Link: &atoll.Link{Sandbox: sb.ID()}}
	may := "types in"
	if w.readOnly {
		t.Scopes, may = t.Scopes[:1], "looks at"
	}
	what := "the terminals of " + args[0]
	if len(args) > 1 {
		t.Link.Terminal, what = shown, "terminal "+shown+" of "+args[0]
	}
	t.Owner = info.Owner
	at := url.Values{"sandbox": {sb.ID()}}
	if shown != "" {
		at.Set("terminal", shown)
	}
	link, err := a.CreateConsoleLink(ctx, c, base, t, at)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(link)
	}
	a.Progress("atoll: the bearer of this link %s %s; it %s; 'atoll token rm %s' revokes it", may, what, output.FormatExpiry(link.Expires), link.Token)
	_, err = fmt.Fprintln(a.Out, link.URL)
	return err
}

// webTerminal returns the terminal that a page shows first: the terminal in args, or the first
// that runs, or a new one. It returns "" if there is none and readOnly forbids a new one.
func (a commands) webTerminal(ctx context.Context, sb *client.Sandbox, args []string, readOnly bool) (string, error) {
	list, err := sb.ListTerminals(ctx)
	if err != nil {
		return "", err
	}
	var names []string
	for _, t := range list {
		if len(args) > 1 && t.Name == args[1] || len(args) == 1 && t.Running {
			return t.Name, nil
		}
		names = append(names, t.Name)
	}
	switch {
	case len(args) > 1 && len(names) == 0:
		return "", fmt.Errorf("terminal %s: %w: %s has none; 'atoll terminal new --name %s %s' opens it", args[1], atoll.ErrNotFound, args[0], args[1], args[0])
	case len(args) > 1:
		return "", fmt.Errorf("terminal %s: %w: %s has %s", args[1], atoll.ErrNotFound, args[0], strings.Join(names, ", "))
	case readOnly:
		return "", nil
	}
	t, err := attach.OpenTerminal(ctx, a.App, sb, atoll.TerminalSpec{})
	return t.Name, err
}
