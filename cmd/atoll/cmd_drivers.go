package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
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

// survey probes every driver of this machine, all at once: one that waits for
// somebody far away keeps nobody else.
func (a *app) survey(ctx context.Context) []driverReport {
	ctx, cancel := context.WithTimeoutCause(ctx, examination, fmt.Errorf("%w: it has not answered for %v", atoll.ErrTimeout, examination))
	defer cancel()
	list := make([]driverReport, len(a.all()))
	var wg sync.WaitGroup
	for i, d := range a.all() {
		wg.Go(func() {
			start := time.Now()
			r := driverReport{Name: d.Name(), Default: d.Name() == a.defaultDriver()}
			f, err := d.Probe(ctx)
			r.Available, r.Features, r.Took = err == nil, f, time.Since(start)
			if err != nil {
				r.Error = err.Error()
			}
			list[i] = r
		})
	}
	wg.Wait()
	return list
}

// driverList asks the server that commands go to, or else this machine.
func (a *app) driverList(ctx context.Context) ([]driverReport, error) {
	away, err := a.elsewhere()
	if err != nil || !away {
		return a.survey(ctx), err
	}
	c, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	info, err := c.Info(ctx)
	var list []driverReport
	for _, d := range info.Drivers {
		r := driverReport{Name: d.Name, Default: d.Default, Available: d.Features != nil, Error: d.Error, Took: time.Since(start)}
		if d.Features != nil {
			r.Features = *d.Features
		}
		list = append(list, r)
	}
	return list, err
}

func (a *app) driversCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "drivers",
		Short: "Show what can build sandboxes here, or on the server in use",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.driverList(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.print(list)
			}
			rows := [][]string{{"DRIVER", "AVAILABLE", "ISOLATION", "CAN, OR WHY NOT"}}
			for _, r := range list {
				name, available, can := r.Name, "yes", abilities(r.Features)
				if r.Default {
					name += " (default)"
				}
				if !r.Available {
					available, can = "no", strings.Join(strings.Fields(r.Error), " ")
				}
				rows = append(rows, []string{name, available, dash(r.Features.Isolation), can})
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
		{"listen", f.Listen},
		{"stats", f.Stats},
		{"history", f.History},
		{"tty", f.TTY},
		{"signals", f.Signals},
		{"watch", f.Watch},
		{"mounts", f.Mounts},
		{"detach", f.Detach},
		{"terminals", f.Terminal},
		{"notices", f.Notices},
		{"gate", f.Gate},
		{"fresh", f.Fresh},
		{"disks", f.Disks},
	} {
		if x.on {
			can = append(can, x.word)
		}
	}
	return strings.Join(can, " ")
}
