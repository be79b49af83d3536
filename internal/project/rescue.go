package project

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Rescued is what was saved of a sandbox at one time.
type Rescued struct {
	Time time.Time
	Refs []string // of the host, by name
}

// Rescue saves everything that git has in a sandbox to
// refs/sandbox/NAME/rescue/TIME/…: all branches, tags, stashes, and the uncommitted
// work of every working tree, also of the repositories inside. It is for whoever
// is about to remove the sandbox, and must not when this fails. Files that git
// ignores are not saved. What the host has already on a branch or a tag of its own
// is saved by those. ErrNothing: all of it is there, or nothing was ever carried in.
func (r *Repo) Rescue(ctx context.Context, sb atoll.Sandbox, f Fetch) (Rescued, error) {
	res := Rescued{Time: time.Now().UTC()}
	err := checkSandboxName(f.Name)
	if err == nil {
		g := guest{sb: sb, dir: Workspace}
		if err = g.worked(ctx); err == nil {
			res.Refs, err = r.rescue(ctx, g, f, base(f.Name)+kindRescue+stamp(res.Time)+"/")
		}
		if err == nil && len(res.Refs) == 0 {
			err = ErrNothing
		}
	}
	if err != nil {
		return res, &atoll.Error{Op: "rescue", ID: f.Name, Err: err}
	}
	return res, nil
}

// worked is ErrNothing if nobody can have worked in the workspace: nothing came
// in, or not all of it.
func (g guest) worked(ctx context.Context) error {
	_, err := unused(ctx, g)
	switch {
	case err == nil, errors.Is(err, atoll.ErrNotFound):
		return ErrNothing
	case errors.Is(err, atoll.ErrExists):
		return nil
	}
	return err
}

// rescue is Rescue of one repository inside, and those in it.
func (r *Repo) rescue(ctx context.Context, g guest, f Fetch, below string) ([]string, error) {
	if err := r.sameFormat(ctx, g); err != nil {
		return nil, err
	}
	w := newWanted(below)
	if err := w.look(ctx, g); err != nil {
		return nil, err
	}
	tags, err := g.refs(ctx, "refs/tags/", "refs/tags/")
	if err != nil {
		return nil, err
	}
	for _, t := range tags {
		w.add(kindTag, t.name, t.object)
	}
	stashes, err := g.stashes(ctx)
	if err != nil {
		return nil, err
	}
	for i, s := range stashes {
		w.add(kindStash, fmt.Sprint(i), s)
	}
	if err := r.leaveOut(ctx, w); err != nil {
		return nil, err
	}
	q, err := r.quarantine()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(r.bring(ctx, g, q, w, f), q.remove()); err != nil {
		return nil, err
	}
	var refs []string
	for _, u := range w.Updates {
		refs = append(refs, u.Ref)
	}
	for _, n := range w.nested {
		inner, err := r.rescueNested(ctx, g.in(n.dir), n.name, f, below)
		if err != nil {
			return refs, fmt.Errorf("repository %s: %w", shown(n.name), err)
		}
		refs = append(refs, inner...)
	}
	return refs, nil
}

func (r *Repo) rescueNested(ctx context.Context, g guest, name string, f Fetch, below string) ([]string, error) {
	into, err := r.module(ctx, name)
	if err != nil {
		return nil, err
	}
	if into == nil {
		return r.rescue(ctx, g, f, below+kindNested+digest(name)+"/")
	}
	stamped, _, _ := strings.Cut(strings.TrimPrefix(below, base(f.Name)+kindRescue), "/")
	return into.rescue(ctx, g, f, base(f.Name)+kindRescue+stamped+"/")
}

