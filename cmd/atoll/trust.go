package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/projectfile"
	"github.com/atoll-sandbox/atoll/internal/whole"
)

// agreed is what a person has allowed a working tree's files to ask for.
type agreed struct {
	Path   string   `json:"path"`
	Grants []string `json:"grants"`
}

// agree makes sure that somebody has allowed what the files of a working tree ask
// for: now, or before. What they ask for anew is asked about anew.
func (a *app) agree(ctx context.Context, repo *project.Repo, f *projectfile.File, trust bool) error {
	grants := f.Grants()
	if len(grants) == 0 {
		return nil
	}
	before, err := a.readAgreed(repo)
	if err != nil {
		return err
	}
	var asked []string
	for _, g := range grants {
		if !slices.Contains(before.Grants, g) {
			asked = append(asked, g)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	list := fmt.Sprintf("%s of %s asks for:\n  %s", strings.Join(f.Sources, " and "), repo.Dir, strings.Join(asked, "\n  "))
	if !trust {
		if !isTerminal(a.in) || !isTerminal(a.err) || a.json {
			return fmt.Errorf("%w: %s\nit came with the code; --trust allows it, now and from then on", atoll.ErrDenied, list)
		}
		fmt.Fprintln(a.err, lines(list, ""))
		yes, err := a.confirm(ctx, "It came with the code. Allow it?")
		switch {
		case err != nil:
			return err
		case !yes:
			return fmt.Errorf("%w: nothing was made: change %s, or allow it", atoll.ErrDenied, strings.Join(f.Sources, " or "))
		}
	}
	return a.record(repo, agreedFile, agreed{repo.Dir, grants})
}

// projectDir is where this home remembers things of a working tree.
func (a *app) projectDir(repo *project.Repo) string {
	sum := sha256.Sum256([]byte(repo.Dir))
	return filepath.Join(a.home, "projects", hex.EncodeToString(sum[:12]))
}

func (a *app) readAgreed(repo *project.Repo) (was agreed, err error) {
	err = a.recall(repo, agreedFile, &was)
	if err != nil || was.Path != repo.Dir {
		return agreed{}, err
	}
	return was, nil
}

// What this home remembers of a working tree.
const (
	agreedFile = "agreed.json"
	madeFile   = "made.json"
)

// recall reads what this home remembers of a working tree; nothing: v stays.
func (a *app) recall(repo *project.Repo, what string, v any) error {
	name := filepath.Join(a.projectDir(repo), what)
	b, err := readSmall(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("what is known of %s: %s: %w", repo.Dir, name, err)
	}
	return nil
}

// record remembers something of a working tree, in one step.
func (a *app) record(repo *project.Repo, what string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	dir := a.projectDir(repo)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return a.writable(err)
	}
	return a.writable(whole.Replace(filepath.Join(dir, what), append(b, '\n'), 0o600))
}
