package fleet

import (
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// TestSeriesIsBounded adds samples of three days and reads ranges of them.
func TestSeriesIsBounded(t *testing.T) {
	var table usageTable
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	u := table.ensureSeries("one")
	n := 3 * 24 * 360
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * 10 * time.Second) }
	for i := range n {
		table.addSample("one", wire.UsageSample{Time: at(i), CPU: 0.5, Memory: int64(i), Sent: 1})
	}
	if len(u.recent) != recentSamples || len(u.day) != daySamples || len(u.part) >= coarseFactor {
		t.Fatalf("%d, %d and %d samples are kept", len(u.recent), len(u.day), len(u.part))
	}
	last := at(n - 1)
	fine := table.readSeries("one", last.Add(-5*time.Minute), time.Time{})
	if len(fine) != 31 || fine[30].Time != last || fine[0].Memory != int64(n-31) {
		t.Errorf("of five minutes there are %d samples: %+v", len(fine), fine[0])
	}
	all := table.readSeries("one", time.Time{}, time.Time{})
	var sent int64
	for i, s := range all {
		sent += s.Sent
		if i > 0 && !s.Time.After(all[i-1].Time) {
			t.Fatalf("sample %d is of %s, after %s", i, s.Time, all[i-1].Time)
		}
		if s.CPU != 0.5 {
			t.Fatalf("sample %d: %g processors", i, s.CPU)
		}
	}
	if day := int64(all[len(all)-1].Time.Sub(all[0].Time)/(10*time.Second)) + coarseFactor; sent != day {
		t.Errorf("%d bytes were sent in %d samples of one byte each", sent, day)
	}
	if early := table.readSeries("one", begin, begin.Add(time.Hour)); len(early) != 0 {
		t.Errorf("of the first hour there are %d samples", len(early))
	}
	if none := table.readSeries("two", time.Time{}, time.Time{}); none != nil {
		t.Errorf("of a sandbox without a series: %+v", none)
	}
}

// TestTrafficIsCountedOnce reads a log of connections that grow, end and stay in the log.
func TestTrafficIsCountedOnce(t *testing.T) {
	var u usageSeries
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	old := atoll.Connection{Time: at(0), Host: "old", Allowed: true, Sent: 1000, Received: 1000, Duration: time.Second}
	long := atoll.Connection{Time: at(5), Host: "long", Allowed: true, Sent: 10, Received: 100}
	read := func(seconds int, want traffic, list ...atoll.Connection) {
		t.Helper()
		if got := u.countTraffic(list, at(seconds)); got != want {
			t.Errorf("after %d s: %+v, want %+v", seconds, got, want)
		}
	}
	read(10, traffic{}, old, long) // from before the first sample
	long.Sent, long.Received = 15, 300
	refused := atoll.Connection{Time: at(12), Host: "refused", Sent: 7}
	short := atoll.Connection{Time: at(13), Host: "short", Allowed: true, Sent: 3, Received: 4, Duration: time.Second}
	read(20, traffic{5 + 3, 200 + 4}, old, long, refused, short)
	read(30, traffic{}, old, long, refused, short)
	long.Sent, long.Duration = 16, 30*time.Second
	read(40, traffic{1, 0}, long, refused, short)
	read(50, traffic{}, long)
}

// TestSampledUsage samples a sandbox of a fleet, for its owner only, until it is destroyed.
func TestSampledUsage(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := openFleet(t, Options{hostClock: func() time.Time { return now }})
	sb, err := f.Account(LocalCaller()).Create(t.Context(), atoll.Config{Spec: atoll.Spec{Name: "one"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo 12345 >file"}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := f.sampleOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour) // also past the pause after a slow sample
	}
	got, err := sb.UsageSeries(t.Context(), time.Time{}, time.Time{})
	if err != nil || len(got.Samples) != 3 || got.Samples[2].Disk < 6 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err = sb.UsageSeries(t.Context(), now.Add(-90*time.Minute), time.Time{}); err != nil || len(got.Samples) != 1 {
		t.Errorf("since 90 minutes: %+v, %v", got, err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.sampleOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.usage.series) != 0 {
		t.Errorf("the series of a destroyed sandbox is kept: %v", f.usage.series)
	}
}
