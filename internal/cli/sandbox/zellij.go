package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/attach"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/cli/previewserver"
	"github.com/atoll-sandbox/atoll/internal/project/projectfile"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// Zellij's web server runs in the sandbox, on a terminal of its own.
const (
	zellijTerminal = "zellij-web"
	zellijPort     = 8082 // Zellij's own choice
	zellijMinor    = 43   // of 0.43, the first with a web server
	zellijStart    = 30 * time.Second
	zellijAnswer   = 4 << 10 // bytes of what it says of a token, at most
)

// zellijLink is a link to a page of Zellij as --json prints it.
type zellijLink struct {
	URL     string `json:"url"`
	Session string `json:"session"`
	Token   string `json:"token"`  // its name
	Secret  string `json:"secret"` // what the page asks for
}

// terminalProvider returns whose page shows the terminals of a sandbox: what the flag
// says, else the .atoll.yaml of its project, if that is on this machine, else the
// user's configuration.
func (a commands) terminalProvider(ctx context.Context, flag string, info atoll.Info) (string, error) {
	all := projectfile.Providers()
	for _, p := range all {
		if p == flag {
			return p, nil
		}
	}
	if flag != "" {
		return "", fmt.Errorf("%w: --provider %q: must be %s%s", atoll.ErrInvalid, flag, strings.Join(all, " or "), suggest.Hint(flag, all))
	}
	mine := cmp.Or(config.Get[string](a.Config, "terminal.provider"), projectfile.Builtin)
	w, err := pairing.OpenIfProject(ctx, a.App, info)
	if err != nil || w == nil || w.Repo == nil {
		return mine, err
	}
	f, err := projectfile.Read(w.Repo.Dir)
	if err != nil {
		return mine, err
	}
	return cmp.Or(f.Terminal.Provider, mine), nil
}

// attachZellij prints where a browser finds the page of the Zellij in a sandbox,
// and a token for it. A second argument names the session.
func (a commands) attachZellij(ctx context.Context, sb *client.Sandbox, args []string, session string, readOnly bool) error {
	if len(args) > 1 {
		session = args[1]
		if err := atoll.CheckName(session); err != nil {
			return fmt.Errorf("session %w", err)
		}
	}
	if err := checkZellij(ctx, sb, args[0]); err != nil {
		return err
	}
	if err := a.startZellij(ctx, sb, args[0]); err != nil {
		return err
	}
	at, err := previewserver.SandboxURL(ctx, a.App, args[:1], zellijPort)
	if err != nil {
		return err
	}
	if u, err := url.Parse(at); err == nil && u.Path == "/" && u.RawQuery == "" && u.Fragment == "" { // else it is a link that opens the port
		at += session
	}
	name, secret, err := zellijToken(ctx, sb, readOnly)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(zellijLink{at, session, name, secret})
	}
	may := "types in"
	if readOnly {
		may = "looks at"
	}
	a.Progress("atoll: the page asks for the token, which is in the second line; who has it %s %s; 'atoll exec %[2]s -- zellij web --revoke-token %s' ends that", may, args[0], name)
	_, err = fmt.Fprintf(a.Out, "%s\n%s\n", output.Clean(at), secret)
	return err
}

