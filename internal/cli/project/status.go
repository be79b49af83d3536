package project

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
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/cli/previewserver"
	"github.com/atoll-sandbox/atoll/internal/guest/sshd"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// projectStatus is how a project's sandbox is, as --json tells it.
type projectStatus struct {
	Sandbox      string                `json:"sandbox"`
	ID           string                `json:"id"`
	State        atoll.State           `json:"state"`
	Stage        string                `json:"stage,omitempty"` // what 'atoll up' has not come past; empty: nothing is left to do
	Started      time.Time             `json:"started,omitzero"`
	Driver       string                `json:"driver"`
	Isolation    string                `json:"isolation"`
	Acceleration string                `json:"acceleration,omitempty"` // of a machine: kvm or none
	Nested       bool                  `json:"nested,omitempty"`       // machines may run in it
	Path         string                `json:"path,omitempty"`         // of the working tree
	Here         bool                  `json:"here"`                   // that is on this machine
	MemoryUsed   int64                 `json:"memory_used,omitempty"`
	MemoryLimit  int64                 `json:"memory_limit,omitempty"`
	DiskUsed     int64                 `json:"disk_used,omitempty"`
	DiskLimit    int64                 `json:"disk_limit,omitempty"`
	SSH          string                `json:"ssh,omitempty"` // the host that ssh reaches it by
	Routes       []previewserver.Route `json:"routes"`
	NotFound     string                `json:"not_found,omitempty"` // which of their names programs of this machine don't find
	Worktrees    []worktreeStatus      `json:"worktrees"`
	Terminals    []atoll.Terminal      `json:"terminals"`
	Sync         syncStatus            `json:"sync"`
	Ledger       *project.Ledger       `json:"ledger,omitempty"`   // all branches on both sides; none: it was not asked for
	Problems     []string              `json:"problems,omitempty"` // what could not be found out
}

type worktreeStatus struct {
	Branch   string `json:"branch,omitempty"`
	Path     string `json:"path"`
	Main     bool   `json:"main"`
	Terminal string `json:"terminal,omitempty"`
	Port     int    `json:"port,omitempty"` // the first of its own
}

type syncStatus struct {
	Mode        project.SyncMode `json:"mode,omitempty"`
	Last        time.Time        `json:"last,omitzero"`     // sync that looked, here
	Refused     string           `json:"refused,omitempty"` // why that one did not land
	Looked      bool             `json:"looked"`            // what follows was asked for
	Commits     int              `json:"commits"`           // of all branches, that no branch of the repository has
	Files       int              `json:"files"`
	Uncommitted bool             `json:"uncommitted"` // work that was not carried in, and is not at home

	stashes int
}

func (a commands) statusCommand() *cobra.Command {
	var all, offline bool
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the status of a project's sandbox",
		Long: `Show the status of a project's sandbox: its isolation, resource usage, ports
and host names, working trees, terminals, and the work that is not synced yet:
all branches that differ from yours, and uncommitted changes. The default NAME
is the sandbox of this directory; if it has several, all are shown, and --json
prints a list. Other sandboxes can be named, too.`,
		Example:           "  atoll status\n  atoll status web --json\n  atoll status --all",
		Args:              app.CheckArgCount(0, 1, "at most the name of a sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if all {
				if len(args) > 0 {
					return fmt.Errorf("%w: --all and a name: give one of them", atoll.ErrInvalid)
				}
				return a.statusAll(ctx)
			}
			return a.showStatus(ctx, args, offline)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list the sandboxes of all projects")
	cmd.Flags().BoolVar(&offline, "offline", false, "don't look for work that is not home yet")
	return cmd
}

// showStatus prints the status of the named sandbox, or of all sandboxes of this directory.
func (a commands) showStatus(ctx context.Context, args []string, offline bool) error {
	pairs, err := a.statusOf(ctx, args)
	if err != nil {
		return err
	}
	var list []*projectStatus
	for _, w := range pairs {
		s, err := a.examineProject(ctx, w, offline)
		if err != nil {
			return err
		}
		list = append(list, s)
	}
	switch {
	case a.JSON && len(list) == 1:
		return a.PrintJSON(list[0])
	case a.JSON:
		return a.PrintJSON(list)
	}
	var rows [][]string
	for i, s := range list {
		if i > 0 {
			rows = append(rows, []string{"", ""})
		}
		rows = append(rows, s.formatRows()...)
	}
	return a.PrintTable(rows)
}

// statusOf returns the named sandbox, which need not be a project's, or all sandboxes of this directory.
func (a commands) statusOf(ctx context.Context, args []string) ([]*pairing.Pair, error) {
	if len(args) == 0 {
		return pairing.FindAllHere(ctx, a.App)
	}
	w, err := a.findNamed(ctx, args[0])
	if err != nil {
		return nil, err
	}
	return []*pairing.Pair{w}, nil
}

