package main

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
	"github.com/atoll-sandbox/atoll/internal/spell"
)

// here is the name of the context that means this machine.
const here = "local"

func (a *app) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "context", Aliases: []string{"ctx"},
		Short: "Choose the server to talk to",
		Long: `Choose the server to talk to. A context is a server and the token for it, kept in
your atoll.yaml. The one called local is this machine: the server that runs here,
or else no server at all. What is asked for counts in this order: --context or
--host, $ATOLL_CONTEXT or $ATOLL_HOST (with $ATOLL_TOKEN), the current context.`,
		Example: `  atoll login atoll.example.com           add one and use it
  atoll context ls
  atoll context use local
  atoll --context team ls`,
		Args: noSuchCommand,
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

// tokenText says where a token is, and never what it is.
func (e endpoint) tokenText() string {
	switch {
	case e.TokenFile != "":
		return "in " + e.TokenFile
	case e.Token != "":
		return "yes"
	}
	return "no"
}

func (a *app) contextLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List the servers you know",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			current, _, err := a.config.target()
			if err != nil {
				return err
			}
			list := []contextInfo{{Name: here, Current: current == here, Token: "no", Origin: "default"}}
			for _, name := range a.config.contextNames() {
				e := a.config.contexts[name]
				list = append(list, contextInfo{name, current == name, e.Host, e.tokenText(), e.origin})
			}
			if a.json {
				return a.print(list)
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
			return a.table(rows)
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

func (a *app) contextShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Ask the server that commands go to now who it is, and who you are there",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			info, err := c.Info(cmd.Context())
			if err != nil {
				return err
			}
			r := contextReport{a.link.name, a.link.host, a.link.origin, &info}
			if a.json {
				return a.print(r)
			}
			host := r.Host
			if host == "" {
				host = "no server: " + a.home + " in this process"
			}
			var scopes []string
			for _, s := range info.Scopes {
				scopes = append(scopes, string(s))
			}
			rows := [][]string{{"context", r.Context}, {"host", host}, {"chosen by", r.Origin}, {"version", info.Version}, {"you are", info.Owner.String()}, {"you may", strings.Join(scopes, " ")}}
			if r.Context == "" {
				rows = rows[1:]
			}
			return a.table(rows)
		},
	}
}

func (a *app) contextUse() *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Make a context the current one; local is this machine",
		Args:              needArgs(1, 1, "one context"),
		ValidArgsFunction: a.completeContexts(),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.config.knows(args[0]); err != nil {
				return err
			}
			if err := editConfig(a.config.file, func(top *yaml.Node) error {
				put(top, "context", scalar(args[0]))
				return nil
			}); err != nil {
				return err
			}
			if s := a.config.settings["context"]; strings.HasPrefix(s.origin, "$") {
				a.progress("atoll: %s is set: it counts before what was written to %s", s.origin, a.config.file)
			}
			return nil
		},
	}
}

// completeContexts offers the names of contexts.
func (a *app) completeContexts() cobra.CompletionFunc {
	return a.offer(-1, func(context.Context) ([]string, error) { return append(a.config.contextNames(), here), nil })
}

// knows reports that there is no such context, and what there is.
func (c *config) knows(name string) error {
	if _, ok := c.contexts[name]; ok || name == here {
		return nil
	}
	names := append(c.contextNames(), here)
	return fmt.Errorf("%w: context %q%s; there is: %s", atoll.ErrNotFound, name, spell.Hint(name, names), strings.Join(names, ", "))
}

// endpointFlags say how a server is reached.
type endpointFlags struct {
	tokenStdin bool
	tokenFile  string
	ca         string
	noCheck    bool
}

func (f *endpointFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.tokenStdin, "token-stdin", false, "read the token from stdin")
	fl.StringVar(&f.tokenFile, "token-file", "", "file that holds the token, read at each call")
	fl.StringVar(&f.ca, "ca", "", "PEM file of the certificates to trust besides the system's")
	fl.BoolVar(&f.noCheck, "no-check", false, "don't ask the server whether it answers")
}

// endpoint builds what the flags say.
func (f *endpointFlags) endpoint(a *app, host string) (endpoint, error) {
	h, err := parseHost(host)
	if err != nil {
		return endpoint{}, fmt.Errorf("%w: host %q: %w", atoll.ErrInvalid, strings.ReplaceAll(host, "@", "…"), err)
	}
	e := endpoint{Host: h, origin: "the command line"}
	for _, p := range []struct {
		from string
		to   *string
	}{{f.tokenFile, &e.TokenFile}, {f.ca, &e.CA}} {
		if p.from == "" {
			continue
		}
		if *p.to, err = parsePath(p.from); err != nil {
			return e, err
		}
	}
	if f.tokenStdin {
		if e.TokenFile != "" {
			return e, fmt.Errorf("%w: give --token-stdin or --token-file, not both", atoll.ErrInvalid)
		}
		b, err := io.ReadAll(io.LimitReader(a.in, 64<<10))
		if err != nil {
			return e, fmt.Errorf("token on stdin: %w", err)
		}
		if e.Token, err = parseToken(string(b)); err != nil {
			return e, fmt.Errorf("%w: token on stdin: %w", atoll.ErrInvalid, err)
		}
	}
	return e, e.check()
}

