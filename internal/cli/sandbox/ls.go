package sandbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) lsCommand() *cobra.Command {
	var labels, states []string
	var ids bool
	var filter client.Filter
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List sandboxes",
		Example: `  atoll ls --label team=web --state running
  atoll rm $(atoll ls --ids --label temporary)
  atoll ls --json --all-owners`,
		Args: app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range states {
				st, err := config.ParseOneOf(s, atoll.Created, atoll.Starting, atoll.Running, atoll.Pausing, atoll.Paused, atoll.Stopping, atoll.Stopped, atoll.Archived, atoll.Failed, atoll.Destroyed)
				if err != nil {
					return fmt.Errorf("%w: --state %q: %w", atoll.ErrInvalid, s, err)
				}
				filter.States = append(filter.States, st)
			}
			all, err := a.ListSandboxes(cmd.Context(), filter)
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(a.ofDriver(all), func(i atoll.Info) bool { return !hasLabels(i.Status, labels) })
			return a.list(all, ids, filter.AllOwners)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVarP(&labels, "label", "l", nil, "only those with this label, `NAME` or NAME=VALUE (repeatable)")
	fl.StringArrayVar(&states, "state", nil, "only those in this `STATE` (repeatable)")
	fl.BoolVarP(&filter.All, "all", "a", false, "destroyed ones too, as long as they are remembered")
	fl.BoolVar(&filter.AllOwners, "all-owners", false, "those of all owners (needs the scope operate)")
	fl.BoolVar(&ids, "ids", false, "only the ids")
	return cmd
}

// ofDriver leaves out what is not of the driver that --driver names.
func (a commands) ofDriver(all []atoll.Info) []atoll.Info {
	name := config.Get[string](a.Config.FlagsOnly(), "driver")
	return slices.DeleteFunc(all, func(i atoll.Info) bool { return name != "" && i.Driver != name })
}

// list shows sandboxes.
func (a commands) list(all []atoll.Info, ids, owners bool) error {
	switch {
	case a.JSON:
		if all == nil {
			all = []atoll.Info{}
		}
		return a.PrintJSON(all)
	case ids || a.Quiet:
		for _, i := range all {
			if _, err := fmt.Fprintln(a.Out, i.ID); err != nil {
				return err
			}
		}
		return nil
	case len(all) == 0:
		a.Progress("no sandboxes; 'atoll create' makes one")
		return nil
	}
	rows := [][]string{{"NAME", "ID", "DRIVER", "ISOLATION", "STATE", "CREATED", "ACTIVE", "ENDS", "OWNER"}}
	for _, i := range all {
		rows = append(rows, []string{i.Name, i.ID, i.Driver, i.Isolation, stateText(i), output.FormatAge(i.Created) + " ago", output.FormatAge(i.Active) + " ago", output.FormatUntil(i.Expires), i.Owner.String()})
	}
	if !owners {
		for n, row := range rows {
			rows[n] = row[:len(row)-1]
		}
	}
	return a.PrintTable(rows)
}

// stateText is a sandbox's state, with how many commands are under way.
func stateText(i atoll.Info) string {
	if i.Commands > 0 {
		return string(i.State) + " (" + strconv.Itoa(i.Commands) + ")"
	}
	return string(i.State)
}

func hasLabels(s atoll.Status, want []string) bool {
	for _, w := range want {
		k, v, exact := strings.Cut(w, "=")
		got, ok := s.Labels[k]
		if !ok || exact && got != v {
			return false
		}
	}
	return true
}
