package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/projectfile"
)

// Exit statuses of 'atoll up'.
const (
	exitNoRepository = 1
	exitRunning      = 2
	exitResources    = 3
	exitNoWall       = 4
)

// look is how long a short question to a sandbox may take.
const look = time.Minute

// upFlags say what 'atoll up' does.
type upFlags struct {
	spec                   specFlags
	agent                  string
	fresh, clean, noAttach bool
	trust                  bool
	before                 before
	fixed                  []string // flags that were said and count for a new sandbox only
}

// onlyNew are the flags of 'up' that say nothing to a sandbox that is there.
var onlyNew = []string{"clean", "image", "memory", "disk", "cpus", "vcpus", "nested", "no-nested", "network", "allow", "env", "env-file"}

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up [AGENT] [PATH]",
		Short: "Work on this repository in a sandbox of its own, with an agent if you name one",
		Long: `Work on this repository in a sandbox of its own: it is made, your branches and your
uncommitted work are carried in, and you are before its terminal. Name an agent (claude,
codex, gemini, opencode, cursor), and it works there, without asking: the sandbox is the
wall. 'atoll sync' brings the work home, 'atoll down' ends it.

Nothing of this machine is in the sandbox but the repository, your git name and e-mail,
and what you name. Said again, it finds the sandbox of this working tree, starts it if
it is stopped, and goes on where it was ended.

What .atoll.yaml ('atoll init' writes one) and devcontainer.json say counts; what opens
the wall is asked about first, or allowed with --trust. See docs/projects.md.

The exit status is 0, 1 if this is no git repository, 2 if the sandbox runs already (with
--no-attach; else it is attached), 3 without resources, 4 if nothing here can build a
sandbox that runs real programs.`,
		Example: `  atoll up
  atoll up claude
  atoll up --no-attach ~/src/web
  atoll up codex --network nat --memory 4g`,
		Args:              needArgs(0, 2, "an agent and a directory, at most"),
		ValidArgsFunction: completeUp,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := f.arguments(args)
			if err != nil {
				return err
			}
			cmd.Flags().Visit(func(fl *pflag.Flag) {
				if slices.Contains(onlyNew, fl.Name) {
					f.fixed = append(f.fixed, "--"+fl.Name)
				}
			})
			if dir != "." {
				if a.config, a.configErr = loadAt(dir, flagged(cmd)); a.configErr != nil {
					return a.configErr
				}
			}
			if f.before.record != "" && !a.attaches(&f) {
				return fmt.Errorf("%w: --record writes what is shown to who is before the terminal, and nobody will be: 'atoll terminal record' needs nobody there", atoll.ErrInvalid)
			}
			if err := f.before.check(); err != nil {
				return err
			}
			return a.up(cmd.Context(), &f, dir)
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.agent, "agent", "", "`AGENT` that works there; the same as the argument")
	fl.BoolVar(&f.noAttach, "no-attach", false, "don't be before the terminal: print the sandbox's name")
	f.before.recordFlag(cmd)
	fl.BoolVar(&f.fresh, "fresh", false, "make the sandbox anew; what is in it is saved first ('atoll restore')")
	fl.BoolVar(&f.clean, "clean", false, "leave uncommitted work at home")
	fl.String("sync-mode", "", "when work comes home: manual, auto-commit or auto-idle (default manual)")
	fl.BoolVar(&f.trust, "trust", false, "allow what the repository's files ask for")
	fl.StringVarP(&f.spec.name, "name", "n", "", "`NAME` of the sandbox (default: that of the directory)")
	fl.String("image", "", "`IMAGE` of the root file system; it must have git")
	fl.String("memory", "", "limit of memory, a `SIZE` like 4g")
	fl.String("disk", "", "limit of all files together, a `SIZE` like 10g; of a machine, on each of its two disks")
	fl.String("cpus", "", "limit of processors, a `NUMBER` like 1.5")
	fl.Var(&processors{of: fl.Lookup("cpus")}, "vcpus", "`NUMBER` of a machine's virtual processors: --cpus as a whole number")
	fl.Bool("nested", true, "let machines run inside a machine, where this host can (--no-nested: never)")
	no := fl.VarPF(&negation{of: fl.Lookup("nested")}, "no-nested", "", "the opposite of --nested")
	no.NoOptDefVal = "true"
	fl.String("network", "", "`MODE`: none, nat, bridge or open (default none)")
	fl.StringArray("allow", nil, "`HOST` that may be reached: NAME, *.NAME:PORT or a URL prefix (repeatable)")
	fl.StringArrayVarP(&f.spec.env, "env", "e", nil, "environment variable `NAME=VALUE`, or NAME to take it from here (repeatable)")
	fl.StringArrayVar(&f.spec.envFiles, "env-file", nil, "`FILE` of NAME=VALUE lines (repeatable)")
	return cmd
}

