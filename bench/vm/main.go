//go:build linux

// Command vm measures atoll's VMs beside plain QEMU with the same kernel, whose
// guest is reached by ssh, in one run on one machine:
//
//	eval "$(scripts/machine)"
//	ATOLL_HELPERS=.cache/helpers go run ./bench/vm -n 10 >new.txt
//	benchstat old.txt new.txt
//
// Each line is one round in the format of benchstat; a table of medians with
// ratios follows. The peer needs dropbear (apt-get install dropbear-bin) and ssh,
// and is left out if one of them is missing. Run it on an idle machine: the
// aims are stated for one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"
	"time"
)

// options are the values of the flags.
type options struct {
	n     int
	big   int64 // size in bytes of the file that is copied in and out
	crowd int   // number of idle VMs whose memory is measured
	dir   string
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 10, "rounds of each measurement")
	flag.Int64Var(&o.big, "big", 64<<20, "bytes of the file that is copied in and out")
	flag.IntVar(&o.crowd, "crowd", 10, "idle VMs whose memory is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/vm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.dir, err = os.MkdirTemp("", "bm"); err != nil { // sockets have short names
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	var r results
	if err := measureAtoll(ctx, o, &r); err != nil {
		return err
	}
	if err := measurePeer(ctx, o, &r); err != nil {
		return fmt.Errorf("plain QEMU: %w", err)
	}
	return r.printTable()
}

// results are the measurements, by name and subject, in order.
type results struct {
	what []string
	all  map[string]map[string][]float64
	unit map[string]string
}

// The subjects of the measurements.
const (
	atolls = "atoll"
	plain  = "qemu+ssh"
)

// add adds and prints a measurement.
func (r *results) add(what, whose, unit string, v float64) {
	if r.all == nil {
		r.all, r.unit = make(map[string]map[string][]float64), make(map[string]string)
	}
	if r.all[what] == nil {
		r.what = append(r.what, what)
		r.all[what] = make(map[string][]float64)
	}
	r.all[what][whose], r.unit[what] = append(r.all[what][whose], v), unit
	fmt.Printf("BenchmarkMachine/%s/%s 1 %.0f %s\n", what, whose, v, unit)
}

// measureRounds calls f n times, after some calls that are not counted, and
// adds the times that it returns.
func (r *results) measureRounds(what, whose string, n, before int, f func() (time.Duration, error)) error {
	for i := range n + before {
		d, err := f()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if i >= before {
			r.add(what, whose, "ns/op", float64(d.Nanoseconds()))
		}
	}
	return nil
}

// printTable prints the medians, and the ratio of atoll's to the peer's.
func (r *results) printTable() error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n\tatoll\tat best\tQEMU with ssh\tatoll takes\t\n")
	for _, what := range r.what {
		own, theirs := r.all[what][atolls], r.all[what][plain]
		ratio := ""
		if len(own) > 0 && len(theirs) > 0 {
			ratio = fmt.Sprintf("x %.2f", medianOf(own)/medianOf(theirs))
		}
		best := ""
		if len(own) > 0 {
			best = r.formatValue(what, slices.Min(own))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", what, r.formatValue(what, medianOf(own)), best, r.formatValue(what, medianOf(theirs)), ratio)
	}
	return w.Flush()
}

// formatValue formats a measurement for people.
func (r *results) formatValue(what string, v float64) string {
	switch {
	case v == 0:
		return "-"
	case r.unit[what] == "ns/op":
		return time.Duration(v).Round(10 * time.Microsecond).String()
	}
	return fmt.Sprintf("%.1f MiB", v/(1<<20))
}

func medianOf(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// timeCall returns the duration of a call.
func timeCall(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}