// findNamed returns a sandbox by its name, with its repository if it is a project's.
func (a commands) findNamed(ctx context.Context, name string) (*pairing.Pair, error) {
	sb, err := a.OpenSandbox(ctx, name)
	if err != nil {
		return nil, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.Labels[project.Label] == "" {
		return &pairing.Pair{Sandbox: sb, Info: info}, nil
	}
	return pairing.Open(ctx, a.App, info)
}

// statusAll lists the sandboxes of projects.
func (a commands) statusAll(ctx context.Context) error {
	all, err := pairing.List(ctx, a.App)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(output.NonNil(all))
	}
	if len(all) == 0 {
		a.Progress("no projects have sandboxes; 'atoll up' in a repository makes one")
		return nil
	}
	rows := [][]string{{"NAME", "STATE", "UP", "WALL", "SYNC", "PATH"}}
	for _, i := range all {
		up := "-"
		if i.State == atoll.Running {
			up = output.FormatAge(i.Started)
		}
		rows = append(rows, []string{output.SandboxName(i.Status), string(i.State), up, i.Driver, i.Labels[project.LabelMode], i.Labels[project.LabelPath]})
	}
	return a.PrintTable(rows)
}

// examineProject collects the status of a project's sandbox. Errors about a running sandbox
// become part of the status.
func (a commands) examineProject(ctx context.Context, w *pairing.Pair, offline bool) (*projectStatus, error) {
	i := &w.Info
	s := &projectStatus{
		Sandbox: w.Name(), ID: i.ID, State: i.State, Stage: i.Labels[project.LabelStage], Driver: i.Driver, Isolation: i.Isolation, Path: w.Path, Here: w.Repo != nil,
		MemoryLimit: i.Config.Limits.Memory, DiskLimit: i.Config.Limits.Disk, Routes: []previewserver.Route{}, Worktrees: []worktreeStatus{}, Terminals: []atoll.Terminal{},
		Sync: syncStatus{Mode: w.Mode},
	}
	if i.Features.IsVM() {
		s.Acceleration = map[bool]string{true: "kvm", false: "none"}[i.Isolation == "machine"]
		s.Nested = i.Isolation == "machine" && i.Config.VM != nil && i.Config.VM.Nested != nil && *i.Config.VM.Nested
	}
	look := func(what string, err error) {
		if err != nil && !errors.Is(err, atoll.ErrUnsupported) {
			s.Problems = append(s.Problems, what+": "+err.Error())
		}
	}
	if i.State != atoll.Failed {
		st, err := atoll.StatsOf(ctx, w.Sandbox)
		s.MemoryUsed, s.DiskUsed = st.MemoryUsed, st.DiskUsed
		if st.DiskLimit > 0 {
			s.DiskLimit = st.DiskLimit
		}
		if !errors.Is(err, atoll.ErrState) {
			look("what it uses", err)
		}
	}
	if i.State != atoll.Running {
		if w.Repo != nil && !offline {
			look("what was fetched", s.readLedger(ctx, w, nil))
		}
		return s, ctx.Err()
	}
	s.Started, s.SSH = i.Started, w.Name()+sshd.Domain
	look("ports", a.liveRoutes(ctx, w, s))
	s.NotFound = previewserver.UnresolvedNames(ctx, s.Routes)
	list, err := w.Sandbox.ListTerminals(ctx)
	look("terminals", err)
	s.Terminals = output.NonNil(list)
	if w.Path == "" || s.Stage == project.StageImport {
		return s, ctx.Err()
	}
	look("working trees", s.readWorktrees(ctx, w))
	last, err := pairing.LastSync(a.App, w)
	look("the last sync", err)
	s.Sync.Last, s.Sync.Refused = last.Time, last.Refused
	if !offline && w.Repo != nil {
		look("work that is not home", s.readPending(ctx, w))
	}
	return s, ctx.Err()
}

// liveRoutes finds the ports that are open and by which names they are reached.
func (a commands) liveRoutes(ctx context.Context, w *pairing.Pair, s *projectStatus) error {
	ports, err := w.Sandbox.Ports(ctx)
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
		r := previewserver.Route{Port: p.Port, Command: p.Command, Name: project.PortName(w.Info.Labels[project.LabelPorts], p.Port)}
		if i := slices.IndexFunc(routes, func(o atoll.Route) bool { return o.Port == p.Port }); i >= 0 {
			r.URL, r.Locked = routes[i].URL, routes[i].Locked
		}
		s.Routes = append(s.Routes, r)
	}
	return nil
}

// routesOf returns the names that a sandbox has now, as far as they lead there from
// this machine; none: no proxy runs.
func (a commands) routesOf(ctx context.Context, w *pairing.Pair) ([]atoll.Route, error) {
	away, err := a.IsRemote()
	if err != nil {
		return nil, err
	}
	list, err := a.Conn.Routes(ctx, w.Info.ID)
	if errors.Is(err, atoll.ErrUnavailable) {
		return nil, nil
	}
	if away { // there, those would be its own
		list = slices.DeleteFunc(list, func(r atoll.Route) bool { return strings.HasSuffix(r.Host, "."+proxy.Local) })
	}
	return list, err
}

