package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/proxy"
	"github.com/atoll-sandbox/atoll/internal/sshd"
)

// projectStatus is how a project's sandbox is, as --json tells it.
type projectStatus struct {
	Sandbox      string           `json:"sandbox"`
	ID           string           `json:"id"`
	State        atoll.State      `json:"state"`
	Stage        string           `json:"stage,omitempty"` // what 'atoll up' has not come past; empty: nothing is left to do
	Started      time.Time        `json:"started,omitzero"`
	Driver       string           `json:"driver"`
	Isolation    string           `json:"isolation"`
	Acceleration string           `json:"acceleration,omitempty"` // of a machine: kvm or none
	Nested       bool             `json:"nested,omitempty"`       // machines may run in it
	Path         string           `json:"path,omitempty"`         // of the working tree
	Here         bool             `json:"here"`                   // that is on this machine
	MemoryUsed   int64            `json:"memory_used,omitempty"`
	MemoryLimit  int64            `json:"memory_limit,omitempty"`
	DiskUsed     int64            `json:"disk_used,omitempty"`
	DiskLimit    int64            `json:"disk_limit,omitempty"`
	SSH          string           `json:"ssh,omitempty"` // the host that ssh reaches it by
	Routes       []liveRoute      `json:"routes"`
	NotFound     string           `json:"not_found,omitempty"` // which of their names programs of this machine don't find
	Worktrees    []worktreeStatus `json:"worktrees"`
	Terminals    []atoll.Terminal `json:"terminals"`
	Sync         syncStatus       `json:"sync"`
	Problems     []string         `json:"problems,omitempty"` // what could not be found out
}

// liveRoute is a port that is open, and its name.
type liveRoute struct {
	Port    int    `json:"port"`
	Name    string `json:"name,omitempty"` // as .atoll.yaml has it
	Command string `json:"command,omitempty"`
	URL     string `json:"url,omitempty"`    // empty: no proxy leads to it from here
	Locked  bool   `json:"locked,omitempty"` // it opens to those who have a link
}

type worktreeStatus struct {
	Branch   string `json:"branch,omitempty"`
	Path     string `json:"path"`
	Main     bool   `json:"main"`
	Terminal string `json:"terminal,omitempty"`
	Port     int    `json:"port,omitempty"` // the first of its own
}

type syncStatus struct {
	Mode        project.Mode `json:"mode,omitempty"`
	Last        time.Time    `json:"last,omitzero"`     // sync that looked, here
	Refused     string       `json:"refused,omitempty"` // why that one did not land
	Looked      bool         `json:"looked"`            // what follows was asked for
	Commits     int          `json:"commits"`
	Files       int          `json:"files"`
	Uncommitted bool         `json:"uncommitted"` // work that was not carried in, and is not at home
}

