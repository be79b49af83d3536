package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-sandbox/atoll"
	agentrun "github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/attach"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/project/projectfile"
)

// upFlags say what 'atoll up' does.
type upFlags struct {
	spec                   sandboxflag.Flags
	agent                  string
	branch                 branchFlags
	fresh, clean, noAttach bool
	trust                  bool
	before                 attach.Options
	fixed                  []string // flags that were said and count for a new sandbox only
}

// onlyNew are the flags of 'up' that say nothing to a sandbox that is there.
var onlyNew = []string{"clean", "image", "memory", "disk", "cpus", "vcpus", "nested", "no-nested", "network", "allow", "env", "env-file"}

func (a commands) upCommand() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up [AGENT] [PATH] [TASK]",
		Short: "Work on this repository in a sandbox",
		Long: `Work on this repository in a sandbox: create it, upload your branches and
uncommitted changes, and attach to its terminal. With an AGENT (claude, codex,
gemini, opencode, cursor), that agent works there without asking, since the
sandbox isolates it. 'atoll sync' fetches the work, 'atoll down' stops the
sandbox.

The sandbox has the repository, your git name and e-mail, and what you name,
nothing else of this machine. Run again, 'atoll up' finds the sandbox of this
working tree, starts it if it is stopped, and resumes.

With --branch, the work is on a branch of its own: a working tree, a terminal
and ports. With a TASK, the agent works on that in the background, and several
agents can work at once: 'atoll agents' lists them, 'atoll review' shows their
work and sends them your comments. Run it again for another branch, or for the
next task of one.

Settings are read from .atoll.yaml ('atoll init' writes one) and
devcontainer.json. Settings that weaken the isolation need your consent, or
--trust. See docs/projects.md.

The exit status is 3 with --no-attach if the sandbox runs already.`,
		Example: `  atoll up
  atoll up claude
  atoll up --no-attach ~/src/web
  atoll up claude --branch fix-login "fix the failing login test"
  atoll up codex --network nat --memory 4g`,
		Args:              cobra.ArbitraryArgs, // takeTask checks them
		ValidArgsFunction: completeUp,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := f.parseArguments(args)
			if err != nil {
				return err
			}
			cmd.Flags().Visit(func(fl *pflag.Flag) {
				if slices.Contains(onlyNew, fl.Name) {
					f.fixed = append(f.fixed, "--"+fl.Name)
				}
			})
			if dir != "." {
				if a.Config, a.ConfigErr = config.LoadAt(dir, config.FlagValues(cmd)); a.ConfigErr != nil {
					return a.ConfigErr
				}
			}
			if err := a.readTask(&f.branch); err != nil {
				return err
			}
			if f.before.Record != "" && !a.willAttach(&f) {
				return fmt.Errorf("%w: --record needs an attached terminal; 'atoll terminal record' records without attaching", atoll.ErrInvalid)
			}
			if err := f.before.Check(); err != nil {
				return err
			}
			return a.runUp(cmd.Context(), &f, dir)
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.agent, "agent", "", "`AGENT` that works there; the same as the argument")
	fl.BoolVar(&f.noAttach, "no-attach", false, "don't attach to the terminal: print the sandbox's name")
	f.before.AddRecordFlag(cmd)
	f.branch.add(fl)
	fl.BoolVar(&f.fresh, "fresh", false, "replace the sandbox; its work is saved first ('atoll restore')")
	fl.BoolVar(&f.clean, "clean", false, "leave out uncommitted changes")
	fl.String("sync-mode", "", "`MODE` of syncs: manual, auto-commit or auto-idle (default manual)")
	fl.BoolVar(&f.trust, "trust", false, "consent to the settings of the repository")
	fl.StringVarP(&f.spec.Name, "name", "n", "", "`NAME` of the sandbox (default: that of the directory)")
	fl.String("image", "", "`IMAGE` of the root file system; it must have git")
	fl.String("memory", "", "limit of memory, a `SIZE` like 4g")
	fl.String("disk", "", "limit of all files, a `SIZE` like 10g; of a VM, of each of its two disks")
	fl.String("cpus", "", "limit of processors, a `NUMBER` like 1.5")
	fl.Var(&sandboxflag.VCPUs{Flag: fl.Lookup("cpus")}, "vcpus", "`NUMBER` of virtual processors of a VM: like --cpus, in whole processors")
	fl.Bool("nested", true, "allow nested VMs, if this host can (--no-nested: never)")
	no := fl.VarPF(&sandboxflag.Negation{Flag: fl.Lookup("nested")}, "no-nested", "", "the opposite of --nested")
	no.NoOptDefVal = "true"
	fl.String("network", "", "`MODE`: none, nat, bridge or open (default none)")
	fl.StringArray("allow", nil, "allow `HOST`: NAME, *.NAME:PORT, NAME=ADDRESS or a URL prefix (repeatable)")
	fl.StringArrayVarP(&f.spec.Env, "env", "e", nil, "environment variable `NAME=VALUE`, or NAME to copy it from here (repeatable)")
	fl.StringArrayVar(&f.spec.EnvFiles, "env-file", nil, "`FILE` of NAME=VALUE lines (repeatable)")
	return cmd
}