// leaveOut drops what the host's own branches and tags hold.
func (r *Repo) leaveOut(ctx context.Context, w *wanted) error {
	ours, err := r.own(ctx)
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

// own are the objects that the host's own branches and tags are at.
func (r *Repo) own(ctx context.Context) (map[string]bool, error) {
	ours := make(map[string]bool)
	for _, prefix := range []string{"refs/heads/", "refs/tags/"} {
		refs, err := r.current(ctx, prefix)
		if err != nil {
			return nil, err
		}
		for _, object := range refs {
			ours[object] = true
		}
	}
	return ours, nil
}

// RescuedNames lists the sandboxes of which something was rescued, by name.
func (r *Repo) RescuedNames(ctx context.Context) ([]string, error) {
	refs, err := r.host.lines(ctx, "for-each-ref", "--format=%(refname)", "refs/sandbox/*/"+kindRescue+"**")
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

// Rescues lists what was rescued of a sandbox, newest first. No sandbox need be
// there.
func (r *Repo) Rescues(ctx context.Context, name string) ([]Rescued, error) {
	if err := checkSandboxName(name); err != nil {
		return nil, err
	}
	prefix := base(name) + kindRescue
	refs, err := r.host.lines(ctx, "for-each-ref", "--format=%(refname)", prefix)
	if err != nil {
		return nil, err
	}
	var all []Rescued
	for _, ref := range refs {
		at, _, _ := strings.Cut(strings.TrimPrefix(ref, prefix), "/")
		when, err := time.Parse("20060102T150405.000000000Z", at)
		if err != nil {
			continue // somebody else's
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

// Restore makes branches of the host of what was rescued at a time, each with a
// prefix before its name: "rescued/" makes rescued/main, rescued/wip/main. It returns
// them by name. One that is there and has another commit is ErrExists, and then
// nothing has changed. What was rescued stays.
func (r *Repo) Restore(ctx context.Context, name string, at time.Time, prefix string) ([]string, error) {
	if err := checkSandboxName(name); err != nil {
		return nil, err
	}
	below := base(name) + kindRescue + stamp(at) + "/"
	refs, err := r.current(ctx, below)
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
			continue // it may be no commit
		}
		branch := path.Join(prefix, strings.TrimPrefix(ref, below))
		if err := CheckBranch(branch); err != nil {
			return nil, err
		}
		is, err := r.resolve(ctx, "refs/heads/"+branch)
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
	return branches, r.update(ctx, updates, "atoll: restored")
}

// ForgetOld removes what was rescued of any sandbox before a time, also from the
// repositories inside: submodules, and others that are in the working tree.
func (r *Repo) ForgetOld(ctx context.Context, before time.Time) error {
	names, err := r.RescuedNames(ctx)
	for _, name := range names {
		_, ferr := r.Forget(ctx, name, before)
		err = errors.Join(err, ferr)
	}
	inside, lerr := r.inside(ctx)
	err = errors.Join(err, lerr)
	for _, name := range inside {
		m, merr := r.module(ctx, name)
		if m != nil && merr == nil {
			merr = m.ForgetOld(ctx, before)
		}
		if merr != nil {
			err = errors.Join(err, fmt.Errorf("repository %s: %w", shown(name), merr))
		}
	}
	return err
}

// inside lists where repositories are in the working tree of the host: those that
// git tracks, and others that it does not ignore.
func (r *Repo) inside(ctx context.Context) ([]string, error) {
	tracked, err := r.host.output(ctx, "ls-files", "-z", "--stage")
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range split(tracked, "\x00") {
		if info, name, ok := strings.Cut(e, "\t"); ok && strings.HasPrefix(info, "160000 ") {
			list = append(list, name)
		}
	}
	others, err := r.host.output(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	for _, e := range split(others, "\x00") {
		if name, ok := strings.CutSuffix(e, "/"); ok {
			list = append(list, name)
		}
	}
	return list, err
}

// Forget removes what was rescued of a sandbox before a time, and returns how
// many rescues that were.
func (r *Repo) Forget(ctx context.Context, name string, before time.Time) (int, error) {
	all, err := r.Rescues(ctx, name)
	if err != nil {
		return 0, err
	}
	old, err := r.current(ctx, base(name)+kindRescue)
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
	return n, r.update(ctx, updates, "atoll: forgotten")
}
