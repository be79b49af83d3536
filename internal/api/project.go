package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/project/forge"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// actOnProject are the parameters of an act on a project.
type actOnProject struct {
	SandboxKey

	Body wire.ProjectAct
}

// registerProjects registers the repositories on the server's host that sandboxes work on.
func (s *Server) registerProjects(api huma.API) {
	noun := []string{"changes"}
	registerJSON(s, api, huma.Operation{
		OperationID: "get-project", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/project", Tags: noun,
		Summary: "Compare the branches of a sandbox with those of its repository on the server's host",
		Description: "Of sandboxes that 'atoll up' has created on the server's host. It needs the scope host. A sandbox that does not run is compared as it was last fetched. " +
			"Otherwise the sandbox's own git reports its side, and nothing of that can be trusted.",
		Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[wire.ProjectState], error) {
		p, err := s.openProject(ctx, a, in.ID)
		if err != nil {
			return nil, err
		}
		st, err := p.compareBranches(ctx)
		return oneReply(st, err)
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "act-on-project", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/project", Tags: noun,
		Summary: "Sync, merge, apply, update or publish the work of a sandbox",
		Description: "As 'atoll sync', 'merge', 'apply', 'update' and 'pr' do in the repository on the server's host, with the rights of the server's user. It needs the scope host. " +
			"Merging, applying and pushing files that can run code on the host needs accept_risks; a dry run lists them. A sync does not: as the command, it only moves the branch of the same name forward. After an error the repository is unchanged.",
		Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *actOnProject) (*reply[wire.ProjectResult], error) {
		p, err := s.openProject(ctx, a, in.ID)
		if err != nil {
			return nil, err
		}
		res, err := p.act(ctx, in.Body)
		return oneReply(res, err)
	})
}

// hostProject is a sandbox with its repository on the server's host.
type hostProject struct {
	repo     *project.Repo
	sb       *fleet.Sandbox
	name     string // of the sandbox, prefix of its refs
	running  bool
	imported string // see project.LabelImported
}

// openProject opens the project of a sandbox for a caller with the scope host.
func (s *Server) openProject(ctx context.Context, a *fleet.Account, id string) (*hostProject, error) {
	sb, err := a.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	info, err := sb.Info(ctx) // first: it answers as if sandboxes of others did not exist
	if err != nil {
		return nil, err
	}
	scopes := a.Caller().Scopes
	if !slices.Contains(scopes, atoll.ScopeHost) || !slices.Contains(scopes, atoll.ScopeRun) {
		return nil, fmt.Errorf("%w: the repository is on the server's host: that needs the scopes %q and %q", atoll.ErrDenied, atoll.ScopeRun, atoll.ScopeHost)
	}
	path := info.Labels[project.LabelPath]
	switch {
	case info.Owner != a.Caller().Owner: // its labels, and what it holds, are the other owner's
		return nil, fmt.Errorf("%w: only its owner brings the work of a sandbox into a repository", atoll.ErrDenied)
	case path == "":
		return nil, fmt.Errorf("sandbox %s: %w: it is no project's; 'atoll up' in a repository creates one that is", id, atoll.ErrNotFound)
	case s.opts.HostID == "" || info.Labels[project.LabelHost] != s.opts.HostID || !filepath.IsAbs(path):
		return nil, fmt.Errorf("sandbox %s: %w: its repository is not on the server's host, or belongs to another home of atoll: use the commands where 'atoll up' ran", id, atoll.ErrNotFound)
	}
	repo, err := project.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	if repo.Dir != path {
		return nil, fmt.Errorf("%s: %w: it was removed", path, project.ErrNoRepository)
	}
	return &hostProject{
		repo: repo, sb: sb, name: cmp.Or(info.Name, info.ID), running: info.State == atoll.Running, imported: info.Labels[project.LabelImported],
	}, nil
}

// compareBranches returns the state of all branches on both sides.
func (p *hostProject) compareBranches(ctx context.Context) (wire.ProjectState, error) {
	var got *project.SyncResult
	if p.running {
		err := p.inspect(ctx, "compare", func(ctx context.Context, sb atoll.Sandbox) (err error) {
			got, err = p.repo.Sync(ctx, sb, project.FetchOptions{Name: p.name, DryRun: true, ImportedTree: p.imported})
			return err
		})
		if got == nil { // with a result, the error is why a sync would not change the host's branch
			return wire.ProjectState{}, err
		}
	}
	l, err := p.repo.ReadLedger(ctx, p.name, got)
	if err != nil {
		return wire.ProjectState{}, err
	}
	return wire.ProjectState{Path: p.repo.Dir, Ledger: *l}, nil
}