// parseArguments reads the agent and the directory.
func (f *upFlags) parseArguments(args []string) (dir string, err error) {
	dir = "."
	if args, err = f.takeTask(args); err != nil {
		return "", err
	}
	for i, arg := range args {
		if _, err := findTerminalAgent(arg); err == nil && i == 0 && f.agent == "" {
			f.agent = arg
			continue
		}
		info, serr := os.Stat(arg)
		switch {
		case i == 0 && len(args) == 2 && f.agent == "":
			_, err := findTerminalAgent(arg)
			return "", err
		case dir != ".":
			return "", fmt.Errorf("%w: %s and %s: one directory", atoll.ErrInvalid, dir, arg)
		case serr != nil || !info.IsDir():
			err := fmt.Errorf("%w: directory %q", atoll.ErrNotFound, arg)
			if i == 0 && f.agent == "" && !strings.ContainsRune(arg, filepath.Separator) {
				_, err = findTerminalAgent(arg)
				err = fmt.Errorf("%w; and no directory here is called so", err)
			}
			return "", err
		}
		dir = arg
	}
	if f.agent != "" {
		_, err = findTerminalAgent(f.agent)
	}
	return dir, err
}

func completeUp(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		for _, r := range terminalAgents {
			names = append(names, r.name)
		}
	}
	return names, cobra.ShellCompDirectiveFilterDirs
}

// upRun is one 'atoll up'.
type upRun struct {
	*upFlags

	repo *project.Repo
	file *projectfile.File
	said map[string]string // projectfile.File.Made of it
	made bool              // the sandbox is of this call
	woke bool              // it has begun to run in this call
	tree pairing.Worktree  // of the branch that is named
	turn agentrun.Record   // of the task on it

	decided bool         // see app.decide
	config  atoll.Config // of a new sandbox, but for its name, once decided
	barrier isolation    // likewise
}

// upResult is the result of 'atoll up' as --json prints it.
type upResult struct {
	Sandbox   string `json:"sandbox"`
	ID        string `json:"id"`
	Created   bool   `json:"created"`
	Driver    string `json:"driver"`
	Isolation string `json:"isolation"`
	Terminal  string `json:"terminal"`
	Path      string `json:"path"`

	Branch string `json:"branch,omitempty"` // with --branch, as what follows
	Tree   string `json:"tree,omitempty"`   // its working tree in the sandbox
	Port   int    `json:"port,omitempty"`   // the first of its ports
	Turn   string `json:"turn,omitempty"`   // of the task
}

func (a commands) runUp(ctx context.Context, f *upFlags, dir string) error {
	repo, err := project.Open(ctx, dir)
	switch {
	case errors.Is(err, project.ErrNoRepository):
		return fmt.Errorf("%w\n'git init' makes it one", err)
	case err != nil:
		return err
	}
	r := &upRun{upFlags: f, repo: repo}
	if r.file, err = projectfile.Read(repo.Dir); err != nil {
		return err
	}
	r.said = r.file.CreationDigests()
	if err := a.EnsureServer(ctx); err != nil {
		if ctx.Err() != nil {
			return err
		}
		a.Progress("atoll: no server in the background: ports have no names and terminals no pages (%v)", err)
	}
	w, name, err := a.prepareSandbox(ctx, r)
	if err != nil {
		return err
	}
	if err := errors.Join(pairing.AddRemote(ctx, a.App, w), pairing.ReportRefusal(a.App, w), pairing.EnsureWatcher(a.App, w)); err != nil {
		return err
	}
	if !a.willAttach(f) {
		return a.tellUp(r, w, name)
	}
	a.Progress("%s: terminal %s; Ctrl-P Ctrl-Q leaves it running, 'atoll sync' brings the work home", w.Name(), name)
	err = attach.Terminal(ctx, a.App, w.Sandbox, w.Name(), name, f.before)
	var st exitcode.Silent
	if errors.As(err, &st) {
		return nil // how a shell ended is not how this did
	}
	return err
}

