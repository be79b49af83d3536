package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The parameters of changes.
type (
	listChanges struct {
		SandboxKey

		Dir    string `query:"dir" doc:"A directory inside, in a git repository; by default the sandbox's own directory."`
		Branch string `query:"branch" doc:"The branch; by default that of the working tree at dir."`
		Base   string `query:"base" doc:"Branch or commit to compare with. By default the branch's upstream, else the branch of the main working tree, else the commit at which the branch came into the repository."`
		View   string `query:"view" enum:"all,commits,uncommitted" doc:"Commits since the base, work that is in no commit, or all; all by default."`
	}
	getChange struct {
		SandboxKey

		Dir  string `query:"dir" doc:"The directory of the repository: dir of the list; by default the sandbox's own directory."`
		Path string `query:"path" doc:"The file's path in the repository."`
		From string `query:"from" doc:"The older commit: from of the list; none: the file is new."`
		To   string `query:"to" doc:"The newer commit: to of the list; none: the working tree."`
	}
)

// registerChanges registers the changes in git repositories of sandboxes.
func (s *Server) registerChanges(api huma.API) {
	noun := []string{"changes"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-changes", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/changes", Tags: noun,
		Summary: "List what has changed in a git repository of a sandbox",
		Description: "The sandbox's own git reports it, so the scope run is needed, and nothing of it can be trusted. Each file has the reasons why it may be a risk on the machine that " +
			"takes it over: hooks, files that CI or editors run, lockfiles, links that lead out, set-user-id.", Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *listChanges) (*reply[wire.Changes], error) {
		return inspectChanges(ctx, a, in.ID, in.Dir, func(ctx context.Context, sb atoll.Sandbox, dir string) (*wire.Changes, error) {
			return project.ListChanges(ctx, sb, project.ChangesOptions{Dir: dir, Branch: in.Branch, Base: in.Base, View: in.View})
		})
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "get-change", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/changes/file", Tags: noun,
		Summary: "Get both contents of a changed file", Description: "Texts up to 1 MiB; of other files, why there is none.", Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *getChange) (*reply[wire.FileChange], error) {
		return inspectChanges(ctx, a, in.ID, in.Dir, func(ctx context.Context, sb atoll.Sandbox, dir string) (*wire.FileChange, error) {
			return project.ReadChange(ctx, sb, dir, in.From, in.To, in.Path)
		})
	})
}

// inspectChanges calls f with the driver's sandbox, in one audited call, and with the directory to look at: dir,
// or the sandbox's own.
func inspectChanges[T any](ctx context.Context, a *fleet.Account, id, dir string, f func(context.Context, atoll.Sandbox, string) (*T, error)) (*reply[T], error) {
	sb, err := a.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		info, err := sb.Info(ctx)
		if err != nil {
			return nil, err
		}
		dir = info.Config.Dir
	}
	if dir == "" {
		dir = project.Workspace
	}
	var got *T
	err = sb.Inspect(ctx, "changes", dir, func(ctx context.Context, inner atoll.Sandbox) (err error) {
		got, err = f(ctx, inner, dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &reply[T]{*got}, nil
}
