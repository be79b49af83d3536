package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	yaml "go.yaml.in/yaml/v4"
	"golang.org/x/term"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

func (a commands) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "context", Aliases: []string{"ctx"},
		Short: "Manage the servers that atoll can use",
		Long: `Manage the servers that atoll can use. A context is a server and its token,
stored in your atoll.yaml. The context local is this machine: the server that
runs here, or no server. The first of these decides: --context or --host,
$ATOLL_CONTEXT or $ATOLL_HOST (with $ATOLL_TOKEN), the current context.`,
		Example: `  atoll login atoll.example.com           add one and use it
  atoll context ls
  atoll context use local
  atoll --context team ls`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.contextLs(), a.contextShow(), a.contextUse(), a.contextAdd(), a.contextRm())
	return cmd
}

// contextInfo is a context for people and programs.
type contextInfo struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Host    string `json:"host"` // empty: this machine
	Token   string `json:"token"`
	Origin  string `json:"origin"`
}

// tokenLocation returns where the token of an endpoint is, never the token itself.
func tokenLocation(e config.Endpoint) string {
	switch {
	case e.TokenFile != "":
		return "in " + e.TokenFile
	case e.Token != "":
		return "yes"
	}
	return "no"
}

func (a commands) contextLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Example: "  atoll context ls",
		Short:   "List contexts",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			current, _, err := a.Config.Target()
			if err != nil {
				return err
			}
			list := []contextInfo{{Name: config.Local, Current: current == config.Local, Token: "no", Origin: "default"}}
			for _, name := range a.Config.ContextNames() {
				e := a.Config.Contexts[name]
				list = append(list, contextInfo{name, current == name, e.Host, tokenLocation(e), e.Origin})
			}
			if a.JSON {
				return a.PrintJSON(list)
			}
			rows := [][]string{{"", "NAME", "HOST", "TOKEN"}}
			for _, c := range list {
				mark, host := "", c.Host
				if c.Current {
					mark = "*"
				}
				if host == "" {
					host = "(this machine)"
				}
				rows = append(rows, []string{mark, c.Name, host, c.Token})
			}
			return a.PrintTable(rows)
		},
	}
}

// contextReport is where the commands go now.
type contextReport struct {
	Context string        `json:"context,omitempty"`
	Host    string        `json:"host"` // empty: this process
	Origin  string        `json:"origin"`
	Server  *atoll.Server `json:"server,omitempty"`
}

func (a commands) contextShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Example: "  atoll context show",
		Short:   "Show the current server and your identity there",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			info, err := c.Info(cmd.Context())
			if err != nil {
				return err
			}
			r := contextReport{a.Conn.Name, a.Conn.Host, a.Conn.Origin, &info}
			if a.JSON {
				return a.PrintJSON(r)
			}
			host := r.Host
			if host == "" {
				host = "no server: " + a.Home + " in this process"
			}
			var scopes []string
			for _, s := range info.Scopes {
				scopes = append(scopes, string(s))
			}
			rows := [][]string{{"context", r.Context}, {"host", host}, {"chosen by", r.Origin}, {"version", info.Version}, {"you are", info.Owner.String()}, {"you may", strings.Join(scopes, " ")}}
			if r.Context == "" {
				rows = rows[1:]
			}
			return a.PrintTable(rows)
		},
	}
}

func (a commands) contextUse() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME",
		Example: `  atoll context use staging
  atoll context use local            this machine`,
		Short:             "Set the current context",
		Args:              app.CheckArgCount(1, 1, "one context"),
		ValidArgsFunction: a.completeContexts(),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.Config.UnknownContext(args[0]); err != nil {
				return err
			}
			if err := config.EditFile(a.Config.File, func(top *yaml.Node) error {
				config.SetNode(top, "context", config.NewScalar(args[0]))
				return nil
			}); err != nil {
				return err
			}
			if s := a.Config.Settings["context"]; strings.HasPrefix(s.Origin, "$") {
				a.Progress("atoll: %s is set: it counts before what was written to %s", s.Origin, a.Config.File)
			}
			return a.PrintChange(app.Change{Action: "used", Kind: "context", Name: args[0]})
		},
	}
}

// completeContexts offers the names of contexts.
func (a commands) completeContexts() cobra.CompletionFunc {
	return a.CompleteFrom(-1, func(context.Context) ([]string, error) { return append(a.Config.ContextNames(), config.Local), nil })
}

// endpointFlags say how a server is reached.
type endpointFlags struct {
	tokenStdin bool
	tokenFile  string
	ca         string
	cert       string
	key        string
	noCheck    bool
}

