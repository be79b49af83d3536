package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "stats SANDBOX",
		Short:             "Show what a sandbox uses",
		Args:              needArgs(1, 1, "one sandbox"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			st, err := atoll.StatsOf(cmd.Context(), sb)
			if err != nil {
				return err
			}
			if a.json {
				return a.print(st)
			}
			return a.table(statsRows(st))
		},
	}
}

func statsRows(s atoll.Stats) [][]string {
	disk := bytesText(s.DiskUsed)
	if s.DiskLimit > 0 {
		disk += fmt.Sprintf(" of %s (%d%%)", bytesText(s.DiskLimit), 100*s.DiskUsed/s.DiskLimit)
	}
	return [][]string{
		{"files", strconv.Itoa(s.Files)},
		{"disk", disk},
		{"memory", bytesText(s.MemoryUsed)},
		{"processes", strconv.Itoa(s.Processes)},
		{"commands", strconv.FormatInt(s.Commands, 10)},
		{"directory", s.Dir},
	}
}
