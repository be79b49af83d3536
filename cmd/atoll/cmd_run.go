package main

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
	"github.com/atoll-sandbox/atoll/driver/virtual"
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
	fl.DurationVar(&f.timeout, "timeout", 0, "end the command after this long, with status 124 (default 30s; 0: none)")
	fl.StringVarP(&f.workdir, "workdir", "w", "", "directory inside to run it in")
	fl.StringVar(&f.output, "max-output", "", "how much of each stream --json keeps (default 10m)")
}

// cmd builds the command from the words behind the flags.
func (f *execFlags) cmd(c *cobra.Command, args []string) (atoll.Cmd, error) {
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
		n, err := parseSize(f.output)
		if err != nil {
			return cmd, fmt.Errorf("%w: --max-output %q: %w", atoll.ErrInvalid, f.output, err)
		}
		cmd.MaxOutput = n
	}
	return cmd, nil
}

func (a *app) runCommand() *cobra.Command {
	var f specFlags
	var x execFlags
	var keep bool
	var how execHow
	cmd := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARG...]",
		Short: "Run one command in a new sandbox, then remove it",
		Long: `Run one command in a new sandbox, then remove it. Input and output go through;
the exit status is the command's own, 124 when it passed its deadline, 125 when
atoll could not run it, 126 or 127 when the program can't be executed or found.
On this machine no registry knows of the sandbox, and a virtual one is only in memory,
unless it is to be kept or needs a workspace, a pool, secrets or steps to prepare it.`,
		Example: `  atoll run -- sh -c 'seq 10 | paste -sd+ | bc'
  echo 'echo hi from a script' | atoll run -- sh
  atoll run --driver namespace -it -- bash
  atoll run --json --timeout 2s -- sh -c 'while :; do :; done'`,
		RunE: func(c *cobra.Command, args []string) error {
			cmd, err := x.cmd(c, args)
			if err != nil {
				return err
			}
			cfg, err := f.config(a.config)
			if err != nil {
				return err
			}
			for name := range a.config.flagsOnly().settings {
				if strings.HasPrefix(name, "defaults.lifecycle.") && !keep {
					return fmt.Errorf("%w: --%s is for a sandbox that stays: say --keep too", atoll.ErrInvalid, findKey(name).flag)
				}
			}
			away, err := a.elsewhere()
			if err != nil {
				return err
			}
			if keep || away || a.sharing() || f.needsFleet(a.config) {
				return a.runInFleet(c.Context(), cfg, cmd, how, keep)
			}
			return a.runHere(c.Context(), cfg, cmd, how)
		},
	}
	cmd.Flags().SetInterspersed(false)
	x.add(cmd)
	f.add(cmd)
	f.addFleet(cmd)
	f.addLife(cmd)
	cmd.Flags().BoolVarP(&how.tty, "tty", "t", false, "give the command a terminal; standard input only with -i")
	cmd.Flags().BoolVarP(&how.interactive, "interactive", "i", false, "with -t, pass what is typed; without it, standard input is passed anyway")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the sandbox there afterwards")
	return cmd
}

// runHere creates, executes and destroys, without a fleet: nobody will look for
// the sandbox again.
func (a *app) runHere(ctx context.Context, cfg atoll.Config, cmd atoll.Cmd, how execHow) (err error) {
	bar := a.newParts()
	cfg.Progress = bar.step
	sb, end, err := a.lone(ctx, cfg.Spec)
	bar.end()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end(ctx)) }()
	return a.exec(ctx, sb, cmd, how)
}

// lone makes a sandbox that nobody else looks for, and returns how it ends.
func (a *app) lone(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, func(context.Context) error, error) {
	if a.sharing() {
		return nil, nil, fmt.Errorf("%w: a sandbox that no registry knows: the other servers would take it for theirs; make one with 'atoll create' and name it here", atoll.ErrUnsupported)
	}
	d, err := a.driver()
	if err != nil {
		return nil, nil, err
	}
	if _, ok := d.(*virtual.Driver); !ok {
		if err := a.homed(); err != nil {
			return nil, nil, err
		}
		return fleet.Lone(ctx, a.home, d, spec)
	}
	sb, err := virtual.New().Create(ctx, spec) // memory is enough
	if err != nil {
		return nil, nil, err
	}
	return sb, func(ctx context.Context) error { return sb.Destroy(context.WithoutCancel(ctx)) }, nil
}

// runInFleet does the same in the fleet, where the sandbox may stay.
func (a *app) runInFleet(ctx context.Context, cfg atoll.Config, cmd atoll.Cmd, how execHow, keep bool) (err error) {
	if !keep {
		cfg.Lifecycle = atoll.Lifecycle{Policy: atoll.PolicyOneshot}
	}
	sb, err := a.create(ctx, cfg)
	if err != nil {
		return err
	}
	if keep {
		info, err := sb.Info(ctx)
		if err != nil {
			return err
		}
		a.progress("atoll: kept as %s", label(info.Status))
	} else {
		defer func() { err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx))) }()
	}
	return a.exec(ctx, sb, cmd, how)
}

// exec runs a command with the terminal's streams, or collects all of it for
// --json, and returns its exit status.
func (a *app) exec(ctx context.Context, sb atoll.Sandbox, cmd atoll.Cmd, how execHow) error {
	switch {
	case how.tty && a.json:
		return fmt.Errorf("%w: -t and --json: what a terminal shows is not collected", atoll.ErrInvalid)
	case how.tty:
		if how.interactive {
			cmd.Stdin = a.in
		}
		return outcome(a.onTerminal(ctx, sb, cmd))
	}
	cmd.Stdin = a.in
	if a.json {
		return a.execJSON(ctx, sb, cmd)
	}
	cmd.Stdout, cmd.Stderr = a.out, a.err
	exit, err := sb.Exec(ctx, cmd)
	return outcome(exit, err)
}

// outcome is the error to end atoll with after a command.
func outcome(exit atoll.Exit, err error) error {
	switch {
	case err != nil:
		return err
	case exit.Code != 0:
		return status(exit.Code)
	}
	return nil
}

func (a *app) execJSON(ctx context.Context, sb atoll.Sandbox, cmd atoll.Cmd) error {
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
		code = exitOurs
		if errors.Is(err, atoll.ErrTimeout) {
			code = exitTimeout
		}
		r.ExitCode = code
	}
	if err := a.print(jsonResult{r, notText(exit.Stdout), notText(exit.Stderr)}); err != nil {
		return err
	}
	if code != 0 {
		return status(code)
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

// nothing is standard input for commands that must not wait for a person.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }
