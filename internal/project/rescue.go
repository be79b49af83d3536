package project

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Rescued is what was saved from a sandbox at one time.
type Rescued struct {
	Time time.Time
	Refs []string // refs of the host, by name
}

// Rescue saves everything that git has in a sandbox to refs/sandbox/NAME/rescue/TIME/…: all branches,
// tags, stashes, and the uncommitted work of every working tree, also of nested repositories. It is for
// callers that are about to remove the sandbox; they must not if it fails. The branches of a
// fetch change in the same transaction, so that Merge takes the newest commits. Files that git ignores are not
// saved. Commits that the host has on its own branches or tags are left out. ErrNoNewWork: there is nothing
// to save, or nothing was imported.
func (r *Repo) Rescue(ctx context.Context, sb atoll.Sandbox, f FetchOptions) (Rescued, error) {
	res := Rescued{Time: time.Now().UTC()}
	err := checkSandboxName(f.Name)
	if err == nil {
		sb, done := r.trackCommands(ctx, sb)
		defer done()
		g := guest{sb: sb, dir: Workspace}
		if err = g.checkWorked(ctx); err == nil {
			res.Refs, err = r.rescueRepository(ctx, g, f, refPrefix(f.Name)+kindRescue+formatTime(res.Time)+"/")
		}
		if err == nil && len(res.Refs) == 0 {
			err = ErrNoNewWork
		}
	}
	if err != nil {
		return res, &atoll.Error{Op: "rescue", ID: f.Name, Err: err}
	}
	return res, nil
}

// checkWorked returns ErrNoNewWork if nothing can have been done in the workspace, because no import was
// completed.
func (g guest) checkWorked(ctx context.Context) error {
	_, err := listUnused(ctx, g)
	switch {
	case err == nil, errors.Is(err, atoll.ErrNotFound):
		return ErrNoNewWork
	case errors.Is(err, atoll.ErrExists):
		return nil
	}
	return err
}

// rescueRepository rescues one repository inside and its nested ones.
func (r *Repo) rescueRepository(ctx context.Context, g guest, f FetchOptions, below string) ([]string, error) {
	if err := r.sameFormat(ctx, g); err != nil {
		return nil, err
	}
	w := newRemoteState(below)
	_, nested, _ := strings.Cut(strings.TrimPrefix(below, refPrefix(f.Name)+kindRescue), "/")
	w.plain = newRemoteState(refPrefix(f.Name) + nested)
	if err := w.readRepository(ctx, g); err != nil {
		return nil, err
	}
	tags, err := g.listRefs(ctx, "refs/tags/", "refs/tags/")
	if err != nil {
		return nil, err
	}
	for _, t := range tags {
		w.add(kindTag, t.name, t.object)
	}
	stashes, err := g.listStashes(ctx)
	if err != nil {
		return nil, err
	}
	for i, s := range stashes {
		w.add(kindStash, fmt.Sprint(i), s)
	}
	if err := r.dropKnown(ctx, w); err != nil {
		return nil, err
	}
	q, err := r.newQuarantine()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(r.receiveObjects(ctx, g, q, w, f), q.remove()); err != nil {
		return nil, err
	}
	var refs []string
	for _, u := range w.Updates {
		refs = append(refs, u.Ref)
	}
	for _, n := range w.nested {
		inner, ok, err := g.enter(ctx, n.dir)
		var more []string
		if g.visits = inner.visits; ok {
			more, err = r.rescueNested(ctx, inner, n.name, f, below)
		}
		if err != nil {
			return refs, fmt.Errorf("repository %s: %w", printable(n.name), err)
		}
		refs = append(refs, more...)
	}
	return refs, nil
}

func (r *Repo) rescueNested(ctx context.Context, g guest, name string, f FetchOptions, below string) ([]string, error) {
	into, err := r.openSubmodule(ctx, name)
	if err != nil {
		return nil, err
	}
	if into == nil {
		return r.rescueRepository(ctx, g, f, below+kindNested+hashName(name)+"/")
	}
	stamped, _, _ := strings.Cut(strings.TrimPrefix(below, refPrefix(f.Name)+kindRescue), "/")
	return into.rescueRepository(ctx, g, f, refPrefix(f.Name)+kindRescue+stamped+"/")
}

// dropKnown drops the objects that the host's own branches and tags have.
func (r *Repo) dropKnown(ctx context.Context, w *remoteState) error {
	ours, err := r.listOwnObjects(ctx)
	if err != nil {
		return err
	}
	for name, object := range w.refs {
		if object == "" || ours[object] {
			delete(w.refs, name)
		}
	}
	return nil
}

// listOwnObjects returns the objects of the host's own branches and tags.
func (r *Repo) listOwnObjects(ctx context.Context) (map[string]bool, error) {
	ours := make(map[string]bool)
	for _, prefix := range []string{"refs/heads/", "refs/tags/"} {
		refs, err := r.listRefs(ctx, prefix)
		if err != nil {
			return nil, err
		}
		for _, object := range refs {
			ours[object] = true
		}
	}
	return ours, nil
}