// arguments reads the agent and the directory.
func (f *upFlags) arguments(args []string) (dir string, err error) {
	dir = "."
	for i, arg := range args {
		if _, err := residentOf(arg); err == nil && i == 0 && f.agent == "" {
			f.agent = arg
			continue
		}
		info, serr := os.Stat(arg)
		switch {
		case i == 0 && len(args) == 2 && f.agent == "":
			_, err := residentOf(arg)
			return "", err
		case dir != ".":
			return "", fmt.Errorf("%w: %s and %s: one directory", atoll.ErrInvalid, dir, arg)
		case serr != nil || !info.IsDir():
			err := fmt.Errorf("%w: directory %q", atoll.ErrNotFound, arg)
			if i == 0 && f.agent == "" && !strings.ContainsRune(arg, filepath.Separator) {
				_, err = residentOf(arg)
				err = fmt.Errorf("%w; and no directory here is called so", err)
			}
			return "", exits(exitNoRepository, err)
		}
		dir = arg
	}
	if f.agent != "" {
		_, err = residentOf(f.agent)
	}
	return dir, err
}

func completeUp(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		for _, r := range residents {
			names = append(names, r.name)
		}
	}
	return names, cobra.ShellCompDirectiveFilterDirs
}

// rise is one 'atoll up'.
type rise struct {
	*upFlags

	repo *project.Repo
	file *projectfile.File
	said map[string]string // projectfile.File.Made of it
	made bool              // the sandbox is of this call
	woke bool              // it has begun to run in this call

	decided bool         // see app.decide
	config  atoll.Config // of a new sandbox, but for its name, once decided
	wall    wall         // likewise
}

// upResult is what --json prints.
type upResult struct {
	Sandbox   string `json:"sandbox"`
	ID        string `json:"id"`
	Created   bool   `json:"created"`
	Driver    string `json:"driver"`
	Isolation string `json:"isolation"`
	Terminal  string `json:"terminal"`
	Path      string `json:"path"`
}

func (a *app) up(ctx context.Context, f *upFlags, dir string) error {
	repo, err := project.Open(ctx, dir)
	switch {
	case errors.Is(err, project.ErrUnreadable), errors.Is(err, project.ErrBare):
		return exits(exitNoRepository, err)
	case errors.Is(err, project.ErrNoRepository):
		return exits(exitNoRepository, fmt.Errorf("%w\n'git init' makes it one", err))
	case err != nil:
		return err
	}
	r := &rise{upFlags: f, repo: repo}
	if r.file, err = projectfile.Read(repo.Dir); err != nil {
		return err
	}
	r.said = r.file.Made()
	if err := a.background(ctx); err != nil {
		if ctx.Err() != nil {
			return err
		}
		a.progress("atoll: no server in the background: ports have no names and terminals no pages (%v)", err)
	}
	w, name, err := a.raise(ctx, r)
	if err != nil {
		return err
	}
	if err := errors.Join(a.addRemote(ctx, w), a.tellRefusal(w), a.watcher(w)); err != nil {
		return err
	}
	if !a.attaches(f) {
		return a.tellUp(r, w, name)
	}
	a.progress("%s: terminal %s; Ctrl-P Ctrl-Q leaves it running, 'atoll sync' brings the work home", w.name(), name)
	err = a.attachTerminal(ctx, w.sb, w.name(), name, f.before)
	var st status
	if errors.As(err, &st) {
		return nil // how a shell ended is not how this did
	}
	return err
}

