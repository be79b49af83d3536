package api

import (
	"context"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// usageType is the type of events with the resource usage of a sandbox.
const usageType = "sandbox.stats"

// usageTimeout limits one question for the usage of a sandbox.
const usageTimeout = 5 * time.Second

// startUsageStream sends the usage of a's running sandboxes on out now and then every in.stats, until
// ctx is done or the returned function is called, which waits for the end.
func startUsageStream(ctx context.Context, a *fleet.Account, in eventRequest, out *sseStream) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(in.stats)
		defer tick.Stop()
		for {
			if sendUsage(ctx, a, in.filter.Object, out) != nil {
				return // the client is gone
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// sendUsage sends the usage of each running sandbox of a once. Sandboxes that can't report it are
// left out, which the next round repairs. An error is one of the connection.
func sendUsage(ctx context.Context, a *fleet.Account, object string, out *sseStream) error {
	list, err := a.List(ctx, fleet.Filter{States: []atoll.State{atoll.Running}})
	if err != nil {
		return nil // the stream of events reports what is wrong
	}
	for _, info := range list {
		if object != "" && object != info.ID && object != info.Name {
			continue
		}
		st, rate, err := readUsage(ctx, a, info.ID)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			continue
		}
		if err := out.send("", usageType, usageEvent(info, st, rate)); err != nil {
			return err
		}
	}
	return nil
}

// rateWindow is the time over which the traffic of a sandbox is averaged.
const rateWindow = 30 * time.Second

// readUsage returns the resource usage of a sandbox, and the bytes per second that it has sent and received of
// late; negative: unknown.
func readUsage(ctx context.Context, a *fleet.Account, id string) (st atoll.Stats, rate int64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, usageTimeout, atoll.ErrTimeout)
	defer cancel()
	sb, err := a.Open(ctx, id)
	if err != nil {
		return st, 0, err
	}
	if st, err = atoll.StatsOf(ctx, sb); err != nil {
		return st, 0, err
	}
	series, err := sb.UsageSeries(ctx, time.Now().Add(-rateWindow), time.Time{})
	if err != nil || len(series.Samples) == 0 || series.Interval == 0 {
		return st, -1, err
	}
	for _, s := range series.Samples {
		rate += s.Sent + s.Received
	}
	first, last := series.Samples[0].Time, series.Samples[len(series.Samples)-1].Time
	seconds := int64(last.Sub(first)/time.Second) + int64(series.Interval) // a slow sandbox is sampled less often
	return st, rate / seconds, nil
}

// usageEvent returns the event for the usage st of a sandbox; rate: see readUsage.
func usageEvent(info atoll.Info, st atoll.Stats, rate int64) atoll.Event {
	e := atoll.Event{
		Time: time.Now(), Type: usageType, Owner: info.Owner, Object: info.ID, Name: info.Name,
		Data: map[string]string{
			"cpu_time":    strconv.FormatInt(int64(st.CPUTime), 10), // nanoseconds
			"memory_used": strconv.FormatInt(st.MemoryUsed, 10),
			"disk_used":   strconv.FormatInt(st.DiskUsed, 10),
			"processes":   strconv.Itoa(st.Processes),
		},
	}
	if rate >= 0 {
		e.Data["network_rate"] = strconv.FormatInt(rate, 10) // bytes per second
	}
	return e
}