// willAttach reports whether 'atoll up' attaches to the terminal.
func (a commands) willAttach(f *upFlags) bool {
	return !f.noAttach && !a.JSON && f.branch.task == "" && tty.IsTerminal(a.In) && tty.IsTerminal(a.Out)
}

// tellUp prints the name of a sandbox when 'atoll up' does not attach.
func (a commands) tellUp(r *upRun, w *pairing.Pair, terminal string) error {
	if a.JSON {
		return a.PrintJSON(upResult{w.Name(), w.Info.ID, r.made, w.Info.Driver, w.Info.Isolation, terminal, w.Path, r.branch.name, r.tree.Path, r.tree.Port, r.turn.ID})
	}
	if r.branch.task != "" {
		a.Progress("%s: %s works on branch %s; 'atoll agents' shows how far it is, 'atoll review %[1]s %[3]s' its changes", w.Name(), r.turn.Agent, r.branch.name)
	}
	if terminal == w.Name() {
		a.Progress("'atoll attach %s' attaches to its terminal", w.Name())
	} else {
		a.Progress("'atoll attach %s %s' attaches to its terminal", w.Name(), terminal)
	}
	_, err := fmt.Fprintln(a.Out, w.Name())
	return err
}

// prepareSandbox makes or finds the sandbox, and everything in it, while no other call
// does so for this working tree. It returns the terminal to be before.
func (a commands) prepareSandbox(ctx context.Context, r *upRun) (w *pairing.Pair, terminal string, err error) {
	if err := os.MkdirAll(a.projectDir(r.repo), 0o700); err != nil {
		return nil, "", a.ExplainWriteError(err)
	}
	rel, err := filepath.Rel(a.Home, filepath.Join(a.projectDir(r.repo), "up.lock"))
	if err != nil {
		return nil, "", err
	}
	unlock, err := a.LockHome(ctx, rel)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	w, err = a.findExisting(ctx, r)
	if err != nil {
		return nil, "", err
	}
	if w != nil {
		changed, err := a.adaptSandbox(ctx, r, w)
		if err == nil {
			err = a.startExisting(ctx, r, w, changed)
		}
		switch {
		case errors.Is(err, atoll.ErrNotFound):
			w = nil // it was being removed, and is gone now
		case err != nil:
			return nil, "", err
		}
	}
	if w == nil {
		if w, err = a.createProject(ctx, r); err == nil {
			err = a.noteMade(r, w)
		}
		if err != nil {
			return nil, "", err
		}
	}
	if err := a.finishStages(ctx, r, w); err != nil {
		return nil, "", fmt.Errorf("sandbox %s: %w", w.Name(), err)
	}
	if r.branch.name != "" {
		terminal, err = a.openBranch(ctx, r, w)
	} else {
		terminal, err = a.openMainTerminal(ctx, r, w)
	}
	return w, terminal, err
}

// findExisting returns the sandbox of the working tree; nil: there is none, or it is to
// be made anew, and is gone.
func (a commands) findExisting(ctx context.Context, r *upRun) (*pairing.Pair, error) {
	all, err := pairing.ListOf(ctx, a.App, r.repo)
	if err != nil {
		return nil, err
	}
	if r.spec.Name != "" {
		all = slices.DeleteFunc(all, func(i atoll.Info) bool { return i.Name != r.spec.Name })
	}
	switch {
	case len(all) == 0:
		return nil, nil
	case len(all) > 1:
		var names []string
		for _, i := range all {
			names = append(names, output.SandboxName(i.Status))
		}
		return nil, fmt.Errorf("%s: %w: it has %d sandboxes, choose one with --name: %s", r.repo.Dir, atoll.ErrInvalid, len(all), strings.Join(names, ", "))
	}
	w, err := pairing.Open(ctx, a.App, all[0])
	if errors.Is(err, atoll.ErrNotFound) {
		return nil, nil // who made it was ended, and it is gone now
	}
	if err != nil || !r.fresh {
		return w, err
	}
	r.spec.Name = all[0].Name
	if err := a.decideSandbox(ctx, r); err != nil {
		return nil, fmt.Errorf("%w\nsandbox %s is as it was", err, w.Name())
	}
	if err := pairing.Rescue(ctx, a.App, w); err != nil {
		return nil, fmt.Errorf("%w\nit was not removed: 'atoll rm' does so without saving", err)
	}
	a.Progress("%s: removed, to be made anew", w.Name())
	return nil, w.Sandbox.Destroy(ctx)
}

