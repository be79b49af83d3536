package project

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// ReviewOptions describes a review of a fetched branch.
type ReviewOptions struct {
	Name   string // name of the sandbox
	Branch string // fetched branch of the sandbox; "wip/BRANCH": with uncommitted work
	Brief  bool   // for Diff: only the number of changed lines of each file
	Patch  bool   // for Log: also the changes of each commit; for Diff: a patch that 'git apply' takes, with binary files
	Limits Limits
}

// prepareReview returns the commit from which a review begins, and its tip. from is the merge base with
// the host's HEAD; empty: there is none.
func (r *Repo) prepareReview(ctx context.Context, v ReviewOptions) (q *quarantine, from, tip string, err error) {
	if tip, err = r.resolveFetched(ctx, MergeOptions{Name: v.Name, Branch: v.Branch}); err != nil {
		return nil, "", "", err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return nil, "", "", err
	}
	q = r.checkedObjects()
	if head.Commit != "" {
		out, _, err := q.runStatus(ctx, "merge-base", head.Commit, tip)
		if err != nil {
			return nil, "", "", err
		}
		from = strings.TrimSuffix(out, "\n")
	}
	return q, from, tip, q.checkSize(ctx, tip, v.Limits.orDefault())
}

// Diff writes the changes of a fetched branch since the merge base with the host's HEAD, in git's patch
// format. The text is untrusted: callers must make it safe for a terminal. ErrNoNewWork: there are no
// changes.
func (r *Repo) Diff(ctx context.Context, w io.Writer, v ReviewOptions) error {
	q, from, tip, err := r.prepareReview(ctx, v)
	if err == nil && from == "" {
		from, err = r.treeOf(ctx, "")
	}
	if err == nil {
		var same bool
		if same, err = q.sameTree(ctx, from, tip); same {
			err = ErrNoNewWork
		}
	}
	if err == nil {
		args := []string{"diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"}
		if v.Patch {
			args = append(args, "--binary", "--full-index")
		}
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

// Log writes the commits of a fetched branch that the host's HEAD does not have, newest first. The text is
// untrusted, as with Diff.
func (r *Repo) Log(ctx context.Context, w io.Writer, v ReviewOptions) error {
	q, _, tip, err := r.prepareReview(ctx, v)
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
		out := &countingWriter{w: w}
		if err = q.run(ctx, nil, out, args...); err == nil && out.n == 0 {
			err = ErrNoNewWork
		}
	}
	if err != nil {
		return &atoll.Error{Op: "log", ID: v.Name, Err: err}
	}
	return nil
}

// countingWriter counts the bytes that are written.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Branches lists the fetched branches of a sandbox that can be merged, applied and reviewed: branches and
// "wip/BRANCH".
func (r *Repo) Branches(ctx context.Context, name string) ([]string, error) {
	if err := checkSandboxName(name); err != nil {
		return nil, err
	}
	refs, err := r.listRefs(ctx, refPrefix(name))
	if err != nil {
		return nil, err
	}
	var list []string
	for ref := range refs {
		branch := strings.TrimPrefix(ref, refPrefix(name))
		other := slices.ContainsFunc(refKinds, func(k string) bool { return k != kindWork && strings.HasPrefix(branch, k) })
		if !other && CheckBranch(branch) == nil {
			list = append(list, branch)
		}
	}
	slices.Sort(list)
	return list, nil
}

// maxReviewFile limits a file that a comment quotes, in bytes.
const maxReviewFile = 8 << 20

// ReadFetchedFile returns a file of a fetched branch. A path that is no file of it is ErrNotFound. The text is
// untrusted, as with Diff.
func (r *Repo) ReadFetchedFile(ctx context.Context, v ReviewOptions, path string) (string, error) {
	text, err := r.readFetchedFile(ctx, v, path)
	if err != nil {
		return "", &atoll.Error{Op: "review", ID: v.Name, Err: err}
	}
	return text, nil
}

func (r *Repo) readFetchedFile(ctx context.Context, v ReviewOptions, path string) (string, error) {
	tip, err := r.resolveFetched(ctx, MergeOptions{Name: v.Name, Branch: v.Branch})
	if err != nil {
		return "", err
	}
	missing := fmt.Errorf("file %s of branch %s: %w", printable(path), v.Branch, atoll.ErrNotFound)
	if !fs.ValidPath(path) || strings.ContainsRune(path, '\n') {
		return "", missing
	}
	out, err := r.host.runOutput(ctx, "ls-tree", "-z", "-l", tip, "--", path)
	if err != nil {
		return "", err
	}
	meta, _, _ := strings.Cut(out, "\t")
	fields := strings.Fields(meta) // mode, type, object, size
	if len(fields) != 4 || fields[1] != "blob" {
		return "", missing
	}
	if size, err := strconv.ParseInt(fields[3], 10, 64); err != nil || size > maxReviewFile {
		return "", fmt.Errorf("file %s of branch %s: %w: it has more than %d bytes", printable(path), v.Branch, ErrTooLarge, int64(maxReviewFile))
	}
	return r.host.runOutput(ctx, "cat-file", "blob", fields[2])
}
