package fleet

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The bounds of the series of a sandbox: about 50 KB.
const (
	usageInterval = 10 * time.Second // between two samples
	recentSamples = 180              // half an hour
	coarseFactor  = 12               // samples that one of the day adds up
	daySamples    = 720              // a day
)

const (
	usageTimeout    = 5 * time.Second // of one sample
	usageConcurrent = 4               // sandboxes that are sampled at once
	usageShare      = 20              // a sandbox is left alone for this many times the time that its sample took
)

// usageTable holds the resource usage over time of the sandboxes that this process has sampled. It is lost when
// the process ends.
type usageTable struct {
	mu     sync.Mutex
	series map[string]*usageSeries // by sandbox; guarded by mu
}

// usageSeries is the resource usage of one sandbox over time. Its other fields belong to the sampler.
type usageSeries struct {
	recent []wire.UsageSample // the newest, in full resolution; guarded by usageTable.mu
	day    []wire.UsageSample // sums of coarseFactor samples; guarded by usageTable.mu
	part   []wire.UsageSample // samples that are not in day yet; guarded by usageTable.mu

	next    time.Time          // no sample before
	at      time.Time          // of the last sample
	cpu     time.Duration      // of the last sample
	open    map[string]traffic // counts of open connections
	counted time.Time          // connections that had ended then are counted
}

// traffic is the number of bytes that a sandbox sent and received.
type traffic struct{ sent, received int64 }

// sampleUsage samples the usage of all running sandboxes until ctx is done.
func (f *Fleet) sampleUsage(ctx context.Context) {
	interval := f.opts.UsageInterval
	if interval < 0 {
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		f.logError("usage", f.sampleOnce(ctx))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// sampleOnce samples each running sandbox that is due once, and forgets the series of those that are gone.
func (f *Fleet) sampleOnce(ctx context.Context) error {
	rows, err := f.queryRows(ctx, f.registry.DB, "state <> 'destroyed' and pool = ''")
	if err != nil {
		return err
	}
	f.usage.forgetOthers(rows)
	var wg sync.WaitGroup
	slots := make(chan struct{}, usageConcurrent)
	for _, r := range rows {
		if r.state != atoll.Running || r.goal != "" {
			continue
		}
		if d := f.findDriver(r.driver); d == nil {
			continue
		} else if ft, ok := d.cachedFeatures(); !ok || !ft.Stats {
			continue
		}
		u := f.usage.ensureSeries(r.id)
		if f.hostNow().Before(u.next) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f.sampleSandbox(ctx, r, u)
		})
	}
	wg.Wait()
	return nil
}

// sampleSandbox adds a sample to the series of a sandbox. One that can't be measured now has none.
func (f *Fleet) sampleSandbox(ctx context.Context, r row, u *usageSeries) {
	ctx, cancel := context.WithTimeoutCause(ctx, usageTimeout, atoll.ErrTimeout)
	defer cancel()
	begun := time.Now()
	defer func() { u.next = f.hostNow().Add(usageShare * time.Since(begun)) }()
	sb := f.Account(Caller{Owner: r.owner, Scopes: []atoll.Scope{atoll.ScopeRead}}).sandboxFor(r)
	st, err := sb.Stats(ctx)
	if err != nil {
		u.at = time.Time{} // the next one has no predecessor
		return
	}
	now := f.hostNow()
	s := wire.UsageSample{Time: now.UTC(), Memory: st.MemoryUsed, Disk: st.DiskUsed, Processes: st.Processes}
	if took := now.Sub(u.at); !u.at.IsZero() && took > 0 && st.CPUTime >= u.cpu {
		s.CPU = float64(st.CPUTime-u.cpu) / float64(took)
	}
	first := u.at.IsZero()
	u.at, u.cpu = now, st.CPUTime
	if m := r.cfg.Network.Mode; m != "" && m != atoll.NetworkNone {
		if list, err := sb.Connections(ctx); err == nil {
			n := u.countTraffic(list, now)
			s.Sent, s.Received = n.sent, n.received
		}
	}
	if !first { // of the first one, the use of processors is unknown
		f.usage.addSample(r.id, s)
	}
}

