package project

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Review says what of a sandbox's branch is looked at.
type Review struct {
	Name   string // of the sandbox
	Branch string // of it, as it was fetched; "wip/BRANCH": with uncommitted work
	Brief  bool   // Diff: only how many lines of each file
	Patch  bool   // Log: also what each commit changes
	Limits Limits
}

// reviewed is what a review begins from, and its tip. from is where the branch
// parted from the host's HEAD; empty: they have nothing in common.
func (r *Repo) reviewed(ctx context.Context, v Review) (q *quarantine, from, tip string, err error) {
	if tip, err = r.fetched(ctx, Merge{Name: v.Name, Branch: v.Branch}); err != nil {
		return nil, "", "", err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return nil, "", "", err
	}
	q = &quarantine{host: r.host.with(allocation), repo: r} // all is there already
	if head.Commit != "" {
		out, _, err := q.status(ctx, "merge-base", head.Commit, tip)
		if err != nil {
			return nil, "", "", err
		}
		from = strings.TrimSuffix(out, "\n")
	}
	return q, from, tip, q.measure(ctx, tip, v.Limits.orDefault())
}

// Diff writes what a branch, as it was fetched, has since it parted from the
// host's HEAD, as git writes a patch. What it writes is as the sandbox made it:
// whoever shows it to people looks after that. ErrNothing: there is nothing.
func (r *Repo) Diff(ctx context.Context, w io.Writer, v Review) error {
	q, from, tip, err := r.reviewed(ctx, v)
	if err == nil && from == "" {
		from, err = r.tree(ctx, "")
	}
	if err == nil {
		var same bool
		if same, err = q.sameTree(ctx, from, tip); same {
			err = ErrNothing
		}
	}
	if err == nil {
		args := []string{"diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"}
		if v.Brief {
			args = []string{"diff-tree", "-r", "--stat=80", "--no-renames", "--no-ext-diff", "--no-textconv"}
		}
		err = q.run(ctx, nil, w, append(args, from, tip)...)
	}
	if err != nil {
		return &atoll.Error{Op: "diff", ID: v.Name, Err: err}
	}
	return nil
}

// Log writes the commits of a branch, as it was fetched, that the host's HEAD has
// not, newest first. It is with what it writes as with Diff.
func (r *Repo) Log(ctx context.Context, w io.Writer, v Review) error {
	q, _, tip, err := r.reviewed(ctx, v)
	head := Head{}
	if err == nil {
		head, err = r.Head(ctx)
	}
	if err == nil {
		args := []string{"log", "--no-decorate", "--no-mailmap", "--no-notes", "--no-show-signature", "--encoding=UTF-8", "--date=iso", "--format=medium"}
		if v.Patch {
			args = append(args, "-p", "--stat=80", "--no-renames", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")
		}
		args = append(args, tip)
		if head.Commit != "" {
			args = append(args, "^"+head.Commit)
		}
		out := &counting{w: w}
		if err = q.run(ctx, nil, out, args...); err == nil && out.n == 0 {
			err = ErrNothing
		}
	}
	if err != nil {
		return &atoll.Error{Op: "log", ID: v.Name, Err: err}
	}
	return nil
}

// counting is a writer that knows how much went through it.
type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Branches lists what was fetched of a sandbox that can be merged, applied and
// looked at: branches, and "wip/BRANCH".
func (r *Repo) Branches(ctx context.Context, name string) ([]string, error) {
	if err := checkSandboxName(name); err != nil {
		return nil, err
	}
	refs, err := r.current(ctx, base(name))
	if err != nil {
		return nil, err
	}
	var list []string
	for ref := range refs {
		branch := strings.TrimPrefix(ref, base(name))
		other := slices.ContainsFunc(kinds, func(k string) bool { return k != kindWork && strings.HasPrefix(branch, k) })
		if !other && CheckBranch(branch) == nil {
			list = append(list, branch)
		}
	}
	slices.Sort(list)
	return list, nil
}