// inspect calls f with the driver's sandbox in one audited call.
func (p *hostProject) inspect(ctx context.Context, act string, f func(context.Context, atoll.Sandbox) error) error {
	return p.sb.Inspect(ctx, "project", act+" "+p.repo.Dir, f)
}

// act does one act. Nothing new is a result; every refusal is an error.
func (p *hostProject) act(ctx context.Context, in wire.ProjectAct) (wire.ProjectResult, error) {
	do := map[string]func(context.Context, wire.ProjectAct, *wire.ProjectResult) error{
		wire.ProjectSync: p.sync, wire.ProjectMerge: p.merge, wire.ProjectApply: p.merge, wire.ProjectUpdate: p.update, wire.ProjectPR: p.publish,
	}[in.Act]
	if do == nil {
		return wire.ProjectResult{}, invalidField("act", "must be sync, merge, apply, update or pull_request")
	}
	if in.Tip != "" && (in.Act == wire.ProjectSync || in.Act == wire.ProjectUpdate) {
		return wire.ProjectResult{}, invalidField("tip", "must be empty: sync and update take what there is; merge, apply and pull_request take a commit")
	}
	res := wire.ProjectResult{Act: in.Act, DryRun: in.DryRun, Branch: in.Branch, Conflicts: []string{}, Risks: []wire.ProjectRisk{}}
	err := do(ctx, in, &res)
	switch {
	case errors.Is(err, project.ErrNoNewWork):
		res.Nothing = true
		return res, nil
	case errors.Is(err, project.ErrConflict) && in.DryRun && len(res.Conflicts) > 0:
		return res, nil
	case err != nil && len(res.Conflicts) > 0:
		return res, fmt.Errorf("%w: %s", err, strings.Join(res.Conflicts[:min(len(res.Conflicts), maxListed)], ", "))
	}
	return res, err
}

// maxListed limits the files that an error names.
const maxListed = 20

func (p *hostProject) sync(ctx context.Context, in wire.ProjectAct, res *wire.ProjectResult) error {
	var got *project.SyncResult
	err := p.inspect(ctx, in.Act, func(ctx context.Context, sb atoll.Sandbox) (err error) {
		got, err = p.repo.Sync(ctx, sb, project.FetchOptions{Name: p.name, Branch: in.Branch, DryRun: in.DryRun, ImportedTree: p.imported})
		return err
	})
	if got != nil {
		res.Branch, res.Into, res.Tip, res.Switched, res.Commits, res.Files = cmp.Or(in.Branch, got.Branch), got.TargetBranch, got.NewCommit, got.Switched, got.Commits, got.Files
		res.Overwritten, res.Rescue = got.Overwritten, got.RescueRef
		addRisks(res, got.Risks)
		if got.Applied {
			res.Commit = got.NewCommit
		}
	}
	return err
}

// fetch fetches the branches of the sandbox and returns the one to work with; withWork: with its uncommitted changes.
func (p *hostProject) fetch(ctx context.Context, in wire.ProjectAct, withWork bool) (string, *project.FetchResult, error) {
	var got *project.FetchResult
	err := p.inspect(ctx, in.Act, func(ctx context.Context, sb atoll.Sandbox) (err error) {
		got, err = p.repo.Fetch(ctx, sb, project.FetchOptions{Name: p.name})
		return err
	})
	if err != nil {
		return "", nil, err
	}
	branch := cmp.Or(in.Branch, got.Branch)
	if branch == "" {
		return "", nil, fmt.Errorf("sandbox %s: %w: name a branch", p.name, project.ErrDetached)
	}
	isDirty := func(b project.BranchState) bool { return b.Name == branch && b.SandboxDirty }
	if withWork && slices.ContainsFunc(got.Branches, isDirty) {
		branch = "wip/" + branch
	}
	return branch, got, nil
}

// merge merges a branch of the sandbox into that of the host, or applies its changes.
func (p *hostProject) merge(ctx context.Context, in wire.ProjectAct, res *wire.ProjectResult) error {
	do := p.repo.Merge
	if in.Act == wire.ProjectApply {
		do = p.repo.Apply
	}
	branch, got, err := p.fetch(ctx, in, in.Act == wire.ProjectApply)
	if err != nil {
		return err
	}
	m := project.MergeOptions{Name: p.name, Branch: branch, Tip: in.Tip, Message: in.Message, DryRun: true, ImportedTree: p.imported, Fetched: got}
	res.Branch = branch
	did, err := do(ctx, m)
	addMerge(res, did)
	if err != nil || in.DryRun {
		return err
	}
	if err := checkRisks(in, res); err != nil {
		return err
	}
	m.DryRun, m.Tip = false, did.Tip
	did, err = do(ctx, m)
	addMerge(res, did)
	return err
}

