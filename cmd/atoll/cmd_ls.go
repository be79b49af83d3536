package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) lsCommand() *cobra.Command {
	var labels []string
	var ids bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list", "ps"},
		Short: "List sandboxes",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := a.every(cmd.Context())
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(p place) bool { return !labelled(p.status, labels) })
			switch {
			case a.json:
				list := make([]atoll.Status, 0, len(all))
				for _, p := range all {
					list = append(list, p.status)
				}
				return a.print(list)
			case ids || a.quiet:
				for _, p := range all {
					if _, err := fmt.Fprintln(a.out, p.status.ID); err != nil {
						return err
					}
				}
				return nil
			case len(all) == 0:
				a.progress("no sandboxes; 'atoll create' makes one")
				return nil
			}
			rows := [][]string{{"NAME", "ID", "DRIVER", "ISOLATION", "STATE", "CREATED", "ACTIVE"}}
			for _, p := range all {
				s := p.status
				rows = append(rows, []string{s.Name, s.ID, s.Driver, s.Isolation, string(s.State), age(s.Created) + " ago", age(s.Active) + " ago"})
			}
			return a.table(rows)
		},
	}
	cmd.Flags().StringArrayVarP(&labels, "label", "l", nil, "only those with this label, NAME or NAME=VALUE (repeatable)")
	cmd.Flags().BoolVar(&ids, "ids", false, "only the ids")
	return cmd
}

func labelled(s atoll.Status, want []string) bool {
	for _, w := range want {
		k, v, exact := strings.Cut(w, "=")
		got, ok := s.Labels[k]
		if !ok || exact && got != v {
			return false
		}
	}
	return true
}