func (a *app) statusCommand() *cobra.Command {
	var all, offline bool
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show how a project's sandbox is, and what work waits in it",
		Long: `Show how a project's sandbox is: its wall, what it uses, its ports and their names,
its working trees and terminals, and what work in it is not home yet. Without NAME it is
the sandbox of the directory that you are in. Of any other sandbox it shows what there
is to know. The exit status is 1 without such a sandbox.`,
		Example:           "  atoll status\n  atoll status web --json\n  atoll status --all",
		Args:              needArgs(0, 1, "at most the name of a sandbox"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if all {
				if len(args) > 0 {
					return fmt.Errorf("%w: --all and a name: give one of them", atoll.ErrInvalid)
				}
				return a.statusAll(ctx)
			}
			w, err := a.statusOf(ctx, args)
			if errors.Is(err, atoll.ErrNotFound) {
				return exits(exitNoProject, err)
			}
			if err != nil {
				return err
			}
			s, err := a.examineProject(ctx, w, offline)
			if err != nil {
				return err
			}
			if a.json {
				return a.print(s)
			}
			return a.table(s.rows())
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list the sandboxes of all projects")
	cmd.Flags().BoolVar(&offline, "offline", false, "don't look for work that is not home yet")
	return cmd
}

// statusOf finds the sandbox, which need be no project's if it is named.
func (a *app) statusOf(ctx context.Context, args []string) (*workplace, error) {
	if len(args) == 0 {
		return a.project(ctx, "")
	}
	sb, err := a.open(ctx, args[0])
	if err != nil {
		return nil, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.Labels[project.Label] == "" {
		return &workplace{sb: sb, info: info}, nil
	}
	return a.workplace(ctx, info)
}

// statusAll lists the sandboxes of projects.
func (a *app) statusAll(ctx context.Context) error {
	all, err := a.projects(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.print(some(all))
	}
	if len(all) == 0 {
		a.progress("no projects have sandboxes; 'atoll up' in a repository makes one")
		return nil
	}
	rows := [][]string{{"NAME", "STATE", "UP", "WALL", "SYNC", "PATH"}}
	for _, i := range all {
		up := "-"
		if i.State == atoll.Running {
			up = age(i.Started)
		}
		rows = append(rows, []string{label(i.Status), string(i.State), up, i.Driver, i.Labels[project.LabelMode], i.Labels[project.LabelPath]})
	}
	return a.table(rows)
}

// examineProject finds out how a sandbox is. What can't be found out of one that
// runs is told among the rest.
func (a *app) examineProject(ctx context.Context, w *workplace, offline bool) (*projectStatus, error) {
	i := &w.info
	s := &projectStatus{
		Sandbox: w.name(), ID: i.ID, State: i.State, Stage: i.Labels[project.LabelStage], Driver: i.Driver, Isolation: i.Isolation, Path: w.path, Here: w.repo != nil,
		MemoryLimit: i.Config.Limits.Memory, DiskLimit: i.Config.Limits.Disk, Routes: []liveRoute{}, Worktrees: []worktreeStatus{}, Terminals: []atoll.Terminal{},
		Sync: syncStatus{Mode: w.mode},
	}
	if i.Driver == machineDriver {
		s.Acceleration = map[bool]string{true: "kvm", false: "none"}[i.Isolation == "machine"]
		s.Nested = i.Isolation == "machine" && i.Config.Machine != nil && i.Config.Machine.Nested != nil && *i.Config.Machine.Nested
	}
	look := func(what string, err error) {
		if err != nil && !errors.Is(err, atoll.ErrUnsupported) {
			s.Problems = append(s.Problems, what+": "+err.Error())
		}
	}
	if i.State != atoll.Failed {
		st, err := atoll.StatsOf(ctx, w.sb)
		s.MemoryUsed, s.DiskUsed = st.MemoryUsed, st.DiskUsed
		if st.DiskLimit > 0 {
			s.DiskLimit = st.DiskLimit
		}
		if !errors.Is(err, atoll.ErrState) {
			look("what it uses", err)
		}
	}
	if i.State != atoll.Running {
		return s, ctx.Err()
	}
	s.Started, s.SSH = i.Started, w.name()+sshd.Domain
	look("ports", a.liveRoutes(ctx, w, s))
	s.NotFound = notFound(ctx, s.Routes)
	list, err := w.sb.ListTerminals(ctx)
	look("terminals", err)
	s.Terminals = some(list)
	if w.path == "" || s.Stage == project.StageCarry {
		return s, ctx.Err()
	}
	look("working trees", s.trees(ctx, w))
	last, err := a.lastSync(w)
	look("the last sync", err)
	s.Sync.Last, s.Sync.Refused = last.Time, last.Refused
	if !offline && w.repo != nil {
		look("work that is not home", s.pending(ctx, w))
	}
	return s, ctx.Err()
}

// liveRoutes finds the ports that are open and by which names they are reached.
func (a *app) liveRoutes(ctx context.Context, w *workplace, s *projectStatus) error {
	ports, err := w.sb.Ports(ctx)
	if err != nil || len(ports) == 0 {
		return err
	}
	routes, err := a.routesOf(ctx, w)
	if err != nil {
		return err
	}
	slices.SortFunc(ports, func(p, q atoll.Port) int { return p.Port - q.Port })
	for _, p := range ports {
		if n := len(s.Routes); n > 0 && s.Routes[n-1].Port == p.Port {
			continue // of another address
		}
		r := liveRoute{Port: p.Port, Command: p.Command, Name: project.PortName(w.info.Labels[project.LabelPorts], p.Port)}
		if i := slices.IndexFunc(routes, func(o atoll.Route) bool { return o.Port == p.Port }); i >= 0 {
			r.URL, r.Locked = routes[i].URL, routes[i].Locked
		}
		s.Routes = append(s.Routes, r)
	}
	return nil
}

// routesOf returns the names that a sandbox has now, as far as they lead there from
// this machine; none: no proxy runs.
func (a *app) routesOf(ctx context.Context, w *workplace) ([]atoll.Route, error) {
	away, err := a.elsewhere()
	if err != nil {
		return nil, err
	}
	list, err := a.link.Routes(ctx, w.info.ID)
	if errors.Is(err, atoll.ErrUnavailable) {
		return nil, nil
	}
	if away { // there, those would be its own
		list = slices.DeleteFunc(list, func(r atoll.Route) bool { return strings.HasSuffix(r.Host, "."+proxy.Local) })
	}
	return list, err
}

// trees finds the working trees.
func (s *projectStatus) trees(ctx context.Context, w *workplace) error {
	list, err := project.Worktrees(ctx, w.sb)
	if err != nil {
		return err
	}
	for _, t := range list {
		one := worktreeStatus{Branch: t.Branch, Path: t.Path, Main: t.Main, Terminal: w.name(), Port: project.FirstPort}
		if !t.Main && t.Branch != "" {
			if one.Terminal, err = project.TerminalName(ctx, w.sb, w.name(), t.Branch); err == nil {
				one.Port, err = project.Port(ctx, w.sb, t.Branch)
			}
			if err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(s.Terminals, func(o atoll.Terminal) bool { return o.Name == one.Terminal }) {
			one.Terminal = ""
		}
		s.Worktrees = append(s.Worktrees, one)
	}
	return nil
}

// pending finds out what a sync would bring.
func (s *projectStatus) pending(ctx context.Context, w *workplace) error {
	res, err := w.repo.Sync(ctx, w.sb, project.Fetch{Name: w.name(), DryRun: true, Carried: w.info.Labels[project.LabelCarried]})
	if res != nil {
		s.Sync.Looked, s.Sync.Commits, s.Sync.Files, s.Sync.Uncommitted = true, res.Commits, res.Files, res.Waits
	}
	switch {
	case errors.Is(err, project.ErrNothing):
		s.Sync.Looked = true
		return nil
	case res != nil && errors.Is(err, atoll.ErrState):
		var op *atoll.Error
		if errors.As(err, &op) {
			err = op.Err
		}
		s.Problems = append(s.Problems, "a sync would be refused: "+err.Error())
		return nil
	}
	return err
}

// rows are what a person reads.
func (s *projectStatus) rows() [][]string {
	state := string(s.State)
	if !s.Started.IsZero() {
		state += " for " + age(s.Started)
	}
	if s.Stage != "" {
		state += "; not finished: 'atoll up' goes on"
	}
	rows := [][]string{{s.Sandbox, state}, {"wall", wallText(s.Driver, s.Isolation)}}
	if s.Acceleration != "" {
		text := map[string]string{"kvm": "KVM", "none": "none: the processor is computed"}[s.Acceleration]
		if s.Nested {
			text += "; machines may run inside"
		}
		rows = append(rows, []string{"acceleration", text})
	}
	if s.Path != "" {
		path := s.Path
		if !s.Here {
			path += " (on another machine, or gone)"
		}
		rows = append(rows, []string{"repository", path})
	}
	if s.MemoryUsed > 0 {
		rows = append(rows, []string{"memory", used(s.MemoryUsed, s.MemoryLimit)})
	}
	if s.DiskUsed > 0 {
		rows = append(rows, []string{"disk", used(s.DiskUsed, s.DiskLimit)})
	}
	if s.SSH != "" {
		rows = append(rows, []string{"ssh", "atoll ssh " + s.Sandbox + "  (ssh " + s.SSH + " after 'atoll config-ssh')"})
	}
	for _, r := range s.Routes {
		text := strings.TrimSpace(fmt.Sprintf("%d %s  %s", r.Port, oneLine(cmp.Or(r.Name, r.Command)), r.URL))
		if r.Locked {
			text += "  (with a link: 'atoll open', 'atoll proxy link')"
		}
		rows = append(rows, []string{"port", text})
	}
	if s.NotFound != "" {
		rows = append(rows, []string{"names", s.NotFound})
	}
	shown := make(map[string]bool)
	for _, t := range s.Worktrees {
		shown[t.Terminal] = true
		rows = append(rows, []string{"tree", s.treeText(t)})
	}
	for _, t := range s.Terminals {
		if !shown[t.Name] {
			rows = append(rows, []string{"terminal", t.Name + terminalText(t)})
		}
	}
	if s.Sync.Mode != "" {
		rows = append(rows, []string{"sync", s.Sync.text()})
	}
	for _, p := range s.Problems {
		rows = append(rows, []string{"!", strings.Join(strings.Fields(p), " ")})
	}
	return rows
}

// treeText is a line about a working tree.
func (s *projectStatus) treeText(t worktreeStatus) string {
	branch := t.Branch
	if branch == "" {
		branch = "(no branch)"
	}
	text := fmt.Sprintf("%s, ports %d-%d", branch, t.Port, t.Port+project.PortBlock-1)
	i := slices.IndexFunc(s.Terminals, func(o atoll.Terminal) bool { return o.Name == t.Terminal })
	if i < 0 {
		return text + ", no terminal"
	}
	return text + ", terminal " + t.Terminal + terminalText(s.Terminals[i])
}

// terminalText says what is on a terminal.
func terminalText(t atoll.Terminal) string {
	switch {
	case !t.Running:
		return fmt.Sprintf(" (ended with status %d)", t.Code)
	case t.Clients > 0:
		return fmt.Sprintf(" (%d before it)", t.Clients)
	}
	return ""
}

// text says what waits.
func (s syncStatus) text() string {
	text := string(s.Mode)
	if !s.Last.IsZero() {
		text += ", the last " + age(s.Last) + " ago"
	}
	switch {
	case s.Refused == "":
	case s.Looked: // why one would be now is said beside it
		text += ", which was refused"
	default:
		text += ", which was refused (" + oneLine(s.Refused) + ")"
	}
	var waits []string
	if s.Commits > 0 {
		waits = append(waits, fmt.Sprintf("new commits: %d", s.Commits))
	}
	if s.Uncommitted {
		waits = append(waits, "uncommitted work")
	}
	switch {
	case !s.Looked:
		return text
	case len(waits) == 0:
		return text + "; all of it is home"
	}
	return text + "; not home yet: " + strings.Join(waits, ", ")
}

// used is an amount, and what may be used.
func used(n, limit int64) string {
	if limit == 0 {
		return bytesText(n)
	}
	return bytesText(n) + " of " + bytesText(limit)
}