// startExisting starts or resumes an existing sandbox. A running one is an error with
// --no-attach if there is nothing else to do.
func (a commands) startExisting(ctx context.Context, r *upRun, w *pairing.Pair, changed bool) (err error) {
	switch w.Info.State {
	case atoll.Running:
		if r.noAttach && w.Info.Labels[project.LabelStage] == "" && r.agent == "" && r.branch.name == "" && !changed {
			return exitcode.With(exitcode.Refused, fmt.Errorf("sandbox %s: %w: it runs already; 'atoll attach %[1]s' attaches to its terminal", w.Name(), atoll.ErrExists))
		}
		a.Progress("%s runs, behind %s", w.Name(), describeIsolation(w.Info.Driver, w.Info.Isolation))
		return nil
	case atoll.Paused, atoll.Pausing:
		err = atoll.Resume(ctx, w.Sandbox)
	default: // what is under way, such as a stop that nobody waited for, is done first
		if err, r.woke = atoll.Start(ctx, w.Sandbox), true; errors.Is(err, atoll.ErrState) {
			err = fmt.Errorf("it was %s (%s): %w\n'atoll rm %s' saves its work and removes it, and 'atoll up' makes another", w.Info.State, output.ReadyReason(w.Info.Status), err, w.Name())
		}
	}
	if err != nil {
		return err
	}
	if err := a.agentAgain(r); err != nil {
		return err
	}
	a.Progress("%s: started, behind %s", w.Name(), describeIsolation(w.Info.Driver, w.Info.Isolation))
	w.Info, err = w.Sandbox.Info(ctx)
	return err
}

// agentAgain starts the agent of the project file again in a sandbox that was stopped, if the
// user names no other and has consented to it.
func (a commands) agentAgain(r *upRun) error {
	if !r.woke || r.agent != "" || r.file.Agent == "" {
		return nil
	}
	before, err := a.readAgreed(r.repo)
	if slices.Contains(before.Grants, r.file.AgentGrant()) {
		r.agent = r.file.Agent
	}
	return err
}

// finishStages brings a sandbox from the stage that it is at to the last one.
func (a commands) finishStages(ctx context.Context, r *upRun, w *pairing.Pair) error {
	stage := w.Info.Labels[project.LabelStage]
	next := 0
	if stage == project.StageImport {
		if err := a.agreeTo(ctx, r); err != nil { // the files may ask for more than when it was made
			return err
		}
		if err := a.uploadWork(ctx, r, w); err != nil {
			return err
		}
	} else if n, ok := strings.CutPrefix(stage, project.StagePrepare+"/"); ok {
		next, _ = strconv.Atoi(n) // what nobody can read begins anew
	}
	if stage != "" {
		for i, c := range r.file.Prepare {
			if i < next {
				continue
			}
			a.Progress("%s: prepare %d of %d: %s", w.Name(), i+1, len(r.file.Prepare), output.OneLine(c.String()))
			if err := a.runStep(ctx, w, c); err != nil {
				return fmt.Errorf("prepare %d of %d: %w\nthe sandbox stays; 'atoll up' goes on with this step", i+1, len(r.file.Prepare), err)
			}
			if err := w.SetStage(ctx, fmt.Sprintf("%s/%d", project.StagePrepare, i+1)); err != nil {
				return err
			}
		}
		if err := w.SetStage(ctx, ""); err != nil {
			return err
		}
	}
	if !r.made && !r.woke && stage == "" {
		return nil
	}
	return a.startAll(ctx, r, w)
}

