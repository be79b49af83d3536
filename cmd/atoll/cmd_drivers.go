package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

// driverReport is what a driver says of itself here.
type driverReport struct {
	Name      string         `json:"name"`
	Default   bool           `json:"default"`
	Available bool           `json:"available"`
	Error     string         `json:"error,omitempty"` // what is missing, and how to get it
	Features  atoll.Features `json:"features"`
	Took      time.Duration  `json:"took"`
}

// survey probes every driver.
func (a *app) survey(ctx context.Context) []driverReport {
	var list []driverReport
	for _, d := range a.all() {
		start := time.Now()
		r := driverReport{Name: d.Name(), Default: d.Name() == defaultDriver}
		f, err := d.Probe(ctx)
		r.Available, r.Features, r.Took = err == nil, f, time.Since(start)
		if err != nil {
			r.Error = err.Error()
		}
		list = append(list, r)
	}
	return list
}

func (a *app) driversCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "drivers",
		Short: "Show what can build sandboxes here",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := a.survey(cmd.Context())
			if a.json {
				return a.print(list)
			}
			rows := [][]string{{"DRIVER", "AVAILABLE", "ISOLATION", "CAN"}}
			for _, r := range list {
				name, available := r.Name, "yes"
				if r.Default {
					name += " (default)"
				}
				if !r.Available {
					available = "no: " + r.Error
				}
				rows = append(rows, []string{name, available, r.Features.Isolation, abilities(r.Features)})
			}
			return a.table(rows)
		},
	}
}

func abilities(f atoll.Features) string {
	var can []string
	for _, x := range []struct {
		word string
		on   bool
	}{
		{"programs", f.Programs},
		{"images", f.Images},
		{"session", f.Session},
		{"persist", f.Persist},
		{"stop", f.Stop},
		{"pause", f.Pause},
		{"snapshot", f.Snapshot},
		{"fork", f.Fork},
		{"dial", f.Dial},
		{"stats", f.Stats},
		{"history", f.History},
	} {
		if x.on {
			can = append(can, x.word)
		}
	}
	return strings.Join(can, " ")
}
