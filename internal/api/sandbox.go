package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// SandboxKey is the sandbox in a path. It is exported because huma reads only exported embedded
// structs.
type SandboxKey struct {
	ID string `path:"id" doc:"The sandbox's id, or its name."`
}

// listSandboxes are the parameters of the sandbox list.
type listSandboxes struct {
	States    []string `query:"state,explode" enum:"created,starting,running,pausing,paused,stopping,stopped,archived,error,destroyed" doc:"Only sandboxes in one of these states."`
	Labels    []string `query:"label,explode" doc:"Only sandboxes with all of these labels, each KEY=VALUE."`
	Name      string   `query:"name" doc:"Only the sandbox of this name."`
	All       bool     `query:"all" doc:"Include destroyed sandboxes, as long as they are remembered."`
	AllOwners bool     `query:"all_owners" doc:"Include all owners; needs the scope operate."`
	Limit     int      `query:"limit" minimum:"0" maximum:"1000" doc:"Maximum number; all by default. If there are more, the response has next."`
	After     string   `query:"after" maxLength:"64" doc:"Only sandboxes after the page whose next this is."`

	filter fleet.Filter
}

// Resolve parses the labels.
func (in *listSandboxes) Resolve(huma.Context) []error {
	var errs []error
	in.filter = fleet.Filter{Name: in.Name, All: in.All, AllOwners: in.AllOwners, Limit: in.Limit, After: in.After}
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

// createSandbox is the request for a new sandbox.
type createSandbox struct {
	Body atoll.Config
}

// Resolve checks the configuration, so that all mistakes are reported at once.
func (in *createSandbox) Resolve(huma.Context) []error { return errorDetails(in.Body.Check()) }

// changeSandbox is the request for a change of a sandbox.
type changeSandbox struct {
	SandboxKey

	Body atoll.Change
}

// Resolve checks the change.
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
	return append(errs, errorDetails(cfg.Check())...)
}

// createdReply is a response with the location of a new object.
type createdReply[T any] struct {
	Location string `header:"Location"`
	Body     T
}

