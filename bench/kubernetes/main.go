// Command kubernetes measures sandboxes that are pods, beside client-go and
// kubernetes-sigs/agent-sandbox, in one run on one cluster:
//
//	$ATOLL_CLUSTER run --agent-sandbox -- go run ./bench/kubernetes
//
// It uses the cluster of $KUBECONFIG, in a namespace of its own that it removes.
// Components that are missing there are left out, with a message on standard
// error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/driver/kubernetes/kubeapi"
)

// options are the values of the flags.
type options struct {
	n     int // rounds
	crowd int // number of concurrent claims
	big   int // size of the file in bytes
	cold  int // number of pods to create
}

// bench is the state of a measurement.
type bench struct {
	options
	namespace string
	dir       string // holds the drivers' key
	config    *rest.Config
	api       *kubeapi.API
	rows      []row
}

// row is a line of the table.
type row struct {
	part, what string
	p50, p90   time.Duration
	note       string
	err        error
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 100, "rounds of quick operations")
	flag.IntVar(&o.crowd, "crowd", 20, "concurrent claims")
	flag.IntVar(&o.big, "big", 256<<20, "bytes of the big file")
	flag.IntVar(&o.cold, "cold", 10, "pods to create one after the other")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // otherwise the namespace would remain
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/kubernetes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, w io.Writer) (err error) {
	b := &bench{options: o, namespace: "atoll-bench-" + atoll.NewID()}
	if b.config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig(); err != nil {
		return fmt.Errorf("load kubeconfig: %w", err)
	}
	b.config.QPS = -1
	c, err := rest.HTTPClientFor(b.config)
	if err != nil {
		return err
	}
	if b.api, err = kubeapi.New(b.config, c); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "atoll-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if _, err := b.api.Core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.api.Core.Namespaces().Delete(context.WithoutCancel(ctx), b.namespace, metav1.DeleteOptions{}))
	}()
	for _, part := range []func(context.Context) error{b.measureCommands, b.measureFiles, b.measurePods, b.measureClaims, b.measureAgentSandbox} {
		if err := part(ctx); err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return b.printTable(w)
}

// newDriver returns a driver with a placement of the guest agent.
func (b *bench) newDriver(how kubernetes.Placement) *kubernetes.Driver {
	return &kubernetes.Driver{Namespace: b.namespace, Dir: b.dir, Placement: how}
}

// withSandbox runs f in a new sandbox of a driver.
func withSandbox(ctx context.Context, d *kubernetes.Driver, spec atoll.Spec, f func(sb atoll.Sandbox) error) (err error) {
	sb, err := d.Create(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx))) }()
	return f(sb)
}

// timeRepeated calls f n times, after one call that is not counted, and
// returns the time of each.
func timeRepeated(n int, f func() error) ([]time.Duration, error) {
	var list []time.Duration
	for i := range n + 1 {
		begin := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		if i > 0 {
			list = append(list, time.Since(begin))
		}
	}
	return list, nil
}

// timeConcurrent calls f n times concurrently, and returns the time of each
// and of all.
func timeConcurrent(n int, f func(i int) error) ([]time.Duration, time.Duration, error) {
	list, errs := make([]time.Duration, n), make([]error, n)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range n {
		wg.Go(func() {
			errs[i] = f(i)
			list[i] = time.Since(begin)
		})
	}
	wg.Wait()
	return list, time.Since(begin), errors.Join(errs...)
}

// addRow adds a row of measurements.
func (b *bench) addRow(part, what string, took []time.Duration, note string, err error) *row {
	r := row{part: part, what: what, note: note, err: err}
	if err == nil {
		took = slices.Sorted(slices.Values(took))
		r.p50, r.p90 = took[len(took)/2], took[len(took)*9/10]
	}
	b.rows = append(b.rows, r)
	fmt.Fprintf(os.Stderr, "%s: %s: %v %v\n", part, what, r.p50, err)
	return &b.rows[len(b.rows)-1]
}

func (b *bench) printTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	var parts []string
	for _, r := range b.rows {
		if !slices.Contains(parts, r.part) {
			parts = append(parts, r.part)
		}
	}
	slices.SortStableFunc(b.rows, func(x, y row) int { return slices.Index(parts, x.part) - slices.Index(parts, y.part) })
	part, base := "", time.Duration(0)
	for _, r := range b.rows {
		if r.part != part {
			part, base = r.part, r.p50
			fmt.Fprintf(tw, "\n%s\tp50\tp90\tx\t\n", part)
		}
		if r.err != nil {
			fmt.Fprintf(tw, "%s\t\t\t\tfailed: %v\n", r.what, r.err)
			continue
		}
		fmt.Fprintf(tw, "%s\t%v\t%v\t%.1f\t%s\n", r.what, roundDuration(r.p50), roundDuration(r.p90), float64(r.p50)/float64(max(base, 1)), r.note)
	}
	return tw.Flush()
}

func roundDuration(d time.Duration) time.Duration {
	if d > 100*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