// runStep runs a prepare command in the workspace and shows its output, and the connections that were
// denied meanwhile.
func (a commands) runStep(ctx context.Context, w *pairing.Pair, c projectfile.Command) error {
	out := &outputTail{a: a}
	stop := app.FollowDenials(ctx, w.Sandbox, w.Name(), a.Progress)
	exit, err := w.Sandbox.Exec(ctx, atoll.Cmd{Args: c.Args, Shell: c.Shell, Dir: project.Workspace, Stdout: out, Stderr: out, Timeout: stepTime})
	stop()
	last := out.lastLines()
	switch {
	case err != nil:
		return err
	case exit.Code != 0 && (a.Quiet || a.JSON):
		return fmt.Errorf("%s: exit status %d\n%s", output.OneLine(c.String()), exit.Code, strings.Join(last, "\n"))
	case exit.Code != 0:
		return fmt.Errorf("%s: exit status %d", output.OneLine(c.String()), exit.Code)
	}
	return nil
}

// stepTime is how long a step may take.
const stepTime = 2 * time.Hour

// startAll starts what is to run in the sandbox: each on a terminal of its own,
// or to its end.
func (a commands) startAll(ctx context.Context, r *upRun, w *pairing.Pair) error {
	n := 0
	for _, c := range r.file.Start {
		if c.Wait {
			a.Progress("%s: %s", w.Name(), output.OneLine(c.String()))
			if err := a.runStep(ctx, w, c); err != nil {
				return err
			}
			continue
		}
		n++
		name := c.Name
		if name == "" {
			name = fmt.Sprintf("start-%d", n)
		}
		args := c.Args
		if c.Shell != "" {
			args = []string{"sh", "-c", c.Shell}
		}
		if err := attach.EnsureTerminal(ctx, a.App, w.Sandbox, atoll.TerminalSpec{Name: name, Args: args, Dir: project.Workspace}); err != nil {
			return err
		}
		a.Progress("%s: %s runs on terminal %s", w.Name(), output.OneLine(c.String()), name)
	}
	return nil
}

// openMainTerminal opens the terminal to be before: that of the main working tree, with the
// agent if one is named.
func (a commands) openMainTerminal(ctx context.Context, r *upRun, w *pairing.Pair) (string, error) {
	spec := atoll.TerminalSpec{Name: w.Name(), Dir: project.Workspace}
	if r.file.Dir != "" {
		spec.Dir = r.file.Dir
	}
	return a.openAgentTerminal(ctx, r, w, spec)
}

// openAgentTerminal opens a terminal with a shell, or with the agent if one is named. Where a shell is
// on it already, the agent gets its own.
func (a commands) openAgentTerminal(ctx context.Context, r *upRun, w *pairing.Pair, spec atoll.TerminalSpec) (string, error) {
	own := cmp.Or(r.file.Terminal.Shell, config.Get[string](a.Config, "terminal.shell"))
	if own != "" {
		spec.Args = []string{own}
	} else if shell, err := bashIn(ctx, w); err != nil {
		return "", err
	} else if shell != "" {
		spec.Args = []string{shell}
	}
	if r.agent == "" {
		return spec.Name, attach.EnsureTerminal(ctx, a.App, w.Sandbox, spec)
	}
	one, err := findTerminalAgent(r.agent)
	if err != nil {
		return "", err
	}
	with, err := a.terminalAgentSpec(ctx, w, one, own)
	if err != nil {
		return "", err
	}
	spec.Args, spec.Env = with.Args, append(spec.Env, with.Env...)
	list, err := w.Sandbox.ListTerminals(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range list {
		if t.Name == spec.Name && t.Running && !strings.Contains(t.Command, one.args[0]) {
			spec.Name = agentTerminal(w.Name(), spec.Name, one.name)
		}
	}
	return spec.Name, attach.EnsureTerminal(ctx, a.App, w.Sandbox, spec)
}

// agentTerminal returns the name of an agent's own terminal, beside that of a working tree with a shell.
func agentTerminal(sandbox, tree, agent string) string {
	if tree == sandbox {
		return agent
	}
	return strings.TrimRight(tree[:min(len(tree), 62-len(agent))], "-_.") + "-" + agent
}

// bashIn returns the name of bash in a sandbox: what people type at is it, where
// it is there, and else the user's shell. Empty: it is not there.
func bashIn(ctx context.Context, w *pairing.Pair) (string, error) {
	exit, err := w.Sandbox.Exec(ctx, atoll.Cmd{Internal: true, Shell: "command -v bash >/dev/null", Timeout: attach.CommandTimeout})
	if err != nil || exit.Code != 0 {
		return "", err
	}
	return "bash", nil
}