func addMerge(res *wire.ProjectResult, m *project.MergeResult) {
	if m == nil {
		return
	}
	res.Into, res.Tip, res.Commit, res.FastForward, res.Files = m.TargetBranch, m.Tip, m.Commit, m.FastForward, m.Files
	res.Conflicts, res.Overwritten, res.Rescue = append([]string{}, m.Conflicts...), m.Overwritten, m.RescueRef
	addRisks(res, m.Risks)
}

func addRisks(res *wire.ProjectResult, risks []project.Risk) {
	res.Risks = []wire.ProjectRisk{}
	for _, r := range risks {
		res.Risks = append(res.Risks, wire.ProjectRisk{Path: r.Path, Reason: r.Reason})
	}
}

// checkRisks refuses files that can run code on the host, unless the caller accepts them.
func checkRisks(in wire.ProjectAct, res *wire.ProjectResult) error {
	if len(res.Risks) == 0 || in.AcceptRisks {
		return nil
	}
	var list []string
	for _, r := range res.Risks[:min(len(res.Risks), maxListed)] {
		list = append(list, r.Path+" ("+r.Reason+")")
	}
	return fmt.Errorf("%w: %d files can run code on the host: %s: review them, then set accept_risks", atoll.ErrDenied, len(res.Risks), strings.Join(list, ", "))
}

// update brings commits of the host into the sandbox.
func (p *hostProject) update(ctx context.Context, in wire.ProjectAct, res *wire.ProjectResult) error {
	modes := map[string]project.UpdateMode{"merge": project.UpdateMerge, "rebase": project.UpdateRebase}
	var did *project.UpdateResult
	err := p.inspect(ctx, in.Act, func(ctx context.Context, sb atoll.Sandbox) (err error) {
		did, err = p.repo.Update(ctx, sb, project.UpdateOptions{Name: p.name, Source: in.Branch, Mode: modes[in.Mode], DryRun: in.DryRun})
		return err
	})
	if did == nil {
		return err
	}
	res.Branch, res.Into, res.Commit, res.Commits, res.Conflicts = did.Source, did.Branch, did.NewCommit, did.Commits, append([]string{}, did.Conflicts...)
	for _, l := range did.Left {
		res.Left = append(res.Left, l.Name+": "+l.Reason)
	}
	return err
}

// publish pushes a branch and opens a pull request.
func (p *hostProject) publish(ctx context.Context, in wire.ProjectAct, res *wire.ProjectResult) error {
	branch, _, err := p.fetch(ctx, in, false)
	if err != nil {
		return err
	}
	plan, err := p.repo.PlanPublication(ctx, project.PublishOptions{Name: p.name, Branch: branch, Tip: in.Tip})
	if err != nil {
		return err
	}
	to, err := forge.ParseRemote(plan.URL, "")
	if err != nil {
		return err
	}
	res.Branch, res.Into, res.Tip, res.Commits, res.Files = branch, plan.Remote+"/"+plan.Target, plan.Tip, plan.Commits, plan.Files
	addRisks(res, plan.Risks)
	q := forge.Request{Head: plan.Target, Base: plan.Base, Title: cmp.Or(in.Title, plan.Target), Body: in.Message}
	if in.Title == "" && len(plan.Subjects) == 1 {
		q.Title, q.Body = plan.Subjects[0], cmp.Or(q.Body, strings.TrimSpace(plan.Message))
	}
	if in.DryRun {
		return nil
	}
	if err := checkRisks(in, res); err != nil {
		return err
	}
	if plan.Known != plan.Tip {
		if err := p.repo.Publish(ctx, plan, io.Discard); err != nil {
			return err
		}
	}
	res.Commit, res.URL = plan.Tip, to.CompareURL(q)
	client := forge.Client{Log: io.Discard}
	if _, err := client.FindAccess(to); errors.Is(err, forge.ErrNoAccess) {
		return nil // the user opens it at the URL
	}
	url, err := client.Open(ctx, to, q)
	if err != nil {
		return fmt.Errorf("%w: %s was pushed; open the pull request at %s", err, plan.Target, res.URL)
	}
	res.URL, res.Opened = url, true
	return nil
}
