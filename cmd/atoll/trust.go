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
	return a.writeAgreed(repo, agreed{repo.Dir, grants})
}

// projectDir is where this home remembers things of a working tree.
func (a *app) projectDir(repo *project.Repo) string {
	sum := sha256.Sum256([]byte(repo.Dir))
	return filepath.Join(a.home, "projects", hex.EncodeToString(sum[:12]))
}

func (a *app) readAgreed(repo *project.Repo) (agreed, error) {
	name := filepath.Join(a.projectDir(repo), "agreed.json")
	b, err := readSmall(name)
	if errors.Is(err, fs.ErrNotExist) {
		return agreed{}, nil
	}
	var was agreed
	if err == nil {
		err = json.Unmarshal(b, &was)
	}
	if err != nil {
		return agreed{}, fmt.Errorf("what %s was allowed: %s: %w", repo.Dir, name, err)
	}
	if was.Path != repo.Dir {
		return agreed{}, nil
	}
	return was, nil
}

func (a *app) writeAgreed(repo *project.Repo, now agreed) error {
	b, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return err
	}
	dir := a.projectDir(repo)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return a.writable(err)
	}
	tmp, err := os.CreateTemp(dir, "agreed-")
	if err != nil {
		return a.writable(err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // it was renamed
	_, err = tmp.Write(append(b, '\n'))
	if err = finish(err, tmp); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), filepath.Join(dir, "agreed.json"))
}
