package hypervisor

import (
	"cmp"
	"context"
	"errors"
)

// maxBoots is how often a VM is booted whose kernel has measured its timer wrongly.
const maxBoots = 5

// bootMonitor is launchMonitor, which it repeats if the kernel has measured its timer wrongly, after clean.
func bootMonitor(ctx context.Context, c *Config, save string, clean func() error) (*launchedMonitor, error) {
	return repeatBoot(ctx, cmp.Or(c.boots, maxBoots), func() (*launchedMonitor, error) { return launchMonitor(ctx, c, save) }, clean)
}

// repeatBoot calls launch up to most times, until its error is none of a timer. It calls clean in between.
func repeatBoot(ctx context.Context, most int, launch func() (*launchedMonitor, error), clean func() error) (*launchedMonitor, error) {
	for n := 1; ; n++ {
		s, err := launch()
		var timer *timerError
		if !errors.As(err, &timer) || n == most || ctx.Err() != nil {
			return s, err
		}
		if err := clean(); err != nil {
			return nil, err
		}
	}
}