// attaches reports whether there is somebody to be before the terminal.
func (a *app) attaches(f *upFlags) bool {
	return !f.noAttach && !a.json && isTerminal(a.in) && isTerminal(a.out)
}

// tellUp prints the name of a sandbox that nobody attaches to.
func (a *app) tellUp(r *rise, w *workplace, terminal string) error {
	if a.json {
		return a.print(upResult{w.name(), w.info.ID, r.made, w.info.Driver, w.info.Isolation, terminal, w.path})
	}
	if terminal == w.name() {
		a.progress("'atoll attach %s' is before its terminal", w.name())
	} else {
		a.progress("'atoll attach %s %s' is before its terminal", w.name(), terminal)
	}
	_, err := fmt.Fprintln(a.out, w.name())
	return err
}

// raise makes or finds the sandbox, and everything in it, while no other call
// does so for this working tree. It returns the terminal to be before.
func (a *app) raise(ctx context.Context, r *rise) (w *workplace, terminal string, err error) {
	if err := os.MkdirAll(a.projectDir(r.repo), 0o700); err != nil {
		return nil, "", a.writable(err)
	}
	rel, err := filepath.Rel(a.home, filepath.Join(a.projectDir(r.repo), "up.lock"))
	if err != nil {
		return nil, "", err
	}
	unlock, err := a.lockHome(ctx, rel)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	w, err = a.found(ctx, r)
	if err != nil {
		return nil, "", err
	}
	if w != nil {
		changed, err := a.adapt(ctx, r, w)
		if err == nil {
			err = a.wake(ctx, r, w, changed)
		}
		switch {
		case errors.Is(err, atoll.ErrNotFound):
			w = nil // it was being removed, and is gone now
		case err != nil:
			return nil, "", err
		}
	}
	if w == nil {
		if w, err = a.build(ctx, r); err == nil {
			err = a.noteMade(r, w)
		}
		if err != nil {
			return nil, "", err
		}
	}
	if err := a.furnish(ctx, r, w); err != nil {
		return nil, "", fmt.Errorf("sandbox %s: %w", w.name(), err)
	}
	terminal, err = a.seat(ctx, r, w)
	return w, terminal, err
}

// found returns the sandbox of the working tree; nil: there is none, or it is to
// be made anew, and is gone.
func (a *app) found(ctx context.Context, r *rise) (*workplace, error) {
	all, err := a.projectsOf(ctx, r.repo)
	if err != nil {
		return nil, err
	}
	if r.spec.name != "" {
		all = slices.DeleteFunc(all, func(i atoll.Info) bool { return i.Name != r.spec.name })
	}
	switch {
	case len(all) == 0:
		return nil, nil
	case len(all) > 1:
		var names []string
		for _, i := range all {
			names = append(names, label(i.Status))
		}
		return nil, fmt.Errorf("%s: %w: it has %d sandboxes, choose one with --name: %s", r.repo.Dir, atoll.ErrInvalid, len(all), strings.Join(names, ", "))
	}
	w, err := a.workplace(ctx, all[0])
	if errors.Is(err, atoll.ErrNotFound) {
		return nil, nil // who made it was ended, and it is gone now
	}
	if err != nil || !r.fresh {
		return w, err
	}
	r.spec.name = all[0].Name
	if err := a.decide(ctx, r); err != nil {
		return nil, fmt.Errorf("%w\nsandbox %s is as it was", err, w.name())
	}
	if err := a.rescue(ctx, w); err != nil {
		return nil, fmt.Errorf("%w\nit was not removed: 'atoll rm' does so without saving", err)
	}
	a.progress("%s: removed, to be made anew", w.name())
	return nil, w.sb.Destroy(ctx)
}

