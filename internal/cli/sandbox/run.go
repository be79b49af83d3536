package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// execFlags say how a command runs.
type execFlags struct {
	text    string
	timeout time.Duration
	workdir string
	output  string
}

func (f *execFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&f.text, "command", "c", "", "shell text to run, instead of a program")
	fl.DurationVar(&f.timeout, "timeout", 0, "end the command after this `DURATION`, with status 124 (default: --exec-timeout of the sandbox; 0: no limit)")
	fl.StringVarP(&f.workdir, "workdir", "w", "", "working `DIRECTORY` of the command")
	fl.StringVar(&f.output, "max-output", "", "`SIZE` of each stream that --json keeps (default 10m)")
}

// buildCmd builds the command from the words behind the flags.
func (f *execFlags) buildCmd(c *cobra.Command, args []string) (atoll.Cmd, error) {
	if len(args) > 0 && args[0] == "--" { // behind a sandbox's name, flags have ended already
		args = args[1:]
	}
	cmd := atoll.Cmd{Args: args, Shell: f.text, Dir: f.workdir, Timeout: f.timeout}
	if c.Flags().Changed("timeout") && f.timeout <= 0 {
		cmd.Timeout = -1
	}
	if f.text != "" && len(args) > 0 {
		return cmd, fmt.Errorf("%w: give either -c TEXT or a program, not both", atoll.ErrInvalid)
	}
	if f.text == "" && len(args) == 0 {
		return cmd, fmt.Errorf("%w: nothing to run: %s -- PROGRAM ARG…, or -c 'shell text'", atoll.ErrInvalid, c.CommandPath())
	}
	if f.output != "" {
		n, err := config.ParseSize(f.output)
		if err != nil {
			return cmd, fmt.Errorf("%w: --max-output %q: %w", atoll.ErrInvalid, f.output, err)
		}
		cmd.MaxOutput = n
	}
	return cmd, nil
}

func (a commands) runCommand() *cobra.Command {
	var f sandboxflag.Flags
	var x execFlags
	var keep bool
	var how execHow
	cmd := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARG...]",
		Short: "Run a command in a new sandbox",
		Long: `Run a command in a new sandbox and remove the sandbox afterwards. The exit
status is that of the command; see 'atoll help exit-codes'. The sandbox is not
registered, and a virtual one exists in memory only, unless it needs --keep, a
workspace, a pool, secrets or --prepare.`,
		Example: `  atoll run -- sh -c 'seq 10 | paste -sd+ | bc'
  echo 'echo hi from a script' | atoll run -- sh
  atoll run --driver namespace -it -- bash
  atoll run --json --timeout 2s -- sh -c 'while :; do :; done'`,
		RunE: func(c *cobra.Command, args []string) error {
			cmd, err := x.buildCmd(c, args)
			if err != nil {
				return err
			}
			cfg, err := f.Config(a.Config, a.HasVMs(c.Context()))
			if err != nil {
				return err
			}
			for name := range a.Config.FlagsOnly().Settings {
				if strings.HasPrefix(name, "defaults.lifecycle.") && !keep {
					return fmt.Errorf("%w: --%s is for a sandbox that stays: say --keep too", atoll.ErrInvalid, config.FindKey(name).Flag)
				}
			}
			how.allow = "--allow"
			away, err := a.IsRemote()
			if err != nil {
				return err
			}
			if keep || away || a.SharesRegistry() || f.NeedsFleet(a.Config) {
				return a.runInFleet(c.Context(), cfg, cmd, how, keep)
			}
			return a.runHere(c.Context(), cfg, cmd, how)
		},
	}
	cmd.Flags().SetInterspersed(false)
	x.add(cmd)
	f.AddAll(cmd)
	f.AddFleet(cmd)
	f.AddLifecycle(cmd)
	cmd.Flags().BoolVarP(&how.tty, "tty", "t", false, "allocate a terminal; standard input only with -i")
	cmd.Flags().BoolVarP(&how.interactive, "interactive", "i", false, "with -t, pass standard input; without -t it is always passed")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the sandbox afterwards")
	return cmd
}

// runHere creates an unregistered sandbox, runs the command and destroys the sandbox.
func (a commands) runHere(ctx context.Context, cfg atoll.Config, cmd atoll.Cmd, how execHow) (err error) {
	bar := a.NewProgressBar()
	cfg.Progress = bar.Update
	sb, end, err := a.createUnregistered(ctx, cfg.Spec)
	bar.Finish()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end(ctx)) }()
	return a.exec(ctx, sb, cmd, how)
}

