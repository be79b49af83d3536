// Package cli is the command line of atoll. Each package below it has the commands of
// one group of 'atoll --help', or what several groups share.
package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/about"
	"github.com/atoll-sandbox/atoll/internal/cli/agent"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/network"
	"github.com/atoll-sandbox/atoll/internal/cli/project"
	"github.com/atoll-sandbox/atoll/internal/cli/sandbox"
	"github.com/atoll-sandbox/atoll/internal/cli/server"
	"github.com/atoll-sandbox/atoll/internal/cli/storage"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/cli/version"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// Run runs one command of atoll and returns its exit status.
func Run(ctx context.Context, args []string, io tty.Streams, w app.Wiring) int {
	a := &app.App{Streams: io, Wiring: w}
	root := newRootCommand(a, neededCommand(args))
	root.SetArgs(args)
	err := explainFlagGroup(root.ExecuteContext(ctx))
	if exitcode.IsNotice(err) && ctx.Err() == nil {
		a.Progress("atoll: %v", err)
		err = nil
	}
	err = errors.Join(err, a.Disconnect(ctx), a.CloseDrivers())
	var silent exitcode.Silent
	if err == nil || errors.As(err, &silent) {
		return exitcode.Of(err)
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", err)
	}
	if errors.Is(err, syscall.EPIPE) {
		return exitcode.BrokenPipe
	}
	a.PrintError(err)
	if ctx.Err() != nil {
		return exitcode.Interrupted
	}
	return exitcode.Of(err)
}

// explainFlagGroup words the error of cobra for flags that exclude each other.
func explainFlagGroup(err error) error {
	if err == nil {
		return nil
	}
	const begin, set = "if any flags in the group [", "none of the others can be; ["
	text := err.Error()
	_, list, ok := strings.Cut(text, set)
	if list, _, ended := strings.Cut(list, "]"); ok && ended && strings.HasPrefix(text, begin) {
		return fmt.Errorf("%w: --%s exclude each other: give one of them", atoll.ErrInvalid, strings.Join(strings.Fields(list), " and --"))
	}
	return err
}

// flagError adds to the error of a flag a hint: a flag of a similar name, or the command's
// help.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 { // its flags are not to blame
		return app.UnknownCommand(cmd, cmd.Flags().Args())
	}
	hint := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint = suggest.Hint("--"+unknown.GetSpecifiedName(), names)
	}
	return fmt.Errorf("%w: %w%s\nsee '%s --help'", atoll.ErrInvalid, err, hint, cmd.CommandPath())
}

// NewRootCommand builds the tree of all commands.
func NewRootCommand(a *app.App) *cobra.Command { return newRootCommand(a, "") }

// neededCommand returns the name of the only command of the first level that a call with these
// arguments needs. Empty means all: for help and completion, after a flag, and for an alias.
func neededCommand(args []string) string {
	if len(args) == 0 {
		return ""
	}
	for _, g := range groups {
		for _, e := range g.commands(nil) {
			if e.Name == args[0] {
				return e.Name
			}
		}
	}
	return ""
}

// newRootCommand builds the root command with the command of the first level that is named only, or
// with all.
func newRootCommand(a *app.App, only string) *cobra.Command {
	root := &cobra.Command{
		Use:   "atoll",
		Short: "Run AI agents in sandboxes",
		Long: `atoll runs AI agents in sandboxes.

A sandbox is an isolated computer: it runs commands and keeps files, and sees
nothing of this machine that you did not name.`,
		Example: `  atoll demo                        show what a sandbox can do
  atoll run -- uname -a             run one command in a new sandbox
  atoll create --name box           create a sandbox
  atoll shell box                   open a shell in it
  atoll up claude                   let an agent work on this repository`,
		SilenceUsage: true, SilenceErrors: true,
		Args:                       app.UnknownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE:          func(cmd *cobra.Command, _ []string) error { return a.Configure(cmd) },
		SuggestionsMinimumDistance: 2,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(flagError)
	root.Version = version.Build().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages |", "Flags.FlagUsagesWrapped 80 |"))
	f := root.PersistentFlags()
	f.StringVar(&a.DriverName, "driver", "", "`DRIVER` of new sandboxes (default virtual, for projects the strongest that works here; $ATOLL_DRIVER)")
	f.StringVar(&a.Home, "home", "", "state `DIRECTORY` (default ~/.local/share/atoll; $ATOLL_HOME)")
	f.StringVar(&a.HostFlag, "host", "", "`URL` of the server: https://HOST[:PORT] or unix:///PATH ($ATOLL_HOST, with $ATOLL_TOKEN)")
	f.String("context", "", "`NAME` of a server that you logged in to; local is this machine ($ATOLL_CONTEXT)")
	f.BoolVar(&a.JSON, "json", false, "print results as JSON")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "print results only, no progress")
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, e := range g.commands(a) {
			if only == "" || only == e.Name {
				c := e.New()
				c.GroupID = g.id
				root.AddCommand(c)
			}
		}
	}
	a.CompleteFlags(root)
	addCommon(a, root)
	root.AddCommand(exitCodesTopic())
	root.SetHelpCommandGroupID("about")
	root.SetCompletionCommandGroupID("about")
	return root
}

// groups are the groups of commands that the help shows, in its order; each is a
// package.
var groups = []struct {
	id, title string
	commands  func(*app.App) []app.Entry
}{
	{"project", "Projects:", project.Commands},
	{"sandbox", "Sandboxes:", sandbox.Commands},
	{"network", "Ports and networks:", network.Commands},
	{"agent", "Agents:", agent.Commands},
	{"storage", "Snapshots, files and images:", storage.Commands},
	{"server", "Servers:", server.Commands},
	{"about", "About atoll:", about.Commands},
}
