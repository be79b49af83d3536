package pairing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// mirrorDelay is how long the files of a sandbox stay as they are until a mirror follows.
const mirrorDelay = 300 * time.Millisecond

// mirrorReport is what 'atoll sync --to' prints as JSON, once for each change.
type mirrorReport struct {
	Sandbox string `json:"sandbox"`
	Dir     string `json:"dir"`
	Commit  string `json:"commit"`
	Changed bool   `json:"changed"`
}

// Mirror shows the files of a project's sandbox in a separate working tree of the host, once or, with watch, after each change
// until ctx is done or the sandbox ends.
func Mirror(ctx context.Context, a *app.App, w *Pair, dir, branch string, watch bool) error {
	repo, err := w.requireRunning()
	if err != nil {
		return err
	}
	m := project.MirrorOptions{Name: w.Name(), Dir: dir, Branch: branch}
	first := true
	show := func(ctx context.Context) error {
		res, err := repo.Mirror(ctx, w.Sandbox, m)
		if err != nil {
			return err
		}
		if !res.Changed && !first {
			return nil
		}
		first = false
		return printMirror(a, w, res)
	}
	if !watch {
		return show(ctx)
	}
	if err := show(ctx); err != nil { // what is wrong with the directory ends it
		return err
	}
	a.Progress("atoll: watching %s", w.Name())
	auto := project.AutoSync{Delay: mirrorDelay, Sync: show, Report: func(err error) { a.Progress("atoll: %s: %v", w.Name(), err) }}
	err = auto.RunOnFiles(ctx, w.Sandbox)
	if ctx.Err() != nil {
		return nil // somebody has ended it
	}
	if errors.Is(err, atoll.ErrUnsupported) {
		return fmt.Errorf("%w; without --watch it shows the files once", err)
	}
	if gone, gerr := hasEnded(ctx, a, w); gone || gerr != nil {
		return gerr
	}
	return err
}

// printMirror prints what a mirror shows.
func printMirror(a *app.App, w *Pair, res *project.MirrorResult) error {
	if a.JSON {
		return a.PrintJSON(mirrorReport{w.Name(), res.Dir, res.Commit, res.Changed})
	}
	if a.Quiet {
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "%s shows %.12s of %s\n", output.Clean(res.Dir), res.Commit, w.Name())
	return err
}