func (a *app) contextAdd() *cobra.Command {
	var f endpointFlags
	cmd := &cobra.Command{
		Use:   "add NAME --host HOST",
		Short: "Add a server, or change how it is reached",
		Long: `Add a server, or change how it is reached. It is asked whether it answers and knows
the token, unless you say --no-check. The current context stays; 'atoll context use'
changes it, and 'atoll login' does both.`,
		Example: `  atoll context add team --host https://atoll.example.com --token-stdin < token
  atoll context add lab --host unix:///run/atoll.sock`,
		Args: needArgs(1, 1, "a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("host") {
				return fmt.Errorf("%w: say where it is: atoll context add %s --host https://…", atoll.ErrInvalid, args[0])
			}
			e, err := f.endpoint(a, a.hostFlag)
			if err != nil {
				return err
			}
			return a.keep(cmd.Context(), args[0], e, f.noCheck, false)
		},
	}
	f.add(cmd)
	return cmd
}

// keep writes a context down, once the server has answered.
func (a *app) keep(ctx context.Context, name string, e endpoint, unchecked, use bool) error {
	if err := atoll.CheckName(name); err != nil {
		return fmt.Errorf("context: %w", err)
	}
	if name == here {
		return fmt.Errorf("%w: the context %q is this machine: choose another name", atoll.ErrExists, here)
	}
	if !unchecked {
		info, err := ask(ctx, e)
		if err != nil {
			return fmt.Errorf("%w (nothing was written)", err)
		}
		a.progress("atoll: %s answers: version %s, you are %s", e.Host, info.Version, info.Owner)
	}
	return editConfig(a.config.file, func(top *yaml.Node) error {
		putContext(top, name, e)
		if use {
			put(top, "context", scalar(name))
		}
		return nil
	})
}

func (a *app) contextRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"},
		Short:             "Forget servers and the tokens for them",
		Args:              needArgs(1, -1, "contexts"),
		ValidArgsFunction: a.completeContexts(),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if name == here {
					return fmt.Errorf("%w: the context %q is this machine: it stays", atoll.ErrInvalid, here)
				}
				if err := a.config.knows(name); err != nil {
					return err
				}
			}
			return a.forget(args)
		},
	}
}

// forget removes contexts. Who used one of them is on this machine afterwards.
func (a *app) forget(names []string) error {
	return editConfig(a.config.file, func(top *yaml.Node) error {
		for _, name := range names {
			if all := child(top, "contexts"); all != nil {
				drop(all, name)
				if len(all.Content) == 0 {
					drop(top, "contexts")
				}
			}
			if current := child(top, "context"); current != nil && current.Value == name {
				drop(top, "context")
			}
		}
		return nil
	})
}

func (a *app) loginCommand() *cobra.Command {
	var f endpointFlags
	var name string
	cmd := &cobra.Command{
		Use:   "login HOST",
		Short: "Use a server from now on",
		Long: `Use a server from now on: asks for a token (made there with 'atoll token create'),
checks it, and keeps both as the current context in your atoll.yaml. The context is
called like the host, unless you give it a --name.`,
		Example: `  atoll login atoll.example.com
  atoll login --name lab --token-stdin https://10.0.0.7:8484 < token`,
		Args: needArgs(1, 1, "one host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := f.endpoint(a, args[0])
			if err != nil {
				return err
			}
			if e.Token == "" && e.TokenFile == "" && !strings.HasPrefix(e.Host, "unix:") {
				if e.Token, err = a.askToken(cmd.Context(), e.Host); err != nil {
					return err
				}
			}
			if err := e.check(); err != nil {
				return err
			}
			if name == "" {
				name = contextName(e.Host)
			}
			if err := a.keep(cmd.Context(), name, e, f.noCheck, true); err != nil {
				return err
			}
			a.progress("atoll: kept as context %q in %s", name, a.config.file)
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&name, "name", "", "name of the context (default: that of the host)")
	return cmd
}

// askToken asks a person for a token, without showing it.
func (a *app) askToken(ctx context.Context, host string) (string, error) {
	in, ok := a.in.(*os.File)
	if !ok || !isTerminal(in) {
		return "", fmt.Errorf("%w: there is no terminal to ask for the token on: use --token-stdin or --token-file", atoll.ErrInvalid)
	}
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	fmt.Fprintf(a.err, "Token for %s (it is not shown): ", host)
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
	fmt.Fprintln(a.err)
	if got.err != nil {
		return "", fmt.Errorf("token: %w", got.err)
	}
	t, err := parseToken(string(got.text))
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
	if name == "" || name == here {
		return "server"
	}
	return name
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout [CONTEXT]",
		Short: "Forget a server and the token for it; the current one if you name none",
		Long: `Forget a server and the token for it; the current one if you name none. The token
itself stays good until it expires or 'atoll token rm' revokes it.`,
		Args:              needArgs(0, 1, "at most one context"),
		ValidArgsFunction: a.completeContexts(),
		RunE: func(_ *cobra.Command, args []string) error {
			name := get[string](a.config, "context")
			if len(args) == 1 {
				name = args[0]
			}
			if name == "" || name == here {
				return fmt.Errorf("%w: no server is in use: name the context to forget", atoll.ErrInvalid)
			}
			if err := a.config.knows(name); err != nil {
				return err
			}
			if err := a.forget([]string{name}); err != nil {
				return err
			}
			a.progress("atoll: forgot context %q", name)
			return nil
		},
	}
}
