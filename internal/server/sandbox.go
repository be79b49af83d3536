package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// SandboxKey names the sandbox of a path. It is exported because huma reads only
// embedded structs that are.
type SandboxKey struct {
	ID string `path:"id" doc:"The sandbox's id, or its name."`
}

// listSandboxes is what a list of sandboxes is asked with.
type listSandboxes struct {
	States    []string `query:"state,explode" enum:"created,starting,running,pausing,paused,stopping,stopped,error,destroyed" doc:"Only those in one of these states."`
	Labels    []string `query:"label,explode" doc:"Only those with all of these labels, each KEY=VALUE."`
	Name      string   `query:"name" doc:"Only the one of this name."`
	All       bool     `query:"all" doc:"Destroyed ones too, as long as they are remembered."`
	AllOwners bool     `query:"all_owners" doc:"Those of all owners; needs the scope admin."`

	filter fleet.Filter
}

// Resolve reads the labels.
func (in *listSandboxes) Resolve(huma.Context) []error {
	var errs []error
	in.filter = fleet.Filter{Name: in.Name, All: in.All, AllOwners: in.AllOwners}
	for _, s := range in.States {
		in.filter.States = append(in.filter.States, atoll.State(s))
	}
	for _, l := range in.Labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			errs = append(errs, &huma.ErrorDetail{Message: "must be KEY=VALUE", Location: "query.label", Value: l})
			continue
		}
		if in.filter.Labels == nil {
			in.filter.Labels = make(map[string]string)
		}
		in.filter.Labels[k] = v
	}
	return errs
}

// createSandbox is what a sandbox is made of.
type createSandbox struct {
	Body atoll.Config
}

// Resolve adds what only the configuration itself knows to be wrong, so that
// all mistakes are told at once.
func (in *createSandbox) Resolve(huma.Context) []error { return details(in.Body.Check()) }

// changeSandbox is what is changed of a sandbox.
type changeSandbox struct {
	SandboxKey

	Body atoll.Change
}

// Resolve checks what a sandbox is to become.
func (in *changeSandbox) Resolve(huma.Context) []error {
	cfg := atoll.Config{Spec: atoll.Spec{Labels: in.Body.Labels}}
	var errs []error
	if in.Body.Name != nil {
		if cfg.Name = *in.Body.Name; cfg.Name == "" {
			errs = append(errs, &huma.ErrorDetail{Message: "must not be empty", Location: "body.name"})
		}
	}
	if in.Body.Lifecycle != nil {
		cfg.Lifecycle = *in.Body.Lifecycle
	}
	return append(errs, details(cfg.Check())...)
}

// created is an answer that says where what was made is found.
type created[T any] struct {
	Location string `header:"Location"`
	Body     T
}

