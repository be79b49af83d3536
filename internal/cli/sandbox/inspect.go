package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// inspection is all about a sandbox.
type inspection struct {
	atoll.Info
	Stats     *atoll.Stats         `json:"stats,omitempty"`
	Snapshots []atoll.SnapshotInfo `json:"snapshots,omitempty"`
	Ports     map[string]int       `json:"ports,omitempty"` // that programs inside listen on
}

func (a commands) inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use: "inspect SANDBOX",
		Example: `  atoll inspect box
  atoll inspect box --json`,
		Short:             "Display detailed information on a sandbox",
		Args:              app.CheckArgCount(1, 1, "one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := a.inspectSandbox(cmd, args[0])
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(in)
			}
			return a.PrintTable(in.formatRows())
		},
	}
}

func (a commands) inspectSandbox(cmd *cobra.Command, key string) (inspection, error) {
	var in inspection
	ctx := cmd.Context()
	sb, err := a.OpenSandbox(ctx, key)
	if err != nil {
		return in, err
	}
	if in.Info, err = sb.Info(ctx); err != nil {
		return in, err
	}
	if in.State == atoll.Failed {
		return in, nil // there is no more to learn of it
	}
	st, err := atoll.StatsOf(ctx, sb)
	if errors.Is(err, atoll.ErrUnavailable) {
		in.Info, err = sb.Info(ctx) // nobody answers inside, and there is no more to learn
		return in, err
	}
	if err == nil {
		in.Stats = &st
	} else if !errors.Is(err, atoll.ErrUnsupported) && !errors.Is(err, atoll.ErrState) {
		return in, err
	}
	in.Snapshots, err = atoll.Snapshots(ctx, sb)
	if errors.Is(err, atoll.ErrUnsupported) {
		err = nil
	}
	if err != nil || in.State != atoll.Running {
		return in, err
	}
	in.Ports, err = atoll.DevServerPorts(ctx, sb)
	if errors.Is(err, atoll.ErrUnsupported) || errors.Is(err, atoll.ErrState) {
		err = nil
	}
	return in, err
}

func (in inspection) formatRows() [][]string {
	rows := [][]string{
		{"name", in.Name},
		{"id", in.ID},
		{"owner", in.Owner.String()},
		{"driver", in.Driver},
		{"isolation", in.Isolation},
		{"state", string(in.State)},
		{"created", in.Created.Local().Format("2006-01-02 15:04:05")},
		{"active", output.FormatAge(in.Active) + " ago"},
		{"commands under way", strconv.Itoa(in.Commands)},
		{"lifecycle", lifecycleText(in.Config.Lifecycle)},
		{"ends", output.FormatUntil(in.Expires)},
	}
	if in.Config.PublicPorts {
		rows = append(rows, []string{"ports", "open to every client of the proxy"})
	}
	for _, w := range in.Config.Workspaces {
		rows = append(rows, []string{"workspace", mountText(w.Workspace, w.At(), w.ReadOnly)})
	}
	for _, m := range in.Config.Mounts {
		rows = append(rows, []string{"mount", mountText(m.Source, m.Target, m.ReadOnly)})
	}
	for _, c := range in.Conditions {
		rows = append(rows, []string{c.Type, strings.TrimSpace(fmt.Sprintf("%v %s %s", c.True, c.Reason, c.Message))})
	}
	var labels []string
	for k, v := range in.Labels {
		labels = append(labels, k+"="+v)
	}
	if slices.Sort(labels); len(labels) > 0 {
		rows = append(rows, []string{"labels", strings.Join(labels, " ")})
	}
	if in.Stats != nil {
		rows = append(rows, statsRows(*in.Stats)...)
	}
	for name, port := range output.SortedPairs(in.Ports) {
		rows = append(rows, []string{"port", fmt.Sprintf("%d %s", port, name)})
	}
	for _, s := range in.Snapshots {
		rows = append(rows, []string{"snapshot", strings.TrimSpace(fmt.Sprintf("%s %s, %s ago, %s", s.ID, s.Name, output.FormatAge(s.Created), output.FormatBytes(s.Size)))})
	}
	return rows
}

func mountText(what, target string, ro bool) string {
	if ro {
		return what + " at " + target + ", read only"
	}
	return what + " at " + target
}

// lifecycleText says in words when a sandbox ends.
func lifecycleText(l atoll.Lifecycle) string {
	l = l.Effective()
	text := string(l.Policy)
	for _, end := range []struct {
		after time.Duration
		what  string
		then  atoll.Expiry
	}{{l.Idle, "without use", l.IdleThen}, {l.TTL, "in all", l.Then}, {l.Lifetime, "when not in use", ""}, {l.Stopped, "once it is stopped", ""}, {l.Archive, "once it is stopped", "archive"}} {
		if end.after <= 0 {
			continue
		}
		text += fmt.Sprintf(", %s %s", output.FormatDuration(end.after), end.what)
		if end.then != "" && end.then != atoll.ExpireRemove {
			text += fmt.Sprintf(" (then %s)", end.then)
		}
	}
	return text
}