// wake makes a sandbox that is there run. One that runs is an error if nobody
// wants to be before it, and nothing else was to be done.
func (a *app) wake(ctx context.Context, r *rise, w *workplace, changed bool) (err error) {
	switch w.info.State {
	case atoll.Running:
		if r.noAttach && w.info.Labels[project.LabelStage] == "" && r.agent == "" && !changed {
			return exits(exitRunning, fmt.Errorf("sandbox %s: %w: it runs already; 'atoll attach %[1]s' is before its terminal", w.name(), atoll.ErrExists))
		}
		a.progress("%s runs, behind %s", w.name(), wallText(w.info.Driver, w.info.Isolation))
		return nil
	case atoll.Paused:
		err = atoll.Resume(ctx, w.sb)
	default: // what is under way, such as a stop that nobody waited for, is done first
		if err, r.woke = atoll.Start(ctx, w.sb), true; errors.Is(err, atoll.ErrState) {
			err = fmt.Errorf("it was %s (%s): %w\n'atoll rm %s' saves its work and removes it, and 'atoll up' makes another", w.info.State, readyText(w.info.Status), err, w.name())
		}
	}
	if err != nil {
		return outOfResources(err)
	}
	if err := a.agentAgain(r); err != nil {
		return err
	}
	a.progress("%s: started, behind %s", w.name(), wallText(w.info.Driver, w.info.Isolation))
	w.info, err = w.sb.Info(ctx)
	return err
}

// agentAgain has the agent of the project's files work in a sandbox that was off, if
// none is named and somebody has allowed it.
func (a *app) agentAgain(r *rise) error {
	if !r.woke || r.agent != "" || r.file.Agent == "" {
		return nil
	}
	before, err := a.readAgreed(r.repo)
	if slices.Contains(before.Grants, r.file.AgentGrant()) {
		r.agent = r.file.Agent
	}
	return err
}

// outOfResources gives errors of that kind their exit status.
func outOfResources(err error) error {
	switch {
	case errors.Is(err, atoll.ErrQuota):
		return exits(exitResources, err)
	case errors.Is(err, atoll.ErrUnavailable):
		return exits(exitNoWall, err)
	}
	return err
}

// furnish brings a sandbox from the stage that it is at to the last one.
func (a *app) furnish(ctx context.Context, r *rise, w *workplace) error {
	stage := w.info.Labels[project.LabelStage]
	next := 0
	if stage == project.StageCarry {
		if err := a.agreeTo(ctx, r); err != nil { // the files may ask for more than when it was made
			return err
		}
		if err := a.carry(ctx, r, w); err != nil {
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
			a.progress("%s: prepare %d of %d: %s", w.name(), i+1, len(r.file.Prepare), oneLine(c.String()))
			if err := a.step(ctx, w, c); err != nil {
				return fmt.Errorf("prepare %d of %d: %w\nthe sandbox stays; 'atoll up' goes on with this step", i+1, len(r.file.Prepare), err)
			}
			if err := w.stage(ctx, fmt.Sprintf("%s/%d", project.StagePrepare, i+1)); err != nil {
				return err
			}
		}
		if err := w.stage(ctx, ""); err != nil {
			return err
		}
	}
	if !r.made && !r.woke && stage == "" {
		return nil
	}
	return a.startAll(ctx, r, w)
}

// stage notes how far the sandbox has come.
func (w *workplace) stage(ctx context.Context, stage string) error {
	return w.relabel(ctx, project.LabelStage, stage)
}

// relabel sets a label of the sandbox; empty: it has none.
func (w *workplace) relabel(ctx context.Context, name, value string) error {
	all := make(map[string]string)
	maps.Copy(all, w.info.Labels)
	delete(all, name)
	if value != "" {
		all[name] = value
	}
	info, err := w.sb.Update(context.WithoutCancel(ctx), atoll.Change{Labels: all}) // what was done must not be done again
	if err == nil {
		w.info = info
	}
	return err
}

