// Command atoll gives every AI agent a computer of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/klog/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/spell"
)

// Exit statuses of atoll itself. A command that runs one in a sandbox ends
// with that command's own status.
const (
	exitTimeout     = 124 // the command in the sandbox passed its deadline
	exitOurs        = 125 // atoll could not do what was asked
	exitInterrupted = 130 // Ctrl-C
	exitPipe        = 141 // nobody reads the output any more
)

func main() { os.Exit(start()) }

// start runs atoll with the process's own arguments, streams and signals.
func start() int {
	klog.SetLogger(logr.Discard()) // client-go writes to standard error what its errors say, too
	signal.Ignore(syscall.SIGPIPE) // a write to a closed pipe is an error like others: what was done is kept
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return run(ctx, arguments(os.Args), streams{os.Stdin, os.Stdout, os.Stderr})
}

// streams are the terminal's or the pipes' ends.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// isTerminal reports whether a stream is one that a person looks at.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// status is an error that is only the exit status of a command: it has
// nothing to say.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// run is the whole program but for its exit.
func run(ctx context.Context, args []string, io streams) int {
	a := &app{streams: io}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	err = errors.Join(err, a.hangUp(ctx), a.release())
	var st status
	switch {
	case err == nil:
		return 0
	case errors.As(err, &st):
		return int(st)
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", err)
	}
	if errors.Is(err, syscall.EPIPE) {
		return exitPipe
	}
	a.complain(err)
	var documented exit
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &documented):
		return documented.code
	case errors.Is(err, atoll.ErrTimeout):
		return exitTimeout
	}
	return exitOurs
}

// complain prints an error for people, or for programs with --json.
func (a *app) complain(err error) {
	if a.json {
		_ = a.print(map[string]any{"error": err.Error(), "kind": kind(err)}) // stdout is gone: there is nowhere else
		return
	}
	fmt.Fprintf(a.err, "atoll: %s\n", lines(strings.TrimRight(err.Error(), "\n"), "       "))
}

// lines makes text that may come from elsewhere safe for a terminal, line by
// line, each but the first after an indent.
func lines(text, indent string) string {
	list := strings.Split(strings.ReplaceAll(text, "\t", "    "), "\n")
	for i, l := range list {
		list[i] = plain(l)
	}
	return strings.Join(list, "\n"+indent)
}

// kinds name the reasons of errors for programs.
var kinds = []struct {
	err  error
	name string
}{
	{atoll.ErrNotFound, "not_found"},
	{atoll.ErrExists, "exists"},
	{atoll.ErrInvalid, "invalid"},
	{atoll.ErrState, "state"},
	{atoll.ErrQuota, "quota"},
	{atoll.ErrUnavailable, "unavailable"},
	{atoll.ErrUnsupported, "unsupported"},
	{atoll.ErrTimeout, "timeout"},
	{atoll.ErrDenied, "denied"},
	{context.Canceled, "interrupted"},
}

func kind(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "error"
}

// noSuchCommand says what a mistyped command could have meant.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("%w: there is no command %q%s\nsee '%s --help'", atoll.ErrInvalid, args[0], spell.Hint(args[0], names), cmd.CommandPath())
}

// flagError says what is wrong with a flag, and what a mistyped one could have
// meant.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 { // its flags are not to blame
		return noSuchCommand(cmd, cmd.Flags().Args())
	}
	hint := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint = spell.Hint("--"+unknown.GetSpecifiedName(), names)
	}
	return fmt.Errorf("%w: %w%s\nsee '%s --help'", atoll.ErrInvalid, err, hint, cmd.CommandPath())
}

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "atoll",
		Short: "A computer of its own for every AI agent",
		Long: `atoll gives every AI agent a computer of its own.

A sandbox runs commands and holds files behind a wall; nothing of this machine
reaches inside unless you name it. Try:

  atoll demo                                  see it work
  atoll run -- sh -c 'echo hi | tr a-z A-Z'   one command in a new sandbox
  atoll create --name box                     a sandbox that stays
  atoll shell box                             work in it
  atoll up claude                             an agent at work on this git repository`,
		SilenceUsage: true, SilenceErrors: true,
		Args:                       noSuchCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE:          func(cmd *cobra.Command, _ []string) error { return a.configure(cmd) },
		SuggestionsMinimumDistance: 2,
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	f := root.PersistentFlags()
	f.StringVar(&a.driverName, "driver", "", "what builds the sandbox (default \"virtual\", of projects the best wall here; see 'atoll drivers'; $ATOLL_DRIVER)")
	f.StringVar(&a.home, "home", "", "directory that sandboxes are kept in (default ~/.local/share/atoll; $ATOLL_HOME)")
	f.StringVar(&a.hostFlag, "host", "", "server to talk to: https://HOST[:PORT] or unix:///PATH ($ATOLL_HOST, with $ATOLL_TOKEN)")
	f.String("context", "", "which of the servers you know to talk to; local: this machine ($ATOLL_CONTEXT)")
	f.BoolVar(&a.json, "json", false, "print results as JSON, for programs")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no progress, only results")
	root.AddGroup(
		&cobra.Group{ID: "project", Title: "Work on a repository:"},
		&cobra.Group{ID: "sandbox", Title: "Sandboxes:"},
		&cobra.Group{ID: "work", Title: "Work in one:"},
		&cobra.Group{ID: "agent", Title: "Let agents work:"},
		&cobra.Group{ID: "time", Title: "Go back, or double it:"},
		&cobra.Group{ID: "keep", Title: "Besides sandboxes:"},
		&cobra.Group{ID: "fleet", Title: "Servers:"},
		&cobra.Group{ID: "self", Title: "About atoll:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("project", a.upCommand(), a.downCommand(), a.statusCommand(), a.initCommand())
	add("project", a.syncCommand(), a.diffCommand(), a.logCommand(), a.mergeCommand(), a.applyCommand(), a.restoreCommand(), a.worktreeCommand(), a.gitRemoteCommand())
	add("sandbox", a.runCommand(), a.createCommand(), a.lsCommand(), a.inspectCommand(), a.startCommand(), a.stopCommand(), a.pauseCommand(), a.resumeCommand(), a.rmCommand(), a.topCommand())
	add("work", a.execCommand(), a.shellCommand(), a.cpCommand(), a.statsCommand(), a.historyCommand(), a.logsCommand(), a.psCommand(), a.attachCommand(), a.killCommand(), a.terminalCommand(), a.portCommand(), a.namesCommand(), a.openCommand(), a.sshCommand(), a.networkCommand())
	add("agent", a.agentCommand(), a.acpCommand(), a.chatCommand(), a.assistantCommand(), a.turnCommand(), a.skillCommand())
	add("time", a.snapshotCommand(), a.forkCommand())
	add("keep", a.workspaceCommand(), a.diskCommand(), a.imageCommand(), a.poolCommand())
	add("fleet", a.serveCommand(), a.mcpCommand(), a.contextCommand(), a.loginCommand(), a.logoutCommand(), a.tokenCommand(), a.quotaCommand(), a.eventsCommand(), a.auditCommand())
	add("self", a.driversCommand(), a.doctorCommand(), a.demoCommand(), a.configCommand(), a.configSSHCommand(), a.versionCommand())
	root.SetHelpCommandGroupID("self")
	root.SetCompletionCommandGroupID("self")
	return root
}
