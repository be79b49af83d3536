//go:build linux

// Command isolation measures sandboxes that run real programs, beside their
// peers, in one run on one machine, as ratios to a bare fork and exec:
//
//	go run ./bench/isolation                 # a table on standard output
//	go run ./bench/isolation -n 100 -docker  # more rounds, with a Docker engine ($DOCKER_HOST)
//	go run ./bench/isolation -cost           # CPU time and system calls, on a busy machine too
//
// Peers that are missing on the machine are left out, with a message on
// standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"
)

// options are the values of the flags.
type options struct {
	n       int
	docker  bool
	big     int64 // bytes of the big file
	files   int
	crowd   int // number of concurrent sandboxes
	rootfs  string
	scratch string
	peers   string // directory with node_modules

	cost   bool
	rounds int    // of -cost
	task   string // of -cost, in the process that does the work
}

// row is a line of the table.
type row struct {
	part, what string
	min, p50   time.Duration
	note       string
	err        error
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 40, "rounds of each")
	flag.BoolVar(&o.docker, "docker", false, "measure the docker driver, docker run and docker exec too")
	flag.Int64Var(&o.big, "big", 1<<30, "bytes of the big file")
	flag.IntVar(&o.files, "files", 10_000, "small files")
	flag.IntVar(&o.crowd, "crowd", 100, "sandboxes at once")
	flag.StringVar(&o.peers, "peers", "", "directory whose node_modules has @anthropic-ai/sandbox-runtime")
	flag.BoolVar(&o.cost, "cost", false, "measure CPU time and system calls instead, with perf")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of -cost, each with -n repetitions")
	flag.StringVar(&o.task, "task", "", "do the work of one `task` of -cost, -n times")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench/isolation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, w io.Writer) (err error) {
	if o.scratch, err = os.MkdirTemp("", "atoll-bench-"); err != nil {
		return err
	}
	defer func() {
		// runsc leaves this mount behind; unmounting fails if there is none.
		_ = exec.Command("umount", filepath.Join(o.scratch, "runsc", "state", "null-netns")).Run() //nolint:noctx // it ends by itself
		err = errors.Join(err, os.RemoveAll(o.scratch))
	}()
	if o.task != "" {
		return runCostTask(ctx, o)
	}
	if o.cost {
		return measureCosts(ctx, o)
	}
	if o.rootfs, err = buildRootFS(o.scratch); err != nil {
		return err
	}
	base := measureRounds("create + first output", "bare fork+exec, static busybox", o.n, timeCommand("", o.rootfs+"/bin/echo", "hi"))
	rows := []row{base, measureRounds("create + first output", "bare fork+exec, program of the host", o.n, timeCommand("", "/bin/echo", "hi"))}
	for _, part := range []func(context.Context, options) []row{measurePeers, namespaceRows, measurePeerCrowd, microvmRows, dockerRows} {
		rows = append(rows, part(ctx, o)...)
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return printTable(w, base, rows)
}

// buildRootFS creates a root file system from the host's static busybox.
func buildRootFS(dir string) (string, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return "", fmt.Errorf("busybox is missing: apt-get install busybox-static: %w", err)
	}
	root := filepath.Join(dir, "rootfs")
	for _, d := range []string{"bin", "proc", "dev", "sys", "tmp", "etc", "workspace"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for _, name := range []string{"busybox", "echo", "sh", "cat", "true"} {
		target := filepath.Join(root, "bin", name)
		if name == "busybox" {
			err = os.WriteFile(target, b, 0o755)
		} else {
			err = os.Symlink("busybox", target)
		}
		if err != nil {
			return "", err
		}
	}
	return root, nil
}

// timedRun runs something once and returns the time to its first output.
type timedRun func() (time.Duration, error)

// timeCommand returns a timedRun of a program.
func timeCommand(dir, name string, args ...string) timedRun {
	return func() (time.Duration, error) {
		cmd := exec.Command(name, args...) //nolint:noctx // every peer ends by itself
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		start := time.Now()
		out, err := cmd.StdoutPipe()
		if err != nil {
			return 0, err
		}
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		b := make([]byte, 64)
		n, rerr := out.Read(b)
		took := time.Since(start)
		if err := cmd.Wait(); err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, fmt.Errorf("%s has no output: %w", name, rerr)
		}
		return took, nil
	}
}

// measureRounds runs f n times, after one run that is not counted.
func measureRounds(part, what string, n int, f timedRun) row {
	r := row{part: part, what: what}
	list := make([]time.Duration, 0, n)
	for i := range n + 1 {
		d, err := f()
		if err != nil {
			r.err = err
			return r
		}
		if i > 0 {
			list = append(list, d)
		}
	}
	slices.Sort(list)
	r.min, r.p50 = list[0], list[len(list)/2]
	return r
}

func printTable(w io.Writer, base row, rows []row) error {
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	part := ""
	for _, r := range rows {
		if r.part != part {
			part = r.part
			fmt.Fprintf(tw, "\n%s\tmin\tp50\tx bare\t\n", part)
		}
		switch {
		case r.err != nil:
			fmt.Fprintf(tw, "%s\t\t\t\tfailed: %v\n", r.what, r.err)
		case r.p50 == 0:
			fmt.Fprintf(tw, "%s\t\t\t\t%s\n", r.what, r.note)
		default:
			fmt.Fprintf(tw, "%s\t%v\t%v\t%.1f\t%s\n", r.what, roundDuration(r.min), roundDuration(r.p50), float64(r.p50)/float64(base.p50), r.note)
		}
	}
	return tw.Flush()
}

func roundDuration(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}
