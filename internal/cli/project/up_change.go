package project

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// made records the settings of a working tree when its sandbox was created.
type made struct {
	ID   string            `json:"id"`             // of the sandbox
	Said map[string]string `json:"said"`           // see projectfile.File.Made
	Told map[string]string `json:"told,omitempty"` // what they said when somebody was told that it differs
}

// noteMade remembers what a new sandbox was made by.
func (a commands) noteMade(r *upRun, w *pairing.Pair) error {
	return a.saveRecord(r.repo, madeFile, made{ID: w.Info.ID, Said: r.said})
}

// adaptSandbox applies the flags of this run to an existing sandbox as far as possible, and
// prints those that apply to new sandboxes only, and changes of the repository's settings
// since the sandbox was created, once each. It reports whether anything changed.
func (a commands) adaptSandbox(ctx context.Context, r *upRun, w *pairing.Pair) (changed bool, err error) {
	fixed := r.fixed
	if driver := config.Get[string](a.Config.FlagsOnly(), "driver"); driver != "" && driver != w.Info.Driver {
		fixed = append(fixed, "--driver")
	}
	if len(fixed) > 0 {
		a.Progress("%s is there already, and %s for a new one: 'atoll up --fresh' makes it anew, and saves what is in it", w.Name(), countFor(fixed))
	}
	if err := a.tellChanges(r, w); err != nil {
		return false, err
	}
	if mode := config.Get[project.SyncMode](a.Config.FlagsOnly(), "sync.mode"); mode != "" && mode != w.Mode {
		if err := w.SetLabel(ctx, project.LabelMode, string(mode)); err != nil {
			return false, err
		}
		a.Progress("%s: mode of sync is %s now, and was %s", w.Name(), mode, w.Mode)
		w.Mode = mode
		return true, nil
	}
	return false, nil
}

// countFor returns "counts" or "count" for the number of names.
func countFor(names []string) string {
	if len(names) == 1 {
		return names[0] + " counts"
	}
	return strings.Join(names, ", ") + " count"
}

// tellChanges tells once what the files of a repository say otherwise than when
// its sandbox was made.
func (a commands) tellChanges(r *upRun, w *pairing.Pair) error {
	var was made
	if err := a.readRecord(r.repo, madeFile, &was); err != nil {
		return err
	}
	if was.ID != w.Info.ID { // made by another atoll: from here on it is known
		return a.noteMade(r, w)
	}
	if a.Quiet || maps.Equal(r.said, was.Said) && was.Told == nil || was.Told != nil && maps.Equal(r.said, was.Told) {
		return nil
	}
	var keys []string
	for key := range r.said {
		if was.Said[key] != r.said[key] {
			keys = append(keys, key)
		}
	}
	for key := range was.Said {
		if _, still := r.said[key]; !still {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	was.Told = r.said
	if len(keys) == 0 {
		was.Told = nil // it was taken back
	} else {
		where := "the project's files"
		if len(r.file.Sources) > 0 {
			where = strings.Join(r.file.Sources, " and ")
		}
		a.Progress("%s: %s changed since the sandbox was made: %s. It counts for a new one: 'atoll up --fresh' makes it anew, and saves what is in it", w.Name(), where, strings.Join(keys, ", "))
	}
	return a.saveRecord(r.repo, madeFile, was)
}
