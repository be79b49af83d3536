//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
)

// costTasks returns what -cost measures: each task does its work n times.
func costTasks() []costTask {
	return []costTask{
		{"fork", "bare fork+exec, program of the host", repeatCommand("/bin/echo", "hi")},
		{"bwrap", "bubblewrap --unshare-all, host root", repeatCommand("bwrap", bwrapArgs()...)},
		{"create", "atoll namespace, create + first output + destroy", createRepeatedly},
		{"exec", "atoll namespace, exec in a running one", execRepeatedly},
		{"tar-in", "tar -x, 1,000 files", unpackRepeatedly},
		{"in", "atoll namespace, import of 1,000 files", importRepeatedly},
		{"tar-out", "tar -c, 1,000 files", packRepeatedly},
		{"out", "atoll namespace, export of 1,000 files", exportRepeatedly},
	}
}

type costTask struct {
	name, what string
	run        func(ctx context.Context, o options) error
}

// cost is what one repetition of a task costs, in all processes that it starts.
type cost struct {
	cpu   float64 // ms
	calls float64 // system calls
}

// runCostTask does the work of one task; the process that measures it runs this program under perf.
func runCostTask(ctx context.Context, o options) error {
	for _, t := range costTasks() {
		if t.name == o.task {
			return t.run(ctx, o)
		}
	}
	return fmt.Errorf("there is no task %q", o.task)
}

// repeatCommand returns the run function of a task that starts a program.
func repeatCommand(name string, args ...string) func(context.Context, options) error {
	return func(_ context.Context, o options) error {
		run := timeCommand("", name, args...)
		for range o.n {
			if _, err := run(); err != nil {
				return err
			}
		}
		return nil
	}
}