// sandboxes adds the life of sandboxes.
func (s *Server) sandboxes(api huma.API) {
	noun := []string{"sandboxes"}
	register(s, api, huma.Operation{
		OperationID: "list-sandboxes", Method: http.MethodGet, Path: "/v1/sandboxes", Tags: noun,
		Summary: "List sandboxes, oldest first",
	}, func(ctx context.Context, a *fleet.Account, in *listSandboxes) (*reply[wire.List[atoll.Info]], error) {
		return list(a.List(ctx, in.filter))
	})
	register(s, api, huma.Operation{
		OperationID: "create-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Make a sandbox", Description: "It is running when the answer comes; or nothing is left.", Errors: []int{404, 409, 501, 507},
	}, func(ctx context.Context, a *fleet.Account, in *createSandbox) (*created[atoll.Info], error) {
		sb, err := a.Create(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return madeSandbox(ctx, sb)
	})
	register(s, api, huma.Operation{
		OperationID: "get-sandbox", Method: http.MethodGet, Path: "/v1/sandboxes/{id}", Tags: noun,
		Summary: "All about a sandbox", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[atoll.Info], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return one(sb.Info(ctx))
	})
	register(s, api, huma.Operation{
		OperationID: "update-sandbox", Method: http.MethodPatch, Path: "/v1/sandboxes/{id}", Tags: noun,
		Summary: "Change name, labels or lifecycle", Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *changeSandbox) (*reply[atoll.Info], error) {
		return one(a.Update(ctx, in.ID, in.Body))
	})
	register(s, api, huma.Operation{
		OperationID: "destroy-sandbox", Method: http.MethodDelete, Path: "/v1/sandboxes/{id}", Tags: noun,
		Summary: "Remove a sandbox and all it holds", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *destroySandbox) (*none, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if in.KeepDisk != "" {
			return done(sb.DestroyKeeping(ctx, in.KeepDisk))
		}
		return done(sb.Destroy(ctx))
	})
	s.switches(api)
	s.memories(api)
}

func madeSandbox(ctx context.Context, sb *fleet.Sandbox) (*created[atoll.Info], error) {
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	return &created[atoll.Info]{Location: "/v1/sandboxes/" + info.ID, Body: info}, nil
}

// act adds an operation on a sandbox that takes and answers nothing.
func (s *Server) act(api huma.API, id, method, path, summary string, f func(sb atoll.Sandbox, ctx context.Context) error) {
	register(s, api, huma.Operation{
		OperationID: id, Method: method, Path: "/v1/sandboxes/{id}" + path, Tags: []string{"sandboxes"},
		Summary: summary, Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*none, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return done(f(sb, ctx))
	})
}

// destroySandbox and startSandbox are how a sandbox goes, and comes back.
type (
	destroySandbox struct {
		SandboxKey

		KeepDisk string `query:"keep_disk" maxLength:"63" doc:"Keep the disk of its working directory under this name."`
	}
	startSandbox struct {
		SandboxKey

		Fresh bool `query:"fresh" doc:"Discard what is on its disks: it starts as it was when it was made."`
	}
)

// switches adds what moves a sandbox from one state to another.
func (s *Server) switches(api huma.API) {
	register(s, api, huma.Operation{
		OperationID: "start-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/start", Tags: []string{"sandboxes"},
		Summary: "Switch a stopped sandbox on", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *startSandbox) (*none, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if in.Fresh {
			return done(atoll.Fresh(ctx, sb))
		}
		return done(atoll.Start(ctx, sb))
	})
	for _, o := range []struct {
		name, summary string
		f             func(context.Context, atoll.Sandbox) error
	}{
		{"stop", "Switch a sandbox off; its files stay", atoll.Stop},
		{"pause", "Freeze the processes of a sandbox", atoll.Pause},
		{"resume", "Let the processes of a paused sandbox go on", atoll.Resume},
	} {
		s.act(api, o.name+"-sandbox", http.MethodPost, "/"+o.name, o.summary, func(sb atoll.Sandbox, ctx context.Context) error { return o.f(ctx, sb) })
	}
}

// listHistory is what commands are asked for with.
type listHistory struct {
	SandboxKey

	Limit int `query:"limit" minimum:"0" maximum:"1000" doc:"How many; 100 if it is not given."`
}

// memories adds what a sandbox knows of itself.
func (s *Server) memories(api huma.API) {
	register(s, api, huma.Operation{
		OperationID: "get-sandbox-stats", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/stats", Tags: []string{"sandboxes"},
		Summary: "What a sandbox uses now", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[atoll.Stats], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return one(atoll.StatsOf(ctx, sb))
	})
	register(s, api, huma.Operation{
		OperationID: "get-sandbox-history", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/history", Tags: []string{"sandboxes"},
		Summary:     "The newest commands of a sandbox, oldest first",
		Description: "When the newest have filled 8 MiB, older ones come without their output, and say that it is truncated.", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *listHistory) (*reply[wire.List[atoll.Result]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return list(sb.Commands(ctx, in.Limit))
	})
}

// details returns the single problems of an error that matches ErrInvalid, as
// huma adds them to its own.
func details(err error) []error {
	if err == nil {
		return nil
	}
	p := wire.ProblemOf(err)
	if len(p.Errors) == 0 {
		return []error{&huma.ErrorDetail{Message: p.Detail, Location: "body"}}
	}
	var errs []error
	for _, d := range p.Errors {
		errs = append(errs, &huma.ErrorDetail{Message: d.Message, Location: location(d.Location)})
	}
	return errs
}

func location(field string) string {
	if field == "" {
		return "body"
	}
	return "body." + field
}

// invalid is the error of a body that lacks what its operation needs.
func invalid(field, format string, a ...any) error {
	text := fmt.Sprintf(format, a...)
	return &refusal{status: http.StatusUnprocessableEntity, kind: "invalid", detail: field + ": " + text, errs: []wire.Detail{{Message: text, Location: location(field)}}}
}
