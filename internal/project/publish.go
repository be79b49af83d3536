package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// PublishOptions describes which fetched branch is pushed to a remote of the user.
type PublishOptions struct {
	Name   string // name of the sandbox
	Branch string // fetched branch of the sandbox
	Tip    string // commit that was reviewed; another one is ErrMoved; empty: any
	Remote string // empty: the only remote of the user, or origin
	Target string // branch on the remote; empty: as Branch
	Base   string // branch of the remote with which the work is compared; empty: the remote's default branch
	Limits Limits
}

// Publication is what a push would bring to a remote.
type Publication struct {
	Remote   string
	URL      string // of the remote, as configured
	Target   string
	Base     string
	Tip      string
	Known    string // commit of Target that was last seen on the remote; empty: none
	Commits  int    // that Base does not have
	Files    int
	Subjects []string // of these commits, oldest first, safe to print; at most maxSubjects
	Message  string   // the whole message, if there is one commit
	Risks    []Risk
}

// maxSubjects limits how many commits a publication describes.
const maxSubjects = 100

// PlanPublication returns what Publish would push. ErrNoNewWork: Base has all commits. ErrState: the remote
// has no such base, as far as the last fetch from it has shown.
func (r *Repo) PlanPublication(ctx context.Context, o PublishOptions) (*Publication, error) {
	p, err := r.planPublication(ctx, o)
	if err != nil {
		return nil, &atoll.Error{Op: "pull request", ID: o.Name, Err: err}
	}
	return p, nil
}

func (r *Repo) planPublication(ctx context.Context, o PublishOptions) (*Publication, error) {
	p := &Publication{Target: o.Target}
	if p.Target == "" {
		p.Target = o.Branch
	}
	if err := CheckBranch(p.Target); err != nil {
		return nil, err
	}
	var err error
	if p.Tip, err = r.resolveFetched(ctx, MergeOptions{Name: o.Name, Branch: o.Branch, Tip: o.Tip}); err != nil {
		return nil, err
	}
	if p.Remote, p.URL, err = r.findUserRemote(ctx, o.Remote); err != nil {
		return nil, err
	}
	if p.Base, err = r.findBase(ctx, p.Remote, o.Base); err != nil {
		return nil, err
	}
	if p.Base == p.Target {
		return nil, fmt.Errorf("%w: %s is the branch to merge into; --to names another one for the work, such as --to %s-%s", atoll.ErrInvalid, p.Target, o.Name, p.Target)
	}
	if p.Known, err = r.resolveRevision(ctx, "refs/remotes/"+p.Remote+"/"+p.Target+"^{commit}"); err != nil {
		return nil, err
	}
	return p, r.describePublication(ctx, p, o.Limits)
}

// describePublication sets what the base does not have.
func (r *Repo) describePublication(ctx context.Context, p *Publication, l Limits) error {
	q := r.checkedObjects()
	base, err := r.resolveRevision(ctx, "refs/remotes/"+p.Remote+"/"+p.Base+"^{commit}")
	if err != nil {
		return err
	}
	out, code, err := q.runStatus(ctx, "merge-base", base, p.Tip)
	switch {
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("%w: branch %s of the sandbox and %s/%s have no commit in common", atoll.ErrState, p.Target, p.Remote, p.Base)
	}
	described := &SyncResult{NewCommit: p.Tip, TargetBranch: p.Target, OldCommit: strings.TrimSuffix(out, "\n")}
	if err := q.describeChanges(ctx, described, Head{}, l.orDefault()); err != nil {
		return err
	}
	p.Commits, p.Files, p.Risks = described.Commits, described.Files, described.Risks
	if p.Commits == 0 {
		return ErrNoNewWork
	}
	lines, err := q.runLines(ctx, "log", "--reverse", fmt.Sprintf("--max-count=%d", maxSubjects), "--no-mailmap", "--no-show-signature", "--encoding=UTF-8", "--format=%s", p.Tip, "^"+base)
	if err != nil {
		return err
	}
	for _, line := range lines {
		p.Subjects = append(p.Subjects, printable(line))
	}
	if p.Commits == 1 {
		p.Message, err = q.runOutput(ctx, "log", "-1", "--no-mailmap", "--no-show-signature", "--encoding=UTF-8", "--format=%b", p.Tip)
	}
	return err
}

// findUserRemote returns the name and the URL of a remote; empty: origin, or the only one that is not of a
// sandbox.
func (r *Repo) findUserRemote(ctx context.Context, name string) (remote, url string, err error) {
	all, err := r.host.runLines(ctx, "remote")
	if err != nil {
		return "", "", err
	}
	var own []string
	for _, n := range all {
		if !strings.HasPrefix(n, remoteName("")) {
			own = append(own, n)
		}
	}
	if name == "" {
		name = "origin"
		if len(own) == 1 {
			name = own[0]
		}
	}
	if url, err = r.readConfig(ctx, "remote."+name+".url"); err == nil && url == "" {
		err = fmt.Errorf("remote %s of %s: %w; there is: %s", printable(name), r.Dir, atoll.ErrNotFound, summarizeNames(own))
	}
	return name, url, err
}

// findBase returns the branch of a remote into which work shall go; empty: its default branch.
func (r *Repo) findBase(ctx context.Context, remote, base string) (string, error) {
	prefix := "refs/remotes/" + remote + "/"
	if base == "" {
		out, code, err := r.host.runStatus(ctx, "symbolic-ref", "-q", prefix+"HEAD")
		if err != nil {
			return "", err
		}
		base = strings.TrimPrefix(strings.TrimSuffix(out, "\n"), prefix)
		for _, usual := range []string{"main", "master"} {
			if code == 0 {
				break
			}
			id, err := r.resolveRevision(ctx, prefix+usual+"^{commit}")
			if err != nil {
				return "", err
			}
			if id != "" {
				base, code = usual, 0
			}
		}
		if code != 0 {
			return "", fmt.Errorf("%w: the default branch of remote %s is unknown; --base names it", atoll.ErrInvalid, remote)
		}
	}
	id, err := r.resolveRevision(ctx, prefix+base+"^{commit}")
	if err == nil && id == "" {
		err = fmt.Errorf("branch %s of remote %s: %w; 'git fetch %s' learns of new ones", printable(base), remote, atoll.ErrNotFound, remote)
	}
	return base, err
}

// Publish pushes a planned publication with the user's credentials. It never overwrites: a branch of the
// remote that has other commits makes it fail. No hook of the repository runs. The output of git goes to log.
func (r *Repo) Publish(ctx context.Context, p *Publication, log io.Writer) error {
	err := r.runUserGit(ctx, log, "push", "--no-verify", "--", p.Remote, p.Tip+":refs/heads/"+p.Target)
	var failed *gitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s did not take branch %s: %w\nwhere branch %s of %s has other commits, --to names a new one", atoll.ErrState, p.Remote, p.Target, err, p.Target, p.Remote)
	}
	return err
}