func (f *endpointFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.tokenStdin, "token-stdin", false, "read the token from stdin")
	fl.StringVar(&f.tokenFile, "token-file", "", "file that holds the token, read at each call")
	fl.StringVar(&f.ca, "ca", "", "PEM file of the certificates to trust besides the system's")
	fl.StringVar(&f.cert, "cert", "", "PEM file of a client certificate to show to the server")
	fl.StringVar(&f.key, "key", "", "PEM file of its key")
	fl.BoolVar(&f.noCheck, "no-check", false, "don't ask the server whether it answers")
}

// readEndpoint builds what the flags say.
func (f *endpointFlags) readEndpoint(a commands, host string) (config.Endpoint, error) {
	h, err := config.ParseHost(host)
	if err != nil {
		return config.Endpoint{}, fmt.Errorf("%w: host %q: %w", atoll.ErrInvalid, strings.ReplaceAll(host, "@", "…"), err)
	}
	e := config.Endpoint{Host: h, Origin: "the command line"}
	for _, p := range []struct {
		from string
		to   *string
	}{{f.tokenFile, &e.TokenFile}, {f.ca, &e.CA}, {f.cert, &e.Cert}, {f.key, &e.Key}} {
		if p.from == "" {
			continue
		}
		if *p.to, err = config.ParsePath(p.from); err != nil {
			return e, err
		}
	}
	if (e.Cert == "") != (e.Key == "") {
		return e, fmt.Errorf("%w: --cert and --key belong together", atoll.ErrInvalid)
	}
	if f.tokenStdin {
		if e.TokenFile != "" {
			return e, fmt.Errorf("%w: give --token-stdin or --token-file, not both", atoll.ErrInvalid)
		}
		b, err := io.ReadAll(io.LimitReader(a.In, 64<<10))
		if err != nil {
			return e, fmt.Errorf("token on stdin: %w", err)
		}
		if e.Token, err = config.ParseToken(string(b)); err != nil {
			return e, fmt.Errorf("%w: token on stdin: %w", atoll.ErrInvalid, err)
		}
	}
	return e, e.Check()
}

func (a commands) contextAdd() *cobra.Command {
	var f endpointFlags
	cmd := &cobra.Command{
		Use:   "add NAME --host HOST",
		Short: "Add or update a context",
		Long: `Add or update a context. The server and the token are checked first, unless
--no-check is given. The current context does not change; see 'atoll context
use' and 'atoll login'.`,
		Example: `  atoll context add team --host https://atoll.example.com --token-stdin < token
  atoll context add lab --host unix:///run/atoll.sock`,
		Args: app.CheckArgCount(1, 1, "a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("host") {
				return fmt.Errorf("%w: say where it is: atoll context add %s --host https://…", atoll.ErrInvalid, args[0])
			}
			e, err := f.readEndpoint(a, a.HostFlag)
			if err != nil {
				return err
			}
			return a.saveContext(cmd.Context(), args[0], e, f.noCheck, false)
		},
	}
	f.add(cmd)
	return cmd
}

// saveContext writes a context down, once the server has answered.
func (a commands) saveContext(ctx context.Context, name string, e config.Endpoint, unchecked, use bool) error {
	if err := atoll.CheckName(name); err != nil {
		return fmt.Errorf("context: %w", err)
	}
	if name == config.Local {
		return fmt.Errorf("%w: the context %q is this machine: choose another name", atoll.ErrExists, config.Local)
	}
	if !unchecked {
		info, err := app.QueryServer(ctx, e)
		if err != nil {
			return fmt.Errorf("%w (nothing was written)", err)
		}
		a.Progress("atoll: %s answers: version %s, you are %s", e.Host, info.Version, info.Owner)
	}
	if err := config.EditFile(a.Config.File, func(top *yaml.Node) error {
		config.PutContext(top, name, e)
		if use {
			config.SetNode(top, "context", config.NewScalar(name))
		}
		return nil
	}); err != nil {
		return err
	}
	return a.PrintChange(app.Change{Action: "added", Kind: "context", Name: name})
}

func (a commands) contextRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"},
		Example:           "  atoll context rm staging",
		Short:             "Remove contexts and their tokens",
		Args:              app.CheckArgCount(1, -1, "contexts"),
		ValidArgsFunction: a.completeContexts(),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if name == config.Local {
					return fmt.Errorf("%w: the context %q is this machine: it stays", atoll.ErrInvalid, config.Local)
				}
				if err := a.Config.UnknownContext(name); err != nil {
					return err
				}
			}
			return a.removeContexts(args)
		},
	}
}