// RescuedNames lists the names of sandboxes that have rescued work.
func (r *Repo) RescuedNames(ctx context.Context) ([]string, error) {
	refs, err := r.host.runLines(ctx, "for-each-ref", "--format=%(refname)", "refs/sandbox/*/"+kindRescue+"**")
	var names []string
	for _, ref := range refs {
		name, _, _ := strings.Cut(strings.TrimPrefix(ref, "refs/sandbox/"), "/")
		if checkSandboxName(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// Rescues lists the rescues of a sandbox, newest first. The sandbox itself may have been removed.
func (r *Repo) Rescues(ctx context.Context, name string) ([]Rescued, error) {
	if err := checkSandboxName(name); err != nil {
		return nil, err
	}
	prefix := refPrefix(name) + kindRescue
	refs, err := r.host.runLines(ctx, "for-each-ref", "--format=%(refname)", prefix)
	if err != nil {
		return nil, err
	}
	var all []Rescued
	for _, ref := range refs {
		at, _, _ := strings.Cut(strings.TrimPrefix(ref, prefix), "/")
		when, err := time.Parse(rescueTimeFormat, at)
		if err != nil {
			continue // not a rescue of atoll
		}
		if n := len(all); n == 0 || !all[n-1].Time.Equal(when) {
			all = append(all, Rescued{Time: when})
		}
		last := &all[len(all)-1]
		last.Refs = append(last.Refs, ref)
	}
	slices.Reverse(all)
	return all, nil
}

// CountMissing returns the number of commits of a rescue that no branch, tag or remote-tracking branch of the host has,
// including those of saved uncommitted work and stashes.
func (r *Repo) CountMissing(ctx context.Context, rescued Rescued) (int, error) {
	args := []string{"rev-list", "--count"}
	for _, ref := range rescued.Refs {
		if _, what, _ := strings.Cut(strings.TrimPrefix(ref, "refs/sandbox/"), "/"+kindRescue); !strings.Contains(what, "/"+kindTag) { // a tag may not be a commit
			args = append(args, ref)
		}
	}
	if len(args) == 2 {
		return 0, nil
	}
	args = append(args, notHome...)
	if head, err := r.readDetachedHead(ctx); err != nil {
		return 0, err
	} else if head != "" {
		args = append(args, head)
	}
	out, err := r.host.runOutput(ctx, args...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(out))
}

// Restore creates branches of the host from a rescue. prefix is prepended to their names: "rescued/" gives
// rescued/main, rescued/wip/main. It returns their names. A branch that exists with another commit is
// ErrExists; then nothing has changed. The rescue stays.
func (r *Repo) Restore(ctx context.Context, name string, at time.Time, prefix string) ([]string, error) {
	if err := checkSandboxName(name); err != nil {
		return nil, err
	}
	below := refPrefix(name) + kindRescue + formatTime(at) + "/"
	refs, err := r.listRefs(ctx, below)
	if err != nil {
		return nil, err
	}
	if len(refs) == 0 {
		return nil, fmt.Errorf("rescue of %s at %s: %w", name, at.Format(time.RFC3339Nano), atoll.ErrNotFound)
	}
	var updates []Update
	var branches []string
	for ref, object := range refs {
		if strings.HasPrefix(ref, below+kindTag) {
			continue // a tag may not be a commit
		}
		branch := path.Join(prefix, strings.TrimPrefix(ref, below))
		if err := CheckBranch(branch); err != nil {
			return nil, err
		}
		is, err := r.resolveRevision(ctx, "refs/heads/"+branch)
		if err != nil {
			return nil, err
		}
		branches = append(branches, branch)
		switch is {
		case object:
		case "":
			updates = append(updates, Update{Ref: "refs/heads/" + branch, New: object})
		default:
			return nil, fmt.Errorf("branch %s: %w, at another commit", branch, atoll.ErrExists)
		}
	}
	slices.Sort(branches)
	return branches, r.updateRefs(ctx, updates, "atoll: restored")
}

// ForgetOld removes rescues of any sandbox before a time, also those of nested repositories.
func (r *Repo) ForgetOld(ctx context.Context, before time.Time) error {
	names, err := r.RescuedNames(ctx)
	for _, name := range names {
		_, ferr := r.Forget(ctx, name, before)
		err = errors.Join(err, ferr)
	}
	inside, lerr := r.listNested(ctx)
	err = errors.Join(err, lerr)
	for _, name := range inside {
		m, merr := r.openSubmodule(ctx, name)
		if m != nil && merr == nil {
			merr = m.ForgetOld(ctx, before)
		}
		if merr != nil {
			err = errors.Join(err, fmt.Errorf("repository %s: %w", printable(name), merr))
		}
	}
	return err
}

// listNested lists the nested repositories in the host's working tree: those that git tracks, and others
// that it does not ignore.
func (r *Repo) listNested(ctx context.Context) ([]string, error) {
	tracked, err := r.host.runOutput(ctx, "ls-files", "-z", "--stage")
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range splitTerminated(tracked, "\x00") {
		if info, name, ok := strings.Cut(e, "\t"); ok && strings.HasPrefix(info, "160000 ") {
			list = append(list, name)
		}
	}
	others, err := r.host.runOutput(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	for _, e := range splitTerminated(others, "\x00") {
		if name, ok := strings.CutSuffix(e, "/"); ok {
			list = append(list, name)
		}
	}
	return list, err
}

// Forget removes the rescues of a sandbox before a time, and returns their number.
func (r *Repo) Forget(ctx context.Context, name string, before time.Time) (int, error) {
	all, err := r.Rescues(ctx, name)
	if err != nil {
		return 0, err
	}
	old, err := r.listRefs(ctx, refPrefix(name)+kindRescue)
	if err != nil {
		return 0, err
	}
	var updates []Update
	n := 0
	for _, rescued := range all {
		if !rescued.Time.Before(before) {
			continue
		}
		n++
		for _, ref := range rescued.Refs {
			updates = append(updates, Update{Ref: ref, Old: old[ref]})
		}
	}
	return n, r.updateRefs(ctx, updates, "atoll: forgotten")
}
