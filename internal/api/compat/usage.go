package compat

import (
	"context"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// presentSample is the age up to which a sample tells the present use of processors.
const presentSample = time.Minute

// MeasureUsage returns the usage of a sandbox now, and how many processors it uses: by the last sample or, before
// the first one, on average since it was created.
func MeasureUsage(ctx context.Context, sb *fleet.Sandbox, created, now time.Time) (st atoll.Stats, processors float64, err error) {
	if st, err = sb.Stats(ctx); err != nil {
		return st, 0, err
	}
	series, err := sb.UsageSeries(ctx, now.Add(-presentSample), time.Time{})
	if err != nil {
		return st, 0, err
	}
	if n := len(series.Samples); n > 0 {
		return st, series.Samples[n-1].CPU, nil
	}
	if age := now.Sub(created); age > 0 {
		processors = st.CPUTime.Seconds() / age.Seconds()
	}
	return st, processors, nil
}