// removeContexts removes contexts. Who used one of them is on this machine afterwards.
func (a commands) removeContexts(names []string) error {
	if err := config.EditFile(a.Config.File, func(top *yaml.Node) error {
		for _, name := range names {
			if all := config.FindNode(top, "contexts"); all != nil {
				config.RemoveNode(all, name)
				if len(all.Content) == 0 {
					config.RemoveNode(top, "contexts")
				}
			}
			if current := config.FindNode(top, "context"); current != nil && current.Value == name {
				config.RemoveNode(top, "context")
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, name := range names {
		if err := a.PrintChange(app.Change{Action: "removed", Kind: "context", Name: name}); err != nil {
			return err
		}
	}
	return nil
}

func (a commands) loginCommand() *cobra.Command {
	var f endpointFlags
	var name, provider string
	cmd := &cobra.Command{
		Use:   "login HOST",
		Short: "Log in to a server",
		Long: `Log in to a server, and store it and a token in your atoll.yaml as the current
context. If the server has a login provider, a page and a code are printed: open
the page on any device and enter the code. Otherwise a token is asked for (see
'atoll token create'). The context has the name of the host, unless --name is
given.`,
		Example: `  atoll login atoll.example.com
  atoll login --provider company atoll.example.com
  atoll login --name lab --token-stdin https://10.0.0.7:8484 < token`,
		Args: app.CheckArgCount(1, 1, "one host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := f.readEndpoint(a, args[0])
			if err != nil {
				return err
			}
			if e.Token == "" && e.TokenFile == "" && e.Cert == "" && !strings.HasPrefix(e.Host, "unix:") {
				if e.Token, err = a.obtainToken(cmd.Context(), e, provider); err != nil {
					return err
				}
			}
			if err := e.Check(); err != nil {
				return err
			}
			if name == "" {
				name = contextName(e.Host)
			}
			if err := a.saveContext(cmd.Context(), name, e, f.noCheck, true); err != nil {
				return err
			}
			a.Progress("atoll: kept as context %q in %s", name, a.Config.File)
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&name, "name", "", "name of the context (default: that of the host)")
	cmd.Flags().StringVar(&provider, "provider", "", "login `PROVIDER` of the server, if it has several")
	return cmd
}

// askToken asks a person for a token, without showing it.
func (a commands) askToken(ctx context.Context, host string) (string, error) {
	in, ok := a.In.(*os.File)
	if !ok || !tty.IsTerminal(in) {
		return "", fmt.Errorf("%w: there is no terminal to ask for the token on: use --token-stdin or --token-file", atoll.ErrInvalid)
	}
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	fmt.Fprintf(a.Err, "Token for %s (it is not shown): ", host)
	type answer struct {
		text []byte
		err  error
	}
	answered := make(chan answer, 1) // nobody can end a read of a terminal: after Ctrl-C it goes with the process
	go func() {
		b, err := term.ReadPassword(fd)
		answered <- answer{b, err}
	}()
	var got answer
	select {
	case got = <-answered:
	case <-ctx.Done():
		got.err = errors.Join(ctx.Err(), term.Restore(fd, before))
	}
	fmt.Fprintln(a.Err)
	if got.err != nil {
		return "", fmt.Errorf("token: %w", got.err)
	}
	t, err := config.ParseToken(string(got.text))
	if err != nil {
		return "", fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	return t, nil
}

// contextName makes a name for a context of its host.
func contextName(host string) string {
	_, rest, _ := strings.Cut(host, "://")
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(rest))
	name = strings.Trim(name[:min(len(name), 63)], "-.")
	if name == "" || name == config.Local {
		return "server"
	}
	return name
}

func (a commands) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout [CONTEXT]",
		Example: `  atoll logout
  atoll logout staging`,
		Short: "Log out from a server",
		Long: `Log out from a server, the current one by default: remove its context and token
from your atoll.yaml. A token of a login provider is revoked, too. Any other
is valid until it expires or 'atoll token rm' revokes it.`,
		Args:              app.CheckArgCount(0, 1, "at most one context"),
		ValidArgsFunction: a.completeContexts(),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := config.Get[string](a.Config, "context")
			if len(args) == 1 {
				name = args[0]
			}
			if name == "" || name == config.Local {
				return fmt.Errorf("%w: no server is in use: name the context to forget", atoll.ErrInvalid)
			}
			if err := a.Config.UnknownContext(name); err != nil {
				return err
			}
			revoked := a.revokeLogin(cmd.Context(), a.Config.Contexts[name])
			if err := a.removeContexts([]string{name}); err != nil {
				return err
			}
			if revoked != nil {
				a.Progress("atoll: the token was not revoked: %v", revoked)
			}
			a.Progress("atoll: forgot context %q", name)
			return nil
		},
	}
}