// registerSandboxes registers the operations on sandboxes.
func (s *Server) registerSandboxes(api huma.API) {
	noun := []string{"sandboxes"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-sandboxes", Method: http.MethodGet, Path: "/v1/sandboxes", Tags: noun,
		Summary: "List sandboxes, oldest first",
	}, func(ctx context.Context, a *fleet.Account, in *listSandboxes) (*reply[wire.Page[atoll.Info]], error) {
		list, next, err := a.ListPage(ctx, in.filter)
		if err != nil {
			return nil, err
		}
		return &reply[wire.Page[atoll.Info]]{wire.Page[atoll.Info]{Items: list, Next: next}}, nil
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "create-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary: "Create a sandbox", Description: "It is running when the response is sent. If creation fails, nothing is left.", Errors: []int{404, 409, 501, 507},
	}, func(ctx context.Context, a *fleet.Account, in *createSandbox) (*createdReply[atoll.Info], error) {
		sb, err := a.Create(ctx, in.Body)
		if errors.Is(err, atoll.ErrQuota) && s.endIdleAgents(ctx, a) { // they had a part of it
			sb, err = a.Create(ctx, in.Body)
		}
		if err != nil {
			return nil, err
		}
		return createdSandbox(ctx, sb)
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "get-sandbox", Method: http.MethodGet, Path: "/v1/sandboxes/{id}", Tags: noun,
		Summary: "Get a sandbox", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[atoll.Info], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return oneReply(sb.Info(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "update-sandbox", Method: http.MethodPatch, Path: "/v1/sandboxes/{id}", Tags: noun,
		Summary: "Change the name, labels or lifecycle of a sandbox", Errors: []int{404, 409},
	}, func(ctx context.Context, a *fleet.Account, in *changeSandbox) (*reply[atoll.Info], error) {
		return oneReply(a.Update(ctx, in.ID, in.Body))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "destroy-sandbox", Method: http.MethodDelete, Path: "/v1/sandboxes/{id}", Tags: noun,
		Summary: "Destroy a sandbox", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *destroySandbox) (*noBody, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if in.KeepDisk != "" {
			return emptyReply(sb.DestroyKeepDisk(ctx, in.KeepDisk))
		}
		return emptyReply(sb.Destroy(ctx))
	})
	s.registerStateChanges(api)
	s.registerUsage(api)
	s.registerSandboxArchives(api)
}

func createdSandbox(ctx context.Context, sb *fleet.Sandbox) (*createdReply[atoll.Info], error) {
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	return &createdReply[atoll.Info]{Location: "/v1/sandboxes/" + info.ID, Body: info}, nil
}

// registerAction registers an operation on a sandbox without input and output.
func (s *Server) registerAction(api huma.API, id, method, path, summary string, f func(sb atoll.Sandbox, ctx context.Context) error) {
	registerJSON(s, api, huma.Operation{
		OperationID: id, Method: method, Path: "/v1/sandboxes/{id}" + path, Tags: []string{"sandboxes"},
		Summary: summary, Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*noBody, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return emptyReply(f(sb, ctx))
	})
}

// The parameters of destroying and starting a sandbox.
type (
	destroySandbox struct {
		SandboxKey

		KeepDisk string `query:"keep_disk" maxLength:"63" doc:"Keep the disk of its working directory under this name."`
	}
	startSandbox struct {
		SandboxKey

		Fresh bool `query:"fresh" doc:"Discard its disks: it starts as it was created."`
	}
)

// registerStateChanges registers start, stop, pause and resume.
func (s *Server) registerStateChanges(api huma.API) {
	registerJSON(s, api, huma.Operation{
		OperationID: "start-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{id}/start", Tags: []string{"sandboxes"},
		Summary: "Start a stopped sandbox", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *startSandbox) (*noBody, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if in.Fresh {
			return emptyReply(atoll.StartFresh(ctx, sb))
		}
		return emptyReply(atoll.Start(ctx, sb))
	})
	for _, o := range []struct {
		name, summary string
		f             func(context.Context, atoll.Sandbox) error
	}{
		{"stop", "Stop a sandbox; its files stay", atoll.Stop},
		{"archive", "Move the files of a stopped sandbox to the archive storage; starting or using it brings it back", archiveSandbox},
		{"pause", "Freeze the processes of a sandbox", atoll.Pause},
		{"resume", "Resume a paused sandbox", atoll.Resume},
	} {
		s.registerAction(api, o.name+"-sandbox", http.MethodPost, "/"+o.name, o.summary, func(sb atoll.Sandbox, ctx context.Context) error { return o.f(ctx, sb) })
	}
}

// listHistory are the parameters of the history.
type listHistory struct {
	SandboxKey

	Limit    int  `query:"limit" minimum:"0" maximum:"1000" doc:"Maximum number; 100 by default."`
	Internal bool `query:"internal" doc:"Also commands of atoll itself, such as git of a sync."`
}

// listUsage are the parameters of the resource usage over time.
type listUsage struct {
	SandboxKey

	Since time.Time `query:"since" doc:"Only samples not older than this time (RFC 3339)."`
	Until time.Time `query:"until" doc:"Only samples not newer than this time."`
}

// registerUsage registers resource usage and history.
func (s *Server) registerUsage(api huma.API) {
	registerJSON(s, api, huma.Operation{
		OperationID: "list-sandbox-usage", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/usage", Tags: []string{"sandboxes"},
		Summary: "List the resource usage of a sandbox over time",
		Description: "As this server has sampled it since it started: of the last half hour each sample, of the last day one in two minutes. " +
			"A sandbox whose usage is slow to measure is sampled less often.", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *listUsage) (*reply[wire.UsageSeries], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return oneReply(sb.UsageSeries(ctx, in.Since, in.Until))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "get-sandbox-stats", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/stats", Tags: []string{"sandboxes"},
		Summary: "Get the resource usage of a sandbox", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[atoll.Stats], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return oneReply(atoll.StatsOf(ctx, sb))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "get-sandbox-history", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/history", Tags: []string{"sandboxes"},
		Summary:     "List the newest commands of a sandbox, oldest first",
		Description: "When the newest have filled 8 MiB, older ones come without output and with truncated set.", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *listHistory) (*reply[wire.List[atoll.Result]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return listReply(sb.Commands(ctx, fleet.HistoryFilter{Limit: in.Limit, Internal: in.Internal}))
	})
}

// errorDetails returns the single problems of an ErrInvalid as huma's error details.
func errorDetails(err error) []error {
	if err == nil {
		return nil
	}
	p := wire.ProblemOf(err)
	if len(p.Errors) == 0 {
		return []error{&huma.ErrorDetail{Message: p.Detail, Location: "body"}}
	}
	var errs []error
	for _, d := range p.Errors {
		errs = append(errs, &huma.ErrorDetail{Message: d.Message, Location: bodyLocation(d.Location)})
	}
	return errs
}

func bodyLocation(field string) string {
	if field == "" {
		return "body"
	}
	return "body." + field
}

// invalidField returns the error of a body with a missing or wrong field.
func invalidField(field, format string, a ...any) error {
	text := fmt.Sprintf(format, a...)
	return &requestError{status: http.StatusUnprocessableEntity, kind: "invalid", detail: field + ": " + text, errs: []wire.Detail{{Message: text, Location: bodyLocation(field)}}}
}
