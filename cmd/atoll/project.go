package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/whole"
)

// workplace is a project's sandbox, seen from the machine that this atoll runs
// on.
type workplace struct {
	sb   *client.Sandbox
	info atoll.Info    // as it was when it was found
	repo *project.Repo // nil: its working tree is not on this machine
	path string        // of the working tree, where it is
	mode project.Mode
}

// name is what people call the sandbox, and what its refs are beneath.
func (w *workplace) name() string { return label(w.info.Status) }

// named is an error of the sandbox that calls it by its name, not by its id.
func (w *workplace) named(err error) error {
	var e *atoll.Error
	if errors.As(err, &e) && e.ID == w.info.ID {
		e.ID = w.name()
	}
	return err
}

// home returns the repository, or says where it is.
func (w *workplace) home() (*project.Repo, error) {
	if w.repo != nil {
		return w.repo, nil
	}
	return nil, fmt.Errorf("sandbox %s: %w: its working tree, %s, is not on this machine, or not known to this home: say it where 'atoll up' was said", w.name(), project.ErrNoRepository, w.path)
}

// running reports that the sandbox does not run.
func (w *workplace) running() error {
	if w.info.State == atoll.Running {
		return nil
	}
	return fmt.Errorf("sandbox %s: %w: it is %s; 'atoll start %s' starts it", w.name(), atoll.ErrState, w.info.State, w.name())
}

// project finds a project's sandbox by its name, its id or the beginning of
// one; without a name, that of the repository of the working directory.
// No such sandbox, or one that is no project's, is atoll.ErrNotFound.
func (a *app) project(ctx context.Context, name string) (*workplace, error) {
	if name == "" {
		return a.projectHere(ctx)
	}
	sb, err := a.open(ctx, name)
	if err != nil {
		return nil, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.Labels[project.Label] == "" {
		return nil, fmt.Errorf("sandbox %s: %w: it is no project's; 'atoll up' in a repository makes one that is", label(info.Status), atoll.ErrNotFound)
	}
	return a.workplace(ctx, info)
}

// projectHere finds the sandbox of the working directory's repository.
func (a *app) projectHere(ctx context.Context) (*workplace, error) {
	repo, err := project.Open(ctx, ".")
	if errors.Is(err, project.ErrNoRepository) {
		return nil, fmt.Errorf("%w\nname a sandbox, or change to its repository; 'atoll status --all' lists them", err)
	}
	if err != nil {
		return nil, err
	}
	all, err := a.projectsOf(ctx, repo)
	if err != nil {
		return nil, err
	}
	switch len(all) {
	case 0:
		return nil, fmt.Errorf("%s: %w: it has no sandbox; 'atoll up' makes one", repo.Dir, atoll.ErrNotFound)
	case 1:
		return a.workplace(ctx, all[0])
	}
	var names []string
	for _, i := range all {
		names = append(names, label(i.Status))
	}
	return nil, fmt.Errorf("%s: %w: it has %d sandboxes, name one: %s", repo.Dir, atoll.ErrInvalid, len(all), strings.Join(names, ", "))
}

// projects lists the sandboxes that are projects', oldest first.
func (a *app) projects(ctx context.Context) ([]atoll.Info, error) {
	all, err := a.sandboxes(ctx, client.Filter{})
	var list []atoll.Info
	for _, i := range all {
		if i.Labels[project.Label] != "" {
			list = append(list, i)
		}
	}
	return list, err
}

// projectsOf lists the sandboxes of a working tree of this machine, oldest first.
func (a *app) projectsOf(ctx context.Context, repo *project.Repo) ([]atoll.Info, error) {
	here, err := a.hostID()
	if err != nil {
		return nil, err
	}
	all, err := a.projects(ctx)
	var list []atoll.Info
	for _, i := range all {
		if i.Labels[project.LabelHost] == here && i.Labels[project.LabelPath] == repo.Dir {
			list = append(list, i)
		}
	}
	return list, err
}

// workplace is a project's sandbox with its repository, if that is here.
func (a *app) workplace(ctx context.Context, info atoll.Info) (*workplace, error) {
	sb, err := a.link.Sandbox(ctx, info.ID)
	if err != nil {
		return nil, err
	}
	w := &workplace{sb: sb, info: info, path: info.Labels[project.LabelPath], mode: project.Mode(info.Labels[project.LabelMode])}
	if w.mode == "" || project.CheckMode(w.mode) != nil {
		w.mode = project.Manual // what nobody understands does nothing by itself
	}
	w.repo, err = a.repoOf(ctx, info)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// repoOf opens the repository of a project's sandbox; nil: it is not on this
// machine, or was removed since.
func (a *app) repoOf(ctx context.Context, info atoll.Info) (*project.Repo, error) {
	path := info.Labels[project.LabelPath]
	here, err := a.hostID()
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

// hostFile is the part of a home's id that is made up once.
const hostFile = "host-id"

// hostID names this machine and this home of atoll, so that a path means the
// same directory wherever it is read. A home that two machines share, or that
// was copied, has another id on each.
func (a *app) hostID() (string, error) {
	if err := a.homed(); err != nil {
		return "", err
	}
	own, err := a.ownID()
	if err != nil {
		return "", fmt.Errorf("the id of %s: %w", a.home, err)
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
func (a *app) ownID() (string, error) {
	name := filepath.Join(a.home, hostFile)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = a.makeID(name); err == nil {
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

func (a *app) makeID(name string) error {
	if err := os.MkdirAll(a.home, 0o700); err != nil {
		return err
	}
	err := whole.Create(name, []byte(rand.Text()+"\n"), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // another was quicker
	}
	return err
}

// completeProjects offers the names of projects' sandboxes for the argument at
// position at.
func (a *app) completeProjects(at int) cobra.CompletionFunc {
	return a.offer(at, func(ctx context.Context) ([]string, error) {
		all, err := a.projects(ctx)
		var names []string
		for _, i := range all {
			names = append(names, label(i.Status))
		}
		return names, err
	})
}

// exit is an error that ends atoll with a status that its command documents.
type exit struct {
	error

	code int
}

func (e exit) Unwrap() error { return e.error }

// exits gives an error a documented exit status; nil stays nil.
func exits(code int, err error) error {
	if err == nil {
		return nil
	}
	return exit{err, code}
}
