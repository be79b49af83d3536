package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/project"
)

// made is what a working tree's files said when its sandbox was made.
type made struct {
	ID   string            `json:"id"`             // of the sandbox
	Said map[string]string `json:"said"`           // see projectfile.File.Made
	Told map[string]string `json:"told,omitempty"` // what they said when somebody was told that it differs
}

// noteMade remembers what a new sandbox was made by.
func (a *app) noteMade(r *rise, w *workplace) error {
	return a.record(r.repo, madeFile, made{ID: w.info.ID, Said: r.said})
}

// adapt makes a sandbox that is there what this call says, as far as that goes, and
// tells what counts for a new one only: flags, and once each what the repository's
// files say otherwise than when it was made. It reports whether anything changed.
func (a *app) adapt(ctx context.Context, r *rise, w *workplace) (changed bool, err error) {
	fixed := r.fixed
	if driver := get[string](a.config.flagsOnly(), "driver"); driver != "" && driver != w.info.Driver {
		fixed = append(fixed, "--driver")
	}
	if len(fixed) > 0 {
		a.progress("%s is there already, and %s for a new one: 'atoll up --fresh' makes it anew, and saves what is in it", w.name(), countFor(fixed))
	}
	if err := a.tellChanges(r, w); err != nil {
		return false, err
	}
	if mode := get[project.Mode](a.config.flagsOnly(), "sync.mode"); mode != "" && mode != w.mode {
		if err := w.relabel(ctx, project.LabelMode, string(mode)); err != nil {
			return false, err
		}
		a.progress("%s: mode of sync is %s now, and was %s", w.name(), mode, w.mode)
		w.mode = mode
		return true, nil
	}
	return false, nil
}

// countFor says of names that they count, or that it counts.
func countFor(names []string) string {
	if len(names) == 1 {
		return names[0] + " counts"
	}
	return strings.Join(names, ", ") + " count"
}

// tellChanges tells once what the files of a repository say otherwise than when
// its sandbox was made.
func (a *app) tellChanges(r *rise, w *workplace) error {
	var was made
	if err := a.recall(r.repo, madeFile, &was); err != nil {
		return err
	}
	if was.ID != w.info.ID { // made by another atoll: from here on it is known
		return a.noteMade(r, w)
	}
	if a.quiet || maps.Equal(r.said, was.Said) && was.Told == nil || was.Told != nil && maps.Equal(r.said, was.Told) {
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
		a.progress("%s: %s changed since the sandbox was made: %s. It counts for a new one: 'atoll up --fresh' makes it anew, and saves what is in it", w.name(), where, strings.Join(keys, ", "))
	}
	return a.record(r.repo, madeFile, was)
}
