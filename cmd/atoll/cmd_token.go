package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Let others, or programs, use this server",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tokenCreate(), a.tokenLs(), a.tokenRm())
	return cmd
}

func (a *app) tokenCreate() *cobra.Command {
	var name, owner, expires string
	var scopes []string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token; its secret is printed once, on stdout",
		Long: `Make a token. Its secret is printed on stdout, this once: atoll keeps only a hash.
Scopes are read (see what the owner has), run (create, run, change, remove), host
(name directories of the server's machine) and admin (tokens, quotas, pools, audit,
all owners). What belongs to one owner does not exist for another.`,
		Example: `  atoll token create --name ci --owner team/ci --expires 90d
  atoll token create --scope read --name dashboard > token
  atoll login atoll.example.com --token-stdin < token`,
		Args: needArgs(0, 0, "no arguments (the name goes into --name)"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := wantedToken(name, owner, expires, scopes)
			if err != nil {
				return err
			}
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			made, err := c.CreateToken(cmd.Context(), t)
			if err != nil {
				return err
			}
			if a.json {
				return a.print(made)
			}
			a.progress("atoll: token %s of %s may %s; it %s. This is its secret, shown once:", made.ID, made.Owner, scopesText(made.Scopes), expiryText(made.Expires))
			_, err = fmt.Fprintln(a.out, made.Secret)
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&name, "name", "n", "", "`NAME` for people")
	fl.StringVar(&owner, "owner", "", "`APP/USER` that it acts for (default: yourself)")
	fl.StringSliceVar(&scopes, "scope", []string{"read", "run"}, "what it `ALLOWS`: read, run, host, admin (repeatable)")
	fl.StringVar(&expires, "expires", "never", "`DURATION` until it is useless, like 90d")
	return cmd
}

// wantedToken builds what the flags ask for, or names every mistake.
func wantedToken(name, owner, expires string, scopes []string) (atoll.Token, error) {
	t := atoll.Token{Name: name}
	var errs []error
	if owner != "" {
		o, err := atoll.ParseOwner(owner)
		if err != nil {
			errs = append(errs, fmt.Errorf("--owner %q: %w", owner, err))
		}
		t.Owner = o
	}
	for _, s := range scopes {
		t.Scopes = append(t.Scopes, atoll.Scope(strings.TrimSpace(s)))
	}
	if err := atoll.CheckScopes(t.Scopes); err != nil {
		errs = append(errs, fmt.Errorf("--scope: %w", err))
	}
	d, err := parseDuration(expires)
	if err != nil {
		errs = append(errs, fmt.Errorf("%w: --expires %q: %w", atoll.ErrInvalid, expires, err))
	}
	if d > 0 {
		t.Expires = time.Now().Add(d).UTC()
	}
	return t, errors.Join(errs...)
}

func scopesText(scopes []atoll.Scope) string {
	var list []string
	for _, s := range scopes {
		list = append(list, string(s))
	}
	return strings.Join(list, ",")
}

// linkText is what a token is good for if it is a link: SANDBOX or
// SANDBOX/TERMINAL.
func linkText(l *atoll.Link) string {
	if l == nil {
		return "-"
	}
	text := l.Name
	if text == "" {
		text = l.Sandbox
	}
	if l.Terminal != "" {
		text += "/" + l.Terminal
	}
	return text
}

func expiryText(t time.Time) string {
	if t.IsZero() {
		return "does not expire"
	}
	return "expires " + until(t)
}

func (a *app) tokenLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List the tokens that can be used",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Tokens(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.print(some(list))
			}
			rows := [][]string{{"ID", "NAME", "OWNER", "SCOPES", "LINK", "CREATED", "EXPIRES", "USED"}}
			for _, t := range list {
				rows = append(rows, []string{t.ID, t.Name, t.Owner.String(), scopesText(t.Scopes), linkText(t.Link), ago(t.Created), until(t.Expires), ago(t.Used)})
			}
			return a.table(rows)
		},
	}
}

func (a *app) tokenRm() *cobra.Command {
	return a.removal(&cobra.Command{
		Use: "rm TOKEN...", Aliases: []string{"remove", "revoke"},
		Short: "Make tokens useless at once, by id or name",
		Args:  needArgs(1, -1, "tokens"),
	}, func(ctx context.Context, c *link) (ids []string, err error) {
		list, err := c.Tokens(ctx)
		for _, t := range list {
			ids = append(ids, t.ID)
		}
		return ids, err
	}, func(ctx context.Context, c *link, key string) error { return c.RevokeToken(ctx, key) })
}
