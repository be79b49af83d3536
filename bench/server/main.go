// Command server measures the cost of the API: the same driver in this process,
// over a unix socket and over TCP, in one run on one machine, as ratios.
//
//	go run ./bench/server            # a table on standard output
//	go run ./bench/server -time 5s   # longer
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// sdkBaseline is the latency of an SDK of another project on loopback, against
// a stub that only runs the command: no server can be faster for its users.
// Measured with e2b 2.51.0 and @daytona/sdk 0.216.0 on 2 shared cores.
type sdkBaseline struct {
	what     string
	p50, p95 time.Duration
}

var sdkBaselines = []sdkBaseline{
	{"e2b commands.run(true)", 7000 * time.Microsecond, 18100 * time.Microsecond},
	{"daytona executeCommand", 2900 * time.Microsecond, 11800 * time.Microsecond},
	{"e2b write 1 kB", 2500 * time.Microsecond, 15900 * time.Microsecond},
	{"e2b read 1 kB", 900 * time.Microsecond, 3700 * time.Microsecond},
	{"daytona upload 1 kB", 3200 * time.Microsecond, 18700 * time.Microsecond},
	{"daytona download 1 kB", 1200 * time.Microsecond, 1600 * time.Microsecond},
	{"e2b write 32 MiB", 607 * time.Millisecond, 0},
	{"e2b read 32 MiB", 332 * time.Millisecond, 0},
	{"daytona upload 32 MiB", 147 * time.Millisecond, 0},
	{"daytona download 32 MiB", 290 * time.Millisecond, 0},
	{"both: 20 MB of standard output", 1430 * time.Millisecond, 0},
}

// task is an operation to measure.
type task struct {
	name    string
	clients int
	once    func(ctx context.Context, sb atoll.Sandbox) error
}

func runCommand(cmd atoll.Cmd) func(context.Context, atoll.Sandbox) error {
	return func(ctx context.Context, sb atoll.Sandbox) error {
		exit, err := sb.Exec(ctx, cmd)
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("exit status %d: %s", exit.Code, exit.Stderr)
		}
		return err
	}
}

func writeFile(size int) func(context.Context, atoll.Sandbox) error {
	data := bytes.Repeat([]byte("x"), size)
	return func(ctx context.Context, sb atoll.Sandbox) error {
		f, ok := atoll.As[atoll.FS](sb)
		if !ok {
			return atoll.ErrUnsupported
		}
		return f.WriteFile(ctx, fmt.Sprintf("/tmp/%d", size), bytes.NewReader(data), 0o644)
	}
}

func readFile(size int) func(context.Context, atoll.Sandbox) error {
	return func(ctx context.Context, sb atoll.Sandbox) error {
		rc, err := atoll.OpenFile(ctx, sb, fmt.Sprintf("/tmp/%d", size))
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, rc)
		if err == nil && n != int64(size) {
			err = fmt.Errorf("%d bytes of %d came", n, size)
		}
		return errors.Join(err, rc.Close())
	}
}

// streamOutput runs a command and reads its output while it runs.
func streamOutput(ctx context.Context, sb atoll.Sandbox) error {
	n := &counter{}
	_, err := sb.Exec(ctx, atoll.Cmd{Shell: "yes 0123456789abcde | head -c 20000000", Stdout: n})
	if err == nil && n.n != 20_000_000 {
		err = fmt.Errorf("%d bytes of 20,000,000 came", n.n)
	}
	return err
}

type counter struct{ n int }

func (c *counter) Write(b []byte) (int, error) {
	c.n += len(b)
	return len(b), nil
}

var tasks = []task{
	{"exec true", 1, runCommand(atoll.Cmd{Args: []string{"true"}})},
	{"exec true", 64, runCommand(atoll.Cmd{Args: []string{"true"}})},
	{"exec sh -c 'echo hi'", 1, runCommand(atoll.Cmd{Shell: "echo hi"})},
	{"exec sh -c 'echo hi'", 64, runCommand(atoll.Cmd{Shell: "echo hi"})},
	{"exec echo hi, streamed", 1, runCommand(atoll.Cmd{Args: []string{"echo", "hi"}, Stdout: io.Discard})},
	{"write 1 KB", 1, writeFile(1 << 10)},
	{"read 1 KB", 1, readFile(1 << 10)},
	{"write 32 MiB", 1, writeFile(32 << 20)},
	{"read 32 MiB", 1, readFile(32 << 20)},
	{"20 MB of standard output", 1, streamOutput},
}

// measurement is the rate and the latencies of a task.
type measurement struct {
	perSecond     float64
	p50, p95, p99 time.Duration
}

