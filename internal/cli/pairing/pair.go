// Package pairing connects a project's sandbox with its repository on this machine: it
// finds, syncs, rescues and removes it.
package pairing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// Pair is a project's sandbox together with its repository on this machine.
type Pair struct {
	Sandbox *client.Sandbox
	Info    atoll.Info    // as it was when it was found
	Repo    *project.Repo // nil: its working tree is not on this machine
	Path    string        // of the working tree, where it is
	Mode    project.SyncMode
}

// Name returns the sandbox's name, which is also the prefix of its refs.
func (w *Pair) Name() string { return output.SandboxName(w.Info.Status) }

// NameError replaces the id of the sandbox in an error by its name.
func (w *Pair) NameError(err error) error {
	var e *atoll.Error
	if errors.As(err, &e) && e.ID == w.Info.ID {
		e.ID = w.Name()
	}
	return err
}

// RequireRepo returns the repository, or an error with its path if it is not on this machine.
func (w *Pair) RequireRepo() (*project.Repo, error) {
	if w.Repo != nil {
		return w.Repo, nil
	}
	return nil, fmt.Errorf("sandbox %s: %w: its working tree, %s, is not on this machine, or not known to this home: say it where 'atoll up' was said", w.Name(), project.ErrNoRepository, w.Path)
}

// CheckRunning returns an error if the sandbox does not run.
func (w *Pair) CheckRunning() error {
	if w.Info.State == atoll.Running {
		return nil
	}
	return fmt.Errorf("sandbox %s: %w: it is %s; 'atoll start %s' starts it", w.Name(), atoll.ErrState, w.Info.State, w.Name())
}

// Find returns a project's sandbox by its name, its id or a prefix of one; without a name,
// that of the repository of the working directory. A sandbox that is missing or belongs to no
// project is atoll.ErrNotFound.
func Find(ctx context.Context, a *app.App, name string) (*Pair, error) {
	if name == "" {
		return findHere(ctx, a)
	}
	sb, err := a.OpenSandbox(ctx, name)
	if err != nil {
		return nil, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.Labels[project.Label] == "" {
		return nil, fmt.Errorf("sandbox %s: %w: it is no project's; 'atoll up' in a repository makes one that is", output.SandboxName(info.Status), atoll.ErrNotFound)
	}
	return Open(ctx, a, info)
}

// findHere finds the sandbox of the working directory's repository.
func findHere(ctx context.Context, a *app.App) (*Pair, error) {
	all, err := FindAllHere(ctx, a)
	if err != nil {
		return nil, err
	}
	if len(all) == 1 {
		return all[0], nil
	}
	var names []string
	for _, w := range all {
		names = append(names, w.Name())
	}
	return nil, fmt.Errorf("%s: %w: it has %d sandboxes, name one: %s", all[0].Path, atoll.ErrInvalid, len(all), strings.Join(names, ", "))
}

// FindAllHere returns all sandboxes of the working directory's repository, oldest first. If there is none,
// the error is atoll.ErrNotFound.
func FindAllHere(ctx context.Context, a *app.App) ([]*Pair, error) {
	repo, err := project.Open(ctx, ".")
	if errors.Is(err, project.ErrNoRepository) {
		return nil, fmt.Errorf("%w\nname a sandbox, or change to its repository; 'atoll status --all' lists them", err)
	}
	if err != nil {
		return nil, err
	}
	all, err := ListOf(ctx, a, repo)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w: it has no sandbox; 'atoll up' makes one", repo.Dir, atoll.ErrNotFound)
	}
	var list []*Pair
	for _, info := range all {
		w, err := newPair(ctx, a, info)
		if err != nil {
			return nil, err
		}
		w.Repo = repo
		list = append(list, w)
	}
	return list, nil
}

// List lists the sandboxes that are projects', oldest first.
func List(ctx context.Context, a *app.App) ([]atoll.Info, error) {
	all, err := a.ListSandboxes(ctx, client.Filter{})
	var list []atoll.Info
	for _, i := range all {
		if i.Labels[project.Label] != "" {
			list = append(list, i)
		}
	}
	return list, err
}

// ListOf lists the sandboxes of a working tree of this machine, oldest first.
func ListOf(ctx context.Context, a *app.App, repo *project.Repo) ([]atoll.Info, error) {
	here, err := HostID(a)
	if err != nil {
		return nil, err
	}
	all, err := List(ctx, a)
	var list []atoll.Info
	for _, i := range all {
		if i.Labels[project.LabelHost] == here && i.Labels[project.LabelPath] == repo.Dir {
			list = append(list, i)
		}
	}
	return list, err
}

