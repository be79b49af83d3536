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
		return nil //nolint:nilerror // the stream of events reports what is wrong
	}
	for _, info := range list {
		if object != "" && object != info.ID && object != info.Name {
			continue
		}
		st, err := readUsage(ctx, a, info.ID)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			continue
		}
		if err := out.send("", usageType, usageEvent(info, st)); err != nil {
			return err
		}
	}
	return nil
}

func readUsage(ctx context.Context, a *fleet.Account, id string) (atoll.Stats, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, usageTimeout, atoll.ErrTimeout)
	defer cancel()
	sb, err := a.Open(ctx, id)
	if err != nil {
		return atoll.Stats{}, err
	}
	return atoll.StatsOf(ctx, sb)
}

// usageEvent returns the event for the usage st of a sandbox.
func usageEvent(info atoll.Info, st atoll.Stats) atoll.Event {
	return atoll.Event{
		Time: time.Now(), Type: usageType, Owner: info.Owner, Object: info.ID, Name: info.Name,
		Data: map[string]string{
			"cpu_time":    strconv.FormatInt(int64(st.CPUTime), 10), // nanoseconds
			"memory_used": strconv.FormatInt(st.MemoryUsed, 10),
			"disk_used":   strconv.FormatInt(st.DiskUsed, 10),
			"processes":   strconv.Itoa(st.Processes),
		},
	}
}
