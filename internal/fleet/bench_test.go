package fleet

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// BenchmarkExec measures what the fleet adds to a command: Fleet less Driver.
func BenchmarkExec(b *testing.B) {
	cmd := atoll.Cmd{Args: []string{"true"}}
	run := func(b *testing.B, sb atoll.Sandbox) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			if exit, err := sb.Exec(b.Context(), cmd); err != nil || exit.Code != 0 {
				b.Fatal(exit, err)
			}
		}
	}
	b.Run("Driver", func(b *testing.B) {
		sb, err := virtual.New().Create(b.Context(), atoll.Spec{})
		if err != nil {
			b.Fatal(err)
		}
		run(b, sb)
	})
	b.Run("Fleet", func(b *testing.B) {
		f := openFleet(b, Options{Drivers: []atoll.Driver{virtual.New()}})
		sb, err := f.Account(LocalCaller()).Create(b.Context(), atoll.Config{})
		if err != nil {
			b.Fatal(err)
		}
		run(b, sb)
	})
}

// BenchmarkOpen measures what a process pays to open a fleet that is there.
func BenchmarkOpen(b *testing.B) {
	home := b.TempDir()
	opts := Options{Home: home, Drivers: []atoll.Driver{virtual.New()}}
	closeFleet(b, openFleet(b, opts))
	for b.Loop() {
		f, err := Open(b.Context(), opts)
		if err != nil {
			b.Fatal(err)
		}
		closeFleet(b, f)
	}
}

// BenchmarkFleet runs the benchmarks that all drivers have.
func BenchmarkFleet(b *testing.B) {
	f := openFleet(b, Options{Drivers: []atoll.Driver{virtual.New()}})
	atolltest.Bench(b, asDriver{f.Account(LocalCaller())})
}

// BenchmarkCreate measures a sandbox from Create to Destroy.
func BenchmarkCreate(b *testing.B) {
	run := func(b *testing.B, quota atoll.Quota) {
		b.Helper()
		f := openFleet(b, Options{Drivers: []atoll.Driver{virtual.New()}, Quota: quota})
		a := f.Account(LocalCaller())
		for b.Loop() {
			sb, err := a.Create(b.Context(), atoll.Config{})
			if err == nil {
				err = sb.Destroy(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("NoQuota", func(b *testing.B) { run(b, atoll.Quota{}) })
	b.Run("Quota", func(b *testing.B) { run(b, atoll.Quota{Sandboxes: 10, Memory: 64 << 30}) })
}

// BenchmarkThousand measures calls of a fleet with 1,000 sandboxes.
func BenchmarkThousand(b *testing.B) {
	f := openFleet(b, Options{Drivers: []atoll.Driver{virtual.New()}, Quota: atoll.Quota{Sandboxes: 2000}})
	a := f.Account(LocalCaller())
	var last *Sandbox
	for range 1000 {
		sb, err := a.Create(b.Context(), atoll.Config{})
		if err != nil {
			b.Fatal(err)
		}
		last = sb
	}
	b.Run("List", func(b *testing.B) {
		for b.Loop() {
			if list, err := a.List(b.Context(), Filter{}); err != nil || len(list) != 1000 {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("Open", func(b *testing.B) {
		for b.Loop() {
			if _, err := a.Open(b.Context(), last.ID()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("CreateDestroy", func(b *testing.B) {
		for b.Loop() {
			sb, err := a.Create(b.Context(), atoll.Config{})
			if err == nil {
				err = sb.Destroy(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkUse measures what states, owners and activity cost of a command,
// without its history and audit.
func BenchmarkUse(b *testing.B) {
	f := openFleet(b, Options{Drivers: []atoll.Driver{virtual.New()}, Quota: atoll.Quota{Processes: 10}})
	sb, err := f.Account(LocalCaller()).Create(b.Context(), atoll.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, done, err := sb.beginCall(b.Context(), "exec")
		if err != nil {
			b.Fatal(err)
		}
		done(nil)
	}
}