// countTraffic returns the bytes of connections since it was called before; of the first call, none.
func (u *usageSeries) countTraffic(list []atoll.Connection, now time.Time) traffic {
	var n traffic
	open := make(map[string]traffic)
	for _, c := range list {
		if !c.Allowed || c.Duration > 0 && !c.Time.Add(c.Duration).After(u.counted) {
			continue
		}
		key := c.Time.Format(time.RFC3339Nano) + " " + c.Protocol + " " + c.Address + " " + c.Host + " " + strconv.Itoa(c.Port) + " " + c.Method + c.Path
		before := u.open[key]
		n.sent += max(c.Sent-before.sent, 0)
		n.received += max(c.Received-before.received, 0)
		if c.Duration == 0 {
			open[key] = traffic{c.Sent, c.Received}
		}
	}
	if u.counted.IsZero() {
		n = traffic{}
	}
	u.open, u.counted = open, now
	return n
}

// ensureSeries returns the series of a sandbox, created if it is missing.
func (t *usageTable) ensureSeries(id string) *usageSeries {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.series == nil {
		t.series = make(map[string]*usageSeries)
	}
	if t.series[id] == nil {
		t.series[id] = new(usageSeries)
	}
	return t.series[id]
}

// forgetOthers removes the series of all sandboxes but those of rows.
func (t *usageTable) forgetOthers(rows []row) {
	keep := make(map[string]bool, len(rows))
	for _, r := range rows {
		keep[r.id] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.series {
		if !keep[id] {
			delete(t.series, id)
		}
	}
}

// addSample appends a sample to the series of a sandbox, which is forgotten if the sandbox is.
func (t *usageTable) addSample(id string, s wire.UsageSample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.series[id]
	if u == nil {
		return
	}
	u.recent = appendBounded(u.recent, s, recentSamples)
	if u.part = append(u.part, s); len(u.part) == coarseFactor {
		u.day = appendBounded(u.day, joinSamples(u.part), daySamples)
		u.part = u.part[:0]
	}
}

func appendBounded(list []wire.UsageSample, s wire.UsageSample, most int) []wire.UsageSample {
	if len(list) == most {
		copy(list, list[1:])
		list[most-1] = s
		return list
	}
	return append(list, s)
}

// joinSamples returns one sample for several: the mean of processors, memory and processes, the last of disk and
// the sum of traffic.
func joinSamples(list []wire.UsageSample) wire.UsageSample {
	last := list[len(list)-1]
	all := wire.UsageSample{Time: last.Time, Disk: last.Disk}
	for _, s := range list {
		all.CPU += s.CPU
		all.Memory += s.Memory
		all.Processes += s.Processes
		all.Sent += s.Sent
		all.Received += s.Received
	}
	n := len(list)
	all.CPU, all.Memory, all.Processes = all.CPU/float64(n), all.Memory/int64(n), all.Processes/n
	return all
}

// readSeries returns the samples of a sandbox from since to until, in the resolution that reaches back to
// since; zero times: no bound.
func (t *usageTable) readSeries(id string, since, until time.Time) []wire.UsageSample {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.series[id]
	if u == nil {
		return nil
	}
	list := slices.Clone(u.recent)
	if len(u.day) > 0 && len(list) > 0 && since.Before(list[0].Time) {
		first := list[0].Time
		i := slices.IndexFunc(u.day, func(s wire.UsageSample) bool { return !s.Time.Before(first) })
		if i < 0 {
			i = len(u.day)
		}
		list = append(slices.Clone(u.day[:i]), list...)
	}
	return slices.DeleteFunc(list, func(s wire.UsageSample) bool {
		return !since.IsZero() && s.Time.Before(since) || !until.IsZero() && s.Time.After(until)
	})
}

// UsageSeries returns the resource usage of the sandbox from since to until, as far as this process knows it: of
// the last half hour each sample, of the last day one in two minutes. Zero times: no bound.
func (s *Sandbox) UsageSeries(ctx context.Context, since, until time.Time) (wire.UsageSeries, error) {
	if _, err := s.Info(ctx); err != nil { // it checks the caller's rights too
		return wire.UsageSeries{}, err
	}
	list := s.f.usage.readSeries(s.b.id, since, until)
	if list == nil {
		list = []wire.UsageSample{}
	}
	return wire.UsageSeries{Interval: int(max(s.f.opts.UsageInterval, 0).Round(time.Second) / time.Second), Samples: list}, nil
}