// zellijVersion matches the output of zellij --version.
var zellijVersion = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^zellij (\d{1,4})\.(\d{1,4})\.`)
})

// checkZellij reports that a sandbox has no Zellij with a web server.
func checkZellij(ctx context.Context, sb *client.Sandbox, sandbox string) error {
	const missing = 127
	exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "command -v zellij >/dev/null 2>&1 || exit 127; exec zellij --version", Timeout: attach.CommandTimeout, MaxOutput: zellijAnswer})
	if err != nil {
		return err
	}
	const cure = "use an image that has Zellij 0.43 or later, install it there (https://zellij.dev/documentation/installation), or say '--provider builtin' for atoll's own page"
	if exit.Code == missing {
		return fmt.Errorf("sandbox %s: %w: it has no program zellij: %s", sandbox, atoll.ErrNotFound, cure)
	}
	m := zellijVersion().FindSubmatch(exit.Stdout)
	if exit.Code != 0 || m == nil {
		return fmt.Errorf("sandbox %s: %w: its zellij does not say its version: %s", sandbox, atoll.ErrUnsupported, cure)
	}
	major, minor := string(m[1]), string(m[2])
	if n, err := strconv.Atoi(minor); err != nil || major == "0" && n < zellijMinor {
		return fmt.Errorf("sandbox %s: %w: its zellij %s.%s has no web server: %s", sandbox, atoll.ErrUnsupported, major, minor, cure)
	}
	return nil
}

// startZellij makes Zellij's web server listen in a sandbox, unless it does.
func (a commands) startZellij(ctx context.Context, sb *client.Sandbox, sandbox string) error {
	t, err := terminalNamed(ctx, sb, zellijTerminal)
	if err != nil {
		return err
	}
	if !t.Running {
		p, err := findListener(ctx, sb, zellijPort)
		switch {
		case err != nil:
			return err
		case p.Command == "zellij":
			return nil // somebody has started it
		case p.Port != 0:
			return fmt.Errorf("sandbox %s: %w: its port %d, which Zellij's web server listens on, is that of %s", sandbox, atoll.ErrExists, zellijPort, output.Clean(output.DashIfEmpty(p.Command)))
		}
		spec := atoll.TerminalSpec{Name: zellijTerminal, Args: []string{"zellij", "web", "--ip", "127.0.0.1", "--port", strconv.Itoa(zellijPort)}}
		if err := attach.EnsureTerminal(ctx, a.App, sb, spec); err != nil {
			return err
		}
	}
	cause := fmt.Errorf("%w: Zellij's web server in %s does not listen on port %d after %v; 'atoll attach %s %s' shows it", atoll.ErrTimeout, sandbox, zellijPort, zellijStart, sandbox, zellijTerminal)
	ctx, cancel := context.WithTimeoutCause(ctx, zellijStart, cause)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		p, err := findListener(ctx, sb, zellijPort)
		if err == nil && p.Port == 0 {
			t, err = terminalNamed(ctx, sb, zellijTerminal)
			if err == nil && !t.Running {
				return zellijEnded(ctx, sb, sandbox, t.Code)
			}
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil || p.Port != 0:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// zellijEnded returns an error with the last lines that Zellij's web server printed on its
// terminal.
func zellijEnded(ctx context.Context, sb *client.Sandbox, sandbox string, code int) error {
	const last = 5
	screen, err := sb.ReadTerminal(ctx, zellijTerminal)
	var said []string
	for _, l := range screen.Lines {
		if l != "" {
			said = append(said, output.Clean(l))
		}
	}
	said = said[max(0, len(said)-last):]
	return errors.Join(fmt.Errorf("sandbox %s: %w: Zellij's web server has ended with status %d: %s", sandbox, atoll.ErrUnavailable, code, strings.Join(said, "; ")), err)
}

// terminalNamed finds a terminal; the zero one: there is none of the name.
func terminalNamed(ctx context.Context, sb *client.Sandbox, name string) (atoll.Terminal, error) {
	list, err := sb.ListTerminals(ctx)
	for _, t := range list {
		if t.Name == name {
			return t, nil
		}
	}
	return atoll.Terminal{}, err
}

// findListener returns the open port of that number; the zero Port if no program listens on
// it.
func findListener(ctx context.Context, sb *client.Sandbox, port int) (atoll.Port, error) {
	list, err := sb.Ports(ctx)
	for _, p := range list {
		if p.Port == port {
			return p, nil
		}
	}
	return atoll.Port{}, err
}

// makeZellijToken has Zellij make a token, and prints the name of the file that
// has it: the output of commands is kept in histories.
const makeZellijToken = `umask 077; f=$(mktemp) || exit; zellij web "$0" >"$f" && echo "$f" || { c=$?; rm -f "$f"; exit "$c"; }`

// zellijToken makes a token and returns its name and what is secret.
func zellijToken(ctx context.Context, sb *client.Sandbox, readOnly bool) (name, secret string, err error) {
	kind := "--create-token"
	if readOnly {
		kind = "--create-read-only-token"
	}
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"sh", "-c", makeZellijToken, kind}, Timeout: attach.CommandTimeout, MaxOutput: zellijAnswer})
	if err != nil {
		return "", "", err
	}
	file := strings.TrimSpace(string(exit.Stdout))
	if exit.Code != 0 || !path.IsAbs(file) {
		return "", "", fmt.Errorf("%w: zellij web %s: exit status %d: %s", atoll.ErrUnsupported, kind, exit.Code, output.Clean(strings.TrimSpace(string(exit.Stderr))))
	}
	defer func() { err = errors.Join(err, atoll.Remove(context.WithoutCancel(ctx), sb, file)) }()
	r, err := atoll.OpenFile(ctx, sb, file)
	if err != nil {
		return "", "", err
	}
	b, err := io.ReadAll(io.LimitReader(r, zellijAnswer))
	if err := output.CloseAfter(err, r); err != nil {
		return "", "", err
	}
	name, secret, ok := readZellijToken(string(b))
	if !ok {
		return "", "", fmt.Errorf("%w: zellij web %s says nothing that could be a token", atoll.ErrUnsupported, kind)
	}
	return name, secret, nil
}

// zellijMade matches the line with which zellij prints a new token: its name and secret.
var zellijMade = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*([A-Za-z0-9_-]{1,64}): ([0-9A-Za-z-]{16,128})(?: \(read-only\))?[ \t\r]*$`)
})

// readZellijToken finds in what Zellij says the name of a token that it has made,
// and the token.
func readZellijToken(text string) (name, secret string, ok bool) {
	m := zellijMade().FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}
