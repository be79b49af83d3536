// Command machine measures machines of atoll beside plain QEMU with the same
// kernel, whose guest is reached by ssh, in one run on one machine:
//
//	eval "$(scripts/machine)"
//	ATOLL_HELPERS=.cache/helpers go run ./bench/machine -n 10 >new.txt
//	benchstat old.txt new.txt
//
// Each line is one round, as benchstat reads them; a table of medians with ratios
// follows. The peer needs dropbear (apt-get install dropbear-bin) and ssh, and is
// left out where one of them is missing. Neither is measured with anything else at
// work, if its user sees to that: the aims are those of a machine that is idle.
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

// options are what the flags say.
type options struct {
	n     int
	big   int64 // bytes of the file that goes in and out
	crowd int   // idle machines that are weighed
	dir   string
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 10, "rounds of each")
	flag.Int64Var(&o.big, "big", 64<<20, "bytes of the file that is copied in and out")
	flag.IntVar(&o.crowd, "crowd", 10, "idle machines that are weighed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/machine:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.dir, err = os.MkdirTemp("", "bm"); err != nil { // sockets have short names
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	var r results
	if err := ours(ctx, o, &r); err != nil {
		return err
	}
	if err := peer(ctx, o, &r); err != nil {
		return fmt.Errorf("plain QEMU: %w", err)
	}
	return r.table()
}

// results are what was measured, by what it was and whose, in order.
type results struct {
	what []string
	all  map[string]map[string][]float64
	unit map[string]string
}

// Whose a figure is.
const (
	atolls = "atoll"
	plain  = "qemu+ssh"
)

// add notes and prints one figure.
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

// rounds does a thing n times, after as many that don't count, and notes how
// long it said that it took.
func (r *results) rounds(what, whose string, n, before int, f func() (time.Duration, error)) error {
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

// table prints the medians, and atoll's as a part of the peer's.
func (r *results) table() error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n\tatoll\tat best\tQEMU with ssh\tatoll takes\t\n")
	for _, what := range r.what {
		own, theirs := r.all[what][atolls], r.all[what][plain]
		ratio := ""
		if len(own) > 0 && len(theirs) > 0 {
			ratio = fmt.Sprintf("x %.2f", median(own)/median(theirs))
		}
		best := ""
		if len(own) > 0 {
			best = r.show(what, slices.Min(own))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", what, r.show(what, median(own)), best, r.show(what, median(theirs)), ratio)
	}
	return w.Flush()
}

// show is a figure for people.
func (r *results) show(what string, v float64) string {
	switch {
	case v == 0:
		return "-"
	case r.unit[what] == "ns/op":
		return time.Duration(v).Round(10 * time.Microsecond).String()
	}
	return fmt.Sprintf("%.1f MiB", v/(1<<20))
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// since is how long a thing takes.
func since(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}