// readWorktrees finds the working trees.
func (s *projectStatus) readWorktrees(ctx context.Context, w *pairing.Pair) error {
	list, err := project.Worktrees(ctx, w.Sandbox)
	if err != nil {
		return err
	}
	for _, t := range list {
		one := worktreeStatus{Branch: t.Branch, Path: t.Path, Main: t.Main, Terminal: w.Name(), Port: project.FirstPort}
		if !t.Main && t.Branch != "" {
			if one.Terminal, err = project.TerminalName(ctx, w.Sandbox, w.Name(), t.Branch); err == nil {
				one.Port, err = project.AssignPort(ctx, w.Sandbox, t.Branch)
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

// readPending finds out what a sync would bring, and reads the ledger.
func (s *projectStatus) readPending(ctx context.Context, w *pairing.Pair) error {
	res, err := w.Repo.Sync(ctx, w.Sandbox, project.FetchOptions{Name: w.Name(), DryRun: true, ImportedTree: w.Info.Labels[project.LabelImported]})
	if res == nil {
		return err
	}
	if lerr := s.readLedger(ctx, w, res); lerr != nil {
		return errors.Join(lerr, err)
	}
	s.Sync.Files = res.Files
	switch {
	case errors.Is(err, project.ErrNoNewWork):
		return nil
	case errors.Is(err, atoll.ErrState):
		var op *atoll.Error
		if errors.As(err, &op) {
			err = op.Err
		}
		s.Problems = append(s.Problems, "a sync would be refused: "+err.Error())
		return nil
	}
	return err
}

// readLedger reads the ledger, with the result of a dry run of a sync if the sandbox runs.
func (s *projectStatus) readLedger(ctx context.Context, w *pairing.Pair, res *project.SyncResult) (err error) {
	if s.Ledger, err = w.Repo.ReadLedger(ctx, w.Name(), res); err != nil {
		return err
	}
	s.Sync.Looked, s.Sync.Commits, s.Sync.Uncommitted, s.Sync.stashes = s.Ledger.Live, s.Ledger.Commits, s.Ledger.Work, s.Ledger.Stashes
	return nil
}

// formatRows formats the fields for users.
func (s *projectStatus) formatRows() [][]string {
	state := string(s.State)
	if !s.Started.IsZero() {
		state += " for " + output.FormatAge(s.Started)
	}
	if s.Stage != "" {
		state += "; not finished: 'atoll up' goes on"
	}
	rows := [][]string{{s.Sandbox, state}, {"isolation", describeIsolation(s.Driver, s.Isolation)}}
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
		rows = append(rows, []string{"memory", formatUsage(s.MemoryUsed, s.MemoryLimit)})
	}
	if s.DiskUsed > 0 {
		rows = append(rows, []string{"disk", formatUsage(s.DiskUsed, s.DiskLimit)})
	}
	if s.SSH != "" {
		rows = append(rows, []string{"ssh", "atoll ssh " + s.Sandbox + "  (ssh " + s.SSH + " after 'atoll config-ssh')"})
	}
	for _, r := range s.Routes {
		text := strings.TrimSpace(fmt.Sprintf("%d %s  %s", r.Port, output.OneLine(cmp.Or(r.Name, r.Command)), r.URL))
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
		rows = append(rows, []string{"sync", s.Sync.formatStatus()})
	}
	rows = append(rows, pairing.FormatLedger(s.Ledger)...)
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

// terminalText formats the program of a terminal.
func terminalText(t atoll.Terminal) string {
	switch {
	case !t.Running:
		return fmt.Sprintf(" (ended with status %d)", t.Code)
	case t.Clients > 0:
		return fmt.Sprintf(" (%d before it)", t.Clients)
	}
	return ""
}

// formatStatus formats the work that is not synced.
func (s syncStatus) formatStatus() string {
	text := string(s.Mode)
	if !s.Last.IsZero() {
		text += ", the last " + output.FormatAge(s.Last) + " ago"
	}
	switch {
	case s.Refused == "":
	case s.Looked: // why one would be now is said beside it
		text += ", which was refused"
	default:
		text += ", which was refused (" + output.OneLine(s.Refused) + ")"
	}
	var waits []string
	if s.Commits > 0 {
		waits = append(waits, fmt.Sprintf("new commits: %d", s.Commits))
	}
	if s.Uncommitted {
		waits = append(waits, "uncommitted work")
	}
	if s.stashes > 0 {
		waits = append(waits, fmt.Sprintf("stashes: %d (saved by 'atoll down')", s.stashes))
	}
	switch {
	case !s.Looked:
		return text
	case len(waits) == 0:
		return text + "; all of it is home"
	}
	return text + "; not home yet: " + strings.Join(waits, ", ")
}

// formatUsage is an amount, and what may be used.
func formatUsage(n, limit int64) string {
	if limit == 0 {
		return output.FormatBytes(n)
	}
	return output.FormatBytes(n) + " of " + output.FormatBytes(limit)
}
