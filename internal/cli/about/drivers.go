package about

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// driverReport is the report of one driver.
type driverReport struct {
	Name      string         `json:"name"`
	Default   bool           `json:"default"`
	Available bool           `json:"available"`
	Error     string         `json:"error,omitempty"` // what is missing, and how to get it
	Features  atoll.Features `json:"features"`
	Took      time.Duration  `json:"took"`
}

// probeDrivers probes all drivers of this machine concurrently, so that a slow one does not
// delay the others.
func (a commands) probeDrivers(ctx context.Context) []driverReport {
	ctx, cancel := context.WithTimeoutCause(ctx, app.ProbeTimeout, fmt.Errorf("%w: it has not answered for %v", atoll.ErrTimeout, app.ProbeTimeout))
	defer cancel()
	list := make([]driverReport, len(a.Drivers()))
	var wg sync.WaitGroup
	for i, d := range a.Drivers() {
		wg.Go(func() {
			start := time.Now()
			r := driverReport{Name: d.Name(), Default: d.Name() == a.DefaultDriver()}
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
func (a commands) driverList(ctx context.Context) ([]driverReport, error) {
	away, err := a.IsRemote()
	if err != nil || !away {
		return a.probeDrivers(ctx), err
	}
	c, err := a.Client(ctx)
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

func (a commands) driversCommand() *cobra.Command {
	return &cobra.Command{
		Use: "drivers",
		Example: `  atoll drivers
  atoll drivers --json`,
		Short: "List drivers and what they can do",
		Args:  app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.driverList(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(list)
			}
			rows := [][]string{{"DRIVER", "AVAILABLE", "ISOLATION", "CAN, OR WHY NOT"}}
			for _, r := range list {
				name, available, can := r.Name, "yes", formatFeatures(r.Features)
				if r.Default {
					name += " (default)"
				}
				if !r.Available {
					available, can = "no", strings.Join(strings.Fields(r.Error), " ")
				}
				rows = append(rows, []string{name, available, output.DashIfEmpty(r.Features.Isolation), can})
			}
			return a.PrintTable(rows)
		},
	}
}

func formatFeatures(f atoll.Features) string {
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
		{"gate", f.Egress},
		{"fresh", f.Fresh},
		{"disks", f.Disks},
	} {
		if x.on {
			can = append(can, x.word)
		}
	}
	return strings.Join(can, " ")
}