func createRepeatedly(ctx context.Context, o options) (err error) {
	d := &namespace.Driver{Dir: filepath.Join(o.scratch, "namespace")}
	defer func() { err = errors.Join(err, d.Close()) }()
	for range o.n {
		sb, err := d.Create(ctx, atoll.Spec{})
		if err != nil {
			return err
		}
		_, err = runEcho(ctx, sb)
		if err = errors.Join(err, sb.Destroy(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func execRepeatedly(ctx context.Context, o options) error {
	return withSandbox(ctx, o, func(sb atoll.Sandbox) error {
		for range o.n {
			if _, err := runEcho(ctx, sb); err != nil {
				return err
			}
		}
		return nil
	})
}

// withSandbox calls f with a sandbox.
func withSandbox(ctx context.Context, o options, f func(sb atoll.Sandbox) error) (err error) {
	d := &namespace.Driver{Dir: filepath.Join(o.scratch, "namespace")}
	defer func() { err = errors.Join(err, d.Close()) }()
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		return err
	}
	return errors.Join(f(sb), sb.Destroy(ctx))
}

// filesOfCost is the number of files of 1 kB that are copied.
const filesOfCost = 1000

func importRepeatedly(ctx context.Context, o options) error {
	archive := buildArchive(filesOfCost)
	return withSandbox(ctx, o, func(sb atoll.Sandbox) error {
		for i := range o.n {
			if err := sb.Import(ctx, fmt.Sprintf("/workspace/%d", i), bytes.NewReader(archive)); err != nil {
				return err
			}
		}
		return nil
	})
}

func exportRepeatedly(ctx context.Context, o options) error {
	archive := buildArchive(filesOfCost)
	return withSandbox(ctx, o, func(sb atoll.Sandbox) error {
		if err := sb.Import(ctx, "/workspace/small", bytes.NewReader(archive)); err != nil {
			return err
		}
		for range o.n {
			r, err := sb.Export(ctx, "/workspace/small")
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, r)
			if err = errors.Join(err, r.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

func unpackRepeatedly(ctx context.Context, o options) error {
	archive := buildArchive(filesOfCost)
	for i := range o.n {
		if err := unpackArchive(ctx, filepath.Join(o.scratch, strconv.Itoa(i)), archive); err != nil {
			return err
		}
	}
	return nil
}

// unpackArchive unpacks an archive with tar into a new directory.
func unpackArchive(ctx context.Context, dir string, archive []byte) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	cmd.Stdin = bytes.NewReader(archive)
	return cmd.Run()
}

func packRepeatedly(ctx context.Context, o options) error {
	dir := filepath.Join(o.scratch, "small")
	if err := unpackArchive(ctx, dir, buildArchive(filesOfCost)); err != nil {
		return err
	}
	for range o.n {
		cmd := exec.CommandContext(ctx, "tar", "-c", "-C", dir, ".")
		cmd.Stdout = struct{ io.Writer }{io.Discard} // through a pipe
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	return nil
}

// measureCosts prints the CPU time and the number of system calls of each task, which depend less on the
// load of the machine than the time it takes. perf counts them in all processes that a task starts. Each
// task runs with o.n repetitions more and less, one task after the other; the table has medians
// of o.rounds differences.
func measureCosts(ctx context.Context, o options) error {
	const few = 5
	self, err := os.Executable()
	if err != nil {
		return err
	}
	results := make(map[string][]cost)
	for range o.rounds {
		for _, t := range costTasks() {
			a, err := perfStat(ctx, o.scratch, self, t.name, few)
			if err != nil {
				return err
			}
			b, err := perfStat(ctx, o.scratch, self, t.name, few+o.n)
			if err != nil {
				return err
			}
			results[t.name] = append(results[t.name], cost{(b.cpu - a.cpu) / float64(o.n), (b.calls - a.calls) / float64(o.n)})
		}
	}
	tw := tabwriter.NewWriter(os.Stdout, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "cost of one\tCPU ms\tmin\tmax\tsystem calls")
	for _, t := range costTasks() {
		list := results[t.name]
		calls := medianOf(list, func(c cost) float64 { return c.calls })
		cpu := func(c cost) float64 { return c.cpu }
		fmt.Fprintf(tw, "%s\t%.2f\t%.2f\t%.2f\t%.0f\n", t.what, medianOf(list, cpu), cpu(slices.MinFunc(list, byCPU)), cpu(slices.MaxFunc(list, byCPU)), calls)
	}
	return tw.Flush()
}

func byCPU(a, b cost) int { return int(1e6 * (a.cpu - b.cpu)) }

// medianOf returns the median of a value of costs.
func medianOf(list []cost, value func(cost) float64) float64 {
	values := make([]float64, len(list))
	for i, c := range list {
		values[i] = value(c)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// countedCalls returns the filter of the system calls that are counted: without those that Go's scheduler
// makes while it waits, whose number depends on the load of the machine.
func countedCalls() string {
	var parts []string
	for _, id := range []int{unix.SYS_NANOSLEEP, unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_EPOLL_PWAIT, unix.SYS_GETPID, unix.SYS_TGKILL, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPROCMASK} {
		parts = append(parts, "id != "+strconv.Itoa(id))
	}
	return strings.Join(parts, " && ")
}

// perfStat runs this program with a task under perf, and returns the cost of the whole run.
func perfStat(ctx context.Context, scratch, self, task string, n int) (c cost, err error) {
	out := filepath.Join(scratch, "perf.csv")
	cmd := exec.CommandContext(ctx, "perf", "stat", "-x", ",", "-o", out, "-e", "raw_syscalls:sys_enter", "--filter", countedCalls(), "-e", "task-clock", "--", self, "-task", task, "-n", strconv.Itoa(n))
	if msg, err := cmd.CombinedOutput(); err != nil {
		return c, fmt.Errorf("perf stat (task %s): %w: %s", task, err, msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(line, ",")
		if len(f) < 3 {
			continue
		}
		v, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			return c, fmt.Errorf("perf stat printed %q", line)
		}
		if f[2] == "task-clock" {
			c.cpu = v
		} else {
			c.calls = v
		}
	}
	return c, nil
}