// step runs a command in the workspace and shows what it writes.
func (a *app) step(ctx context.Context, w *workplace, c projectfile.Command) error {
	out := &tellTale{a: a}
	exit, err := w.sb.Exec(ctx, atoll.Cmd{Args: c.Args, Shell: c.Shell, Dir: project.Workspace, Stdout: out, Stderr: out, Timeout: stepTime})
	last := out.end()
	switch {
	case err != nil:
		return err
	case exit.Code != 0 && (a.quiet || a.json):
		return fmt.Errorf("%s: exit status %d\n%s", oneLine(c.String()), exit.Code, strings.Join(last, "\n"))
	case exit.Code != 0:
		return fmt.Errorf("%s: exit status %d", oneLine(c.String()), exit.Code)
	}
	return nil
}

// stepTime is how long a step may take.
const stepTime = 2 * time.Hour

// startAll starts what is to run in the sandbox: each on a terminal of its own,
// or to its end.
func (a *app) startAll(ctx context.Context, r *rise, w *workplace) error {
	n := 0
	for _, c := range r.file.Start {
		if c.Wait {
			a.progress("%s: %s", w.name(), oneLine(c.String()))
			if err := a.step(ctx, w, c); err != nil {
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
		if err := a.terminal(ctx, w.sb, atoll.TerminalSpec{Name: name, Args: args, Dir: project.Workspace}); err != nil {
			return err
		}
		a.progress("%s: %s runs on terminal %s", w.name(), oneLine(c.String()), name)
	}
	return nil
}

// terminal opens a terminal, unless one of the name is there and runs.
func (a *app) terminal(ctx context.Context, sb *client.Sandbox, spec atoll.TerminalSpec) error {
	list, err := sb.ListTerminals(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		switch {
		case t.Name != spec.Name:
		case t.Running:
			return nil
		default:
			if err := sb.CloseTerminal(ctx, t.Name); err != nil && !errors.Is(err, atoll.ErrNotFound) {
				return err
			}
		}
	}
	_, err = a.openTerminal(ctx, sb, spec)
	return err
}

// seat opens the terminal to be before: that of the main working tree, with the
// agent if one is named. Where a shell is on it already, the agent gets its own.
func (a *app) seat(ctx context.Context, r *rise, w *workplace) (string, error) {
	spec := atoll.TerminalSpec{Name: w.name(), Dir: project.Workspace}
	if r.file.Dir != "" {
		spec.Dir = r.file.Dir
	}
	own := cmp.Or(r.file.Terminal.Shell, get[string](a.config, "terminal.shell"))
	if own != "" {
		spec.Args = []string{own}
	} else if shell, err := bashIn(ctx, w); err != nil {
		return "", err
	} else if shell != "" {
		spec.Args = []string{shell}
	}
	if r.agent == "" {
		return spec.Name, a.terminal(ctx, w.sb, spec)
	}
	one, err := residentOf(r.agent)
	if err != nil {
		return "", err
	}
	with, err := a.residentSpec(ctx, w, one, own)
	if err != nil {
		return "", err
	}
	spec.Args, spec.Env = with.Args, with.Env
	list, err := w.sb.ListTerminals(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range list {
		if t.Name == spec.Name && t.Running && !strings.Contains(t.Command, one.args[0]) {
			spec.Name = one.name
		}
	}
	return spec.Name, a.terminal(ctx, w.sb, spec)
}

// bashIn returns the name of bash in a sandbox: what people type at is it, where
// it is there, and else the user's shell. Empty: it is not there.
func bashIn(ctx context.Context, w *workplace) (string, error) {
	exit, err := w.sb.Exec(ctx, atoll.Cmd{Shell: "command -v bash >/dev/null", Timeout: look})
	if err != nil || exit.Code != 0 {
		return "", err
	}
	return "bash", nil
}