// createUnregistered creates a sandbox that is in no registry. It returns the sandbox and the
// function that removes it.
func (a commands) createUnregistered(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, func(context.Context) error, error) {
	if a.SharesRegistry() {
		return nil, nil, fmt.Errorf("%w: a sandbox that no registry knows: the other servers would take it for theirs; make one with 'atoll create' and name it here", atoll.ErrUnsupported)
	}
	d, err := a.Driver()
	if err != nil {
		return nil, nil, err
	}
	memory, ok := a.InMemory(d)
	if !ok {
		if err := a.CheckHome(); err != nil {
			return nil, nil, err
		}
		return fleet.CreateStandalone(ctx, a.Home, d, spec)
	}
	sb, err := memory.Create(ctx, spec) // memory is enough
	if err != nil {
		return nil, nil, err
	}
	return sb, func(ctx context.Context) error { return sb.Destroy(context.WithoutCancel(ctx)) }, nil
}

// runInFleet does the same in the fleet, where the sandbox may stay.
func (a commands) runInFleet(ctx context.Context, cfg atoll.Config, cmd atoll.Cmd, how execHow, keep bool) (err error) {
	if !keep {
		cfg.Lifecycle = atoll.Lifecycle{Policy: atoll.PolicyOneshot}
	}
	sb, err := a.CreateSandbox(ctx, cfg)
	if err != nil {
		return err
	}
	if keep {
		info, err := sb.Info(ctx)
		if err != nil {
			return err
		}
		a.Progress("atoll: kept as %s", output.SandboxName(info.Status))
	} else {
		defer func() { err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx))) }()
	}
	return a.exec(ctx, sb, cmd, how)
}

// exec runs a command with the terminal's streams, or collects all of it for
// --json, and returns its exit status.
func (a commands) exec(ctx context.Context, sb atoll.Sandbox, cmd atoll.Cmd, how execHow) error {
	switch {
	case how.tty && a.JSON:
		return fmt.Errorf("%w: -t and --json: what a terminal shows is not collected", atoll.ErrInvalid)
	case how.tty:
		if how.interactive {
			cmd.Stdin = a.In
		}
		return exitcode.FromExit(a.ExecOnTerminal(ctx, sb, cmd))
	}
	cmd.Stdin = a.In
	if a.JSON {
		return a.execJSON(ctx, sb, cmd)
	}
	cmd.Stdout, cmd.Stderr = a.Out, a.Err
	began := time.Now()
	exit, err := sb.Exec(ctx, cmd)
	if err != nil || exit.Code != 0 {
		a.explainFailure(ctx, sb, cmd, exit, how.allow, began)
	}
	return exitcode.FromExit(exit, err)
}

// explainFailure explains on stderr why a command failed that began at a time: it is no program, or the rules of the
// network denied a connection, which many programs report as a name that does not exist.
func (a commands) explainFailure(ctx context.Context, sb atoll.Sandbox, cmd atoll.Cmd, exit atoll.Exit, allow string, began time.Time) {
	switch {
	case ctx.Err() != nil || a.Quiet:
	case exit.Code == 127 && len(cmd.Args) == 1 && strings.ContainsAny(cmd.Args[0], " \t\n;|&<>"):
		a.Progress("atoll: the command is one program, %q; a line for a shell is run by: sh -c LINE", cmd.Args[0])
	default:
		app.PrintDenials(ctx, sb, allow, began, a.Progress)
	}
}

func (a commands) execJSON(ctx context.Context, sb atoll.Sandbox, cmd atoll.Cmd) error {
	start := time.Now()
	exit, err := sb.Exec(ctx, cmd)
	if err != nil && exit.Duration == 0 {
		return err // it never ran
	}
	r := atoll.Result{
		Command: cmd.Shell, Stdout: string(exit.Stdout), Stderr: string(exit.Stderr), ExitCode: exit.Code,
		Success: err == nil && exit.Code == 0, Duration: exit.Duration, Truncated: exit.Truncated, Time: start,
	}
	if cmd.Shell == "" {
		r.Command = strings.Join(cmd.Args, " ")
	}
	code := exit.Code
	if err != nil {
		r.Error = err.Error()
		code = exitcode.Failed
		if errors.Is(err, atoll.ErrTimeout) {
			code = exitcode.Timeout
		}
		r.ExitCode = code
	}
	if err := a.PrintJSON(jsonResult{r, notText(exit.Stdout), notText(exit.Stderr)}); err != nil {
		return err
	}
	if code != 0 {
		return exitcode.Silent(code)
	}
	return nil
}

// jsonResult is a result with its output as it was, where JSON's strings
// can't hold it.
type jsonResult struct {
	atoll.Result
	StdoutBytes []byte `json:"stdout_base64,omitempty"`
	StderrBytes []byte `json:"stderr_base64,omitempty"`
}

// notText returns b unless it is text, which JSON's strings hold as it is.
func notText(b []byte) []byte {
	if utf8.Valid(b) {
		return nil
	}
	return b
}

// emptyReader is standard input for commands that must not wait for a person.
type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, io.EOF }
