package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

func (a commands) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token",
		Example: `  atoll token create --owner app/alice --expires 90d
  atoll token ls`,
		Short: "Manage access tokens of the server",
		Args:  app.UnknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tokenCreate(), a.tokenLs(), a.tokenRm())
	return cmd
}

func (a commands) tokenCreate() *cobra.Command {
	var name, owner, expires, role string
	var scopes []string
	var asE2B, asDaytona bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a token and print its secret",
		Long: `Create a token and print its secret once; the server stores only a hash. Scopes
are read (see the owner's resources), run (create, run, change, remove), host
(name directories of the server's machine), operate (quotas, pools, images,
metrics; lists, events and audit of all owners) and admin (also tokens and
sandboxes of all owners). Resources of other owners are invisible. A role is a
name for scopes: viewer (read), user (read, run), operator (read, run,
operate), admin (all).`,
		Example: `  atoll token create --name ci --owner team/ci --expires 90d
  atoll token create --scope read --name dashboard > token
  atoll login atoll.example.com --token-stdin < token`,
		Args: app.CheckArgCount(0, 0, "no arguments (the name goes into --name)"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if role != "" {
				scopes = nil
			}
			t, err := wantedToken(name, owner, expires, role, scopes)
			if err != nil {
				return err
			}
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			made, err := c.CreateToken(cmd.Context(), t)
			if err != nil {
				return err
			}
			if made.Secret, err = keyForm(made.Secret, asE2B, asDaytona); err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(made)
			}
			a.Progress("atoll: token %s of %s may %s; it %s. This is its secret, shown once:", made.ID, made.Owner, scopesText(made.Scopes), output.FormatExpiry(made.Expires))
			_, err = fmt.Fprintln(a.Out, made.Secret)
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&name, "name", "n", "", "`NAME` for people")
	fl.StringVar(&owner, "owner", "", "`APP/USER` that it acts for (default: yourself)")
	fl.StringSliceVar(&scopes, "scope", []string{"read", "run"}, "what it `ALLOWS`: read, run, host, operate, admin (repeatable)")
	fl.StringVar(&role, "role", "", "`ROLE` instead of scopes: viewer, user, operator, admin")
	cmd.MarkFlagsMutuallyExclusive("scope", "role")
	fl.BoolVar(&asE2B, "e2b", false, "print the secret as an API key of E2B, for its SDKs")
	fl.BoolVar(&asDaytona, "daytona", false, "print the secret as an API key of Daytona, for its SDKs")
	cmd.MarkFlagsMutuallyExclusive("e2b", "daytona")
	fl.StringVar(&expires, "expires", "never", "`DURATION` until it is useless, like 90d")
	return cmd
}

// keyForm returns the secret of a token in the form that SDKs need.
func keyForm(secret string, asE2B, asDaytona bool) (string, error) {
	switch {
	case asE2B:
		return fleet.E2BKey(secret)
	case asDaytona:
		return fleet.DaytonaKey(secret)
	}
	return secret, nil
}

// wantedToken builds what the flags ask for, or names every mistake.
func wantedToken(name, owner, expires, role string, scopes []string) (atoll.Token, error) {
	t := atoll.Token{Name: name, Role: atoll.Role(role)}
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
	if role != "" {
		if _, err := t.Role.Scopes(); err != nil {
			errs = append(errs, fmt.Errorf("--role: %w: %w", atoll.ErrInvalid, err))
		}
	} else if err := atoll.CheckScopes(t.Scopes); err != nil {
		errs = append(errs, fmt.Errorf("--scope: %w", err))
	}
	d, err := config.ParseDuration(expires)
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

// linkText formats the target of a link token: SANDBOX or SANDBOX/TERMINAL.
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

func (a commands) tokenLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Example: "  atoll token ls",
		Short:   "List valid tokens",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Tokens(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			rows := [][]string{{"ID", "NAME", "OWNER", "SCOPES", "LINK", "CREATED", "EXPIRES", "USED"}}
			for _, t := range list {
				rows = append(rows, []string{t.ID, cmp.Or(t.Name, loginText(t)), t.Owner.String(), scopesText(t.Scopes), linkText(t.Link), output.FormatAgo(t.Created), output.FormatUntil(t.Expires), output.FormatAgo(t.Used)})
			}
			return a.PrintTable(rows)
		},
	}
}

// loginText describes the login that a token was given for; empty: it was given for none.
func loginText(t atoll.Token) string {
	if t.Provider == "" {
		return ""
	}
	return "(" + t.Provider + ": " + t.Subject + ")"
}

func (a commands) tokenRm() *cobra.Command {
	return a.RemovalCommand(&cobra.Command{
		Use: "rm TOKEN...", Aliases: []string{"remove", "revoke"},
		Example: "  atoll token rm TOKEN                'atoll token ls' lists their ids",
		Short:   "Revoke tokens",
		Args:    app.CheckArgCount(1, -1, "tokens"),
	}, func(ctx context.Context, c *app.Connection) (ids []string, err error) {
		list, err := c.Tokens(ctx)
		for _, t := range list {
			ids = append(ids, t.ID)
		}
		return ids, err
	}, func(ctx context.Context, c *app.Connection, key string) error { return c.RevokeToken(ctx, key) })
}