// measureTask repeats a task for a time, with t.clients concurrent clients.
func measureTask(ctx context.Context, t task, sb atoll.Sandbox, long time.Duration) (measurement, error) {
	if err := t.once(ctx, sb); err != nil { // one-time setup is not measured
		return measurement{}, err
	}
	runtime.GC()
	took := make([][]time.Duration, t.clients)
	errs := make([]error, t.clients)
	begun := time.Now()
	var wg sync.WaitGroup
	for i := range t.clients {
		wg.Go(func() {
			for time.Since(begun) < long && errs[i] == nil {
				start := time.Now()
				errs[i] = t.once(ctx, sb)
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	all := slices.Concat(took...)
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))] }
	return measurement{float64(len(all)) / time.Since(begun).Seconds(), at(0.5), at(0.95), at(0.99)}, errors.Join(errs...)
}

// accessPath is a way to reach a sandbox.
type accessPath struct {
	name string
	sb   atoll.Sandbox
}

// newSpec returns the spec of the sandboxes, the same for all paths.
func newSpec() atoll.Spec {
	return atoll.Spec{Limits: atoll.Resources{Disk: 256 << 20, FileSize: 64 << 20}}
}

// createAccessPaths creates a sandbox for each path; end removes them.
func createAccessPaths(ctx context.Context, home string) (list []accessPath, end func() error, err error) {
	var ends []func() error
	end = func() error {
		var errs []error
		for _, f := range slices.Backward(ends) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	direct, err := (&virtual.Driver{}).Create(ctx, newSpec())
	if err != nil {
		return nil, end, err
	}
	ends = append(ends, func() error { return direct.Destroy(ctx) })
	list = append(list, accessPath{"in process", direct})
	f, err := fleet.Open(ctx, fleet.Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{}}})
	if err != nil {
		return nil, end, err
	}
	ends = append(ends, func() error { return f.Close(ctx) })
	account := f.Account(fleet.LocalCaller())
	inFleet, err := account.Create(ctx, atoll.Config{Spec: newSpec()})
	if err != nil {
		return nil, end, err
	}
	list = append(list, accessPath{"fleet", inFleet})
	token, err := account.CreateToken(ctx, atoll.Token{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	if err != nil {
		return nil, end, err
	}
	s := api.New(api.Options{Fleet: f, Limits: api.Limits{Rate: -1, Concurrent: -1}})
	ends = append(ends, func() error { return s.Shutdown(ctx) })
	sock := filepath.Join(home, "bench.sock")
	for _, l := range []struct{ name, network, address, host string }{{"unix", "unix", sock, "unix://" + sock}, {"tcp", "tcp", "127.0.0.1:0", ""}} {
		listener, err := new(net.ListenConfig).Listen(ctx, l.network, l.address)
		if err != nil {
			return nil, end, err
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(listener) }()
		ends = slices.Insert(ends, len(ends)-1, func() error { return <-served })
		if l.host == "" {
			l.host = "http://" + listener.Addr().String()
		}
		c, err := client.New(client.Options{Host: l.host, Token: token.Secret})
		if err != nil {
			return nil, end, err
		}
		ends = append(ends, c.Close)
		sb, err := c.Create(ctx, newSpec())
		if err != nil {
			return nil, end, err
		}
		list = append(list, accessPath{l.name, sb})
	}
	return list, end, nil
}

func main() {
	long := flag.Duration("time", 2*time.Second, "how long each figure is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := runBenchmark(ctx, *long, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench/server:", err)
		os.Exit(1)
	}
}

func runBenchmark(ctx context.Context, long time.Duration, out io.Writer) (err error) {
	home, err := os.MkdirTemp("", "atoll-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	list, end, err := createAccessPaths(ctx, home)
	defer func() { err = errors.Join(err, end()) }()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "task\tclients\tway\tper second\tp50\tp95\tp99\tp50 to in process\t\n")
	for _, t := range tasks {
		var first time.Duration
		for _, way := range list {
			f, err := measureTask(ctx, t, way.sb, long)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", t.name, way.name, err)
			}
			if first == 0 {
				first = f.p50
			}
			fmt.Fprintf(w, "%s\t%d\t%s\t%.0f\t%v\t%v\t%v\t%.2f\t\n", t.name, t.clients, way.name, f.perSecond, roundDuration(f.p50), roundDuration(f.p95), roundDuration(f.p99), float64(f.p50)/float64(first))
		}
	}
	for _, f := range sdkBaselines {
		p95 := "-"
		if f.p95 > 0 {
			p95 = f.p95.String()
		}
		fmt.Fprintf(w, "%s\t1\tSDK, stub\t-\t%v\t%s\t-\t-\t\n", f.what, f.p50, p95)
	}
	return w.Flush()
}

func roundDuration(d time.Duration) time.Duration { return d.Round(time.Microsecond / 10) }