// Open is a project's sandbox with its repository, if that is here.
func Open(ctx context.Context, a *app.App, info atoll.Info) (*Pair, error) {
	w, err := newPair(ctx, a, info)
	if err != nil {
		return nil, err
	}
	w.Repo, err = repoOf(ctx, a, info)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// newPair is Open without the repository.
func newPair(ctx context.Context, a *app.App, info atoll.Info) (*Pair, error) {
	sb, err := a.Conn.Sandbox(ctx, info.ID)
	if err != nil {
		return nil, err
	}
	w := &Pair{Sandbox: sb, Info: info, Path: info.Labels[project.LabelPath], Mode: project.SyncMode(info.Labels[project.LabelMode])}
	if w.Mode == "" || project.CheckMode(w.Mode) != nil {
		w.Mode = project.Manual // what nobody understands does nothing by itself
	}
	return w, nil
}

// repoOf opens the repository of a project's sandbox; nil: it is not on this
// machine, or was removed since.
func repoOf(ctx context.Context, a *app.App, info atoll.Info) (*project.Repo, error) {
	path := info.Labels[project.LabelPath]
	here, err := HostID(a)
	if err != nil || info.Labels[project.LabelHost] != here || !filepath.IsAbs(path) {
		return nil, err
	}
	repo, err := project.Open(ctx, path)
	switch {
	case errors.Is(err, project.ErrNoRepository), errors.Is(err, project.ErrBare):
		return nil, nil
	case err != nil:
		return nil, err
	case repo.Dir != path: // it was removed, and a repository above it found
		return nil, nil
	}
	return repo, nil
}

// HostFile is the part of a home's id that is made up once.
const HostFile = "host-id"

// HostID names this machine and this home of atoll, so that a path means the
// same directory wherever it is read. A home that two machines share, or that
// was copied, has another id on each.
func HostID(a *app.App) (string, error) {
	if err := a.CheckHome(); err != nil {
		return "", err
	}
	own, err := ownID(a)
	if err != nil {
		return "", fmt.Errorf("the id of %s: %w", a.Home, err)
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		machine = nil // the home's own part has to do
	}
	sum := sha256.Sum256([]byte(own + "\n" + strings.TrimSpace(string(machine))))
	return hex.EncodeToString(sum[:8]), nil
}

// ownID reads what was made up for this home, or makes it up. Of two that do so
// at once, one is first, and both take that.
func ownID(a *app.App) (string, error) {
	name := filepath.Join(a.Home, HostFile)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeID(a, name); err == nil {
			b, err = os.ReadFile(name)
		}
	}
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(b))
	if len(id) < 20 || len(id) > 64 {
		return "", fmt.Errorf("%w: %s does not hold what atoll has written there: restore it, or remove it and say 'atoll up' anew", atoll.ErrInvalid, name)
	}
	return id, nil
}

func makeID(a *app.App, name string) error {
	if err := os.MkdirAll(a.Home, 0o700); err != nil {
		return err
	}
	err := atomicfile.Create(name, []byte(rand.Text()+"\n"), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // another was quicker
	}
	return err
}

// CompleteNames offers the names of projects' sandboxes for the argument at
// position at.
func CompleteNames(a *app.App, at int) cobra.CompletionFunc {
	return a.CompleteFrom(at, func(ctx context.Context) ([]string, error) {
		all, err := List(ctx, a)
		var names []string
		for _, i := range all {
			names = append(names, output.SandboxName(i.Status))
		}
		return names, err
	})
}

// SetStage notes how far the sandbox has come.
func (w *Pair) SetStage(ctx context.Context, stage string) error {
	return w.SetLabel(ctx, project.LabelStage, stage)
}

// SetLabel sets a label of the sandbox; empty: it has none.
func (w *Pair) SetLabel(ctx context.Context, name, value string) error {
	all := make(map[string]string)
	maps.Copy(all, w.Info.Labels)
	delete(all, name)
	if value != "" {
		all[name] = value
	}
	info, err := w.Sandbox.Update(context.WithoutCancel(ctx), atoll.Change{Labels: all}) // what was done must not be done again
	if err == nil {
		w.Info = info
	}
	return err
}

// AgentChat returns the chat of the agents that work on a branch: all tasks of a branch are one conversation.
func (w *Pair) AgentChat(branch string) string { return w.Info.ID + "/" + branch }
