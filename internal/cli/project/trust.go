package project

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
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/project/projectfile"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// agreed records the settings of a working tree to which the user has consented.
type agreed struct {
	Path   string   `json:"path"`
	Grants []string `json:"grants"`
}

// askConsent asks the user for consent to the settings of a working tree, unless it was given
// before. New settings are asked about again.
func (a commands) askConsent(ctx context.Context, repo *project.Repo, f *projectfile.File, trust bool) error {
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
		if !tty.IsTerminal(a.In) || !tty.IsTerminal(a.Err) || a.JSON {
			return fmt.Errorf("%w: %s\nit came with the code; --trust allows it, now and from then on", atoll.ErrDenied, list)
		}
		fmt.Fprintln(a.Err, output.CleanLines(list, ""))
		yes, err := a.Confirm(ctx, "It came with the code. Allow it?")
		switch {
		case err != nil:
			return err
		case !yes:
			return fmt.Errorf("%w: nothing was made: change %s, or allow it", atoll.ErrDenied, strings.Join(f.Sources, " or "))
		}
	}
	return a.saveRecord(repo, agreedFile, agreed{repo.Dir, grants})
}

// projectDir is where this home remembers things of a working tree.
func (a commands) projectDir(repo *project.Repo) string {
	sum := sha256.Sum256([]byte(repo.Dir))
	return filepath.Join(a.Home, "projects", hex.EncodeToString(sum[:12]))
}

func (a commands) readAgreed(repo *project.Repo) (was agreed, err error) {
	err = a.readRecord(repo, agreedFile, &was)
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

// readRecord reads what this home remembers of a working tree; nothing: v stays.
func (a commands) readRecord(repo *project.Repo, what string, v any) error {
	name := filepath.Join(a.projectDir(repo), what)
	b, err := config.ReadSmallFile(name)
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

// saveRecord remembers something of a working tree, in one step.
func (a commands) saveRecord(repo *project.Repo, what string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	dir := a.projectDir(repo)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return a.ExplainWriteError(err)
	}
	return a.ExplainWriteError(atomicfile.Replace(filepath.Join(dir, what), append(b, '\n'), 0o600))
}
