// Command virtual measures the virtual driver beside its peers in one run: real
// bash, just-bash and bashkit. It prints milliseconds and ratios.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// result is an engine's time for a task: the median of its runs.
type result struct {
	Engine string  `json:"engine"`
	Task   string  `json:"task"`
	Ms     float64 `json:"ms"`
	Output string  `json:"output,omitempty"` // the script's output, to compare
	Failed string  `json:"failed,omitempty"`
	Unit   string  `json:"unit,omitempty"` // empty: ms
}

func main() {
	peers := flag.String("peers", "", "directory with node_modules of just-bash and @everruns/bashkit; empty: without them")
	only := flag.String("only", "", "run only tasks whose name contains this")
	asJSON := flag.Bool("json", false, "print JSON")
	flag.Parse()
	if err := runBenchmark(context.Background(), *peers, *only, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runBenchmark(ctx context.Context, peers, only string, asJSON bool) error {
	var list []task
	for _, t := range allTasks() {
		if strings.Contains(t.Name, only) {
			list = append(list, t)
		}
	}
	var all []result
	progress := func(r result) {
		all = append(all, r)
		if !asJSON {
			fmt.Fprintf(os.Stderr, "%-10s %-24s %10.3f %s\n", r.Engine, r.Task, r.Ms, r.Failed)
		}
	}
	d := virtual.New()
	defer d.Close()
	if err := runAtoll(ctx, d, "", list, only, progress); err != nil {
		return err
	}
	if f, err := d.Probe(ctx); err != nil {
		return err
	} else if !slices.Contains(f.Runtimes, virtual.Sealed) {
		fmt.Fprintln(os.Stderr, "no atoll-worker: sealed sandboxes are left out ('make build', then ATOLL_HELPERS=.cache/helpers)")
	} else if err := runAtoll(ctx, d, virtual.Sealed, list, only, progress); err != nil {
		return err
	}
	if err := runBash(ctx, list, progress); err != nil {
		return err
	}
	if peers != "" {
		if err := runPeers(ctx, peers, list, progress); err != nil {
			return err
		}
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(all)
	}
	return printTable(all)
}

func medianOf(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// medianTime calls f n times and returns the median in milliseconds.
func medianTime(n int, f func() error) (float64, error) {
	var list []float64
	for range n {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		list = append(list, float64(time.Since(start).Nanoseconds())/1e6)
	}
	return medianOf(list), nil
}

// runAtoll measures sandboxes with a runtime of the virtual driver; empty: in this process.
func runAtoll(ctx context.Context, d *virtual.Driver, runtime string, list []task, only string, tell func(result)) error {
	engine := engineName(runtime)
	for _, t := range list {
		spec := atoll.Spec{Runtime: runtime, Limits: atoll.Resources{FileSize: 64 << 20, Disk: 256 << 20, Memory: 256 << 20}}
		sb, err := d.Create(ctx, spec)
		if err != nil {
			return err
		}
		if err := atoll.WriteFile(ctx, sb, "/tmp/bench/log", []byte(logText(t.Log)), 0o644); err != nil {
			return err
		}
		var out string
		ms, err := medianTime(t.Runs, func() error {
			exit, err := sb.Exec(ctx, atoll.Cmd{Shell: t.Script, Session: true})
			out = string(exit.Stdout) + string(exit.Stderr)
			return err
		})
		r := result{Engine: engine, Task: t.Name, Ms: ms, Output: out}
		if err != nil {
			r.Failed = err.Error()
		}
		tell(r)
		if err := sb.Destroy(ctx); err != nil {
			return err
		}
	}
	if only != "" {
		return nil
	}
	return runLifecycle(ctx, d, runtime, tell)
}

func engineName(runtime string) string {
	if runtime == "" {
		return "atoll"
	}
	return runtime
}

// runLifecycle measures operations that only sandboxes have.
func runLifecycle(ctx context.Context, d *virtual.Driver, runtime string, tell func(result)) error {
	engine := engineName(runtime)
	ms, err := medianTime(500, func() error {
		sb, err := d.Create(ctx, atoll.Spec{Runtime: runtime})
		if err != nil {
			return err
		}
		if _, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo hi", Session: true}); err != nil {
			return err
		}
		return sb.Destroy(ctx)
	})
	if err != nil {
		return err
	}
	tell(result{Engine: engine, Task: "create + echo hi", Ms: ms})
	sb, err := d.Create(ctx, atoll.Spec{Runtime: runtime})
	if err != nil {
		return err
	}
	ms, err = medianTime(2000, func() error {
		_, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo hi", Session: true})
		return err
	})
	if err = errors.Join(err, sb.Destroy(ctx)); err != nil {
		return err
	}
	tell(result{Engine: engine, Task: "echo hi in the same sandbox", Ms: ms})
	if runtime != "" {
		return nil // forks and idle sandboxes are processes there
	}
	if err := runForks(ctx, d, tell); err != nil {
		return err
	}
	return runIdle(ctx, d, tell)
}

// runForks measures snapshot, restore and fork of 10,000 files.
func runForks(ctx context.Context, d *virtual.Driver, tell func(result)) error {
	made, err := d.Create(ctx, atoll.Spec{Limits: atoll.Resources{Files: 20_000}, Timeouts: atoll.Timeouts{Exec: time.Minute}})
	if err != nil {
		return err
	}
	sb := made.(*virtual.Sandbox)
	if _, err := sb.Exec(ctx, atoll.Cmd{Shell: "mkdir /d; cd /d; for ((i=0;i<10000;i++)); do echo $i > $i; done"}); err != nil {
		return err
	}
	var last atoll.SnapshotInfo
	for _, x := range []struct {
		name string
		do   func() error
	}{
		{"snapshot, 10,000 files", func() (err error) { last, err = sb.Snapshot(ctx, ""); return err }},
		{"restore, 10,000 files", func() error { return sb.Restore(ctx, last.ID) }},
		{"fork, 10,000 files", func() error {
			f, err := sb.Fork(ctx, "", atoll.Spec{})
			if err != nil {
				return err
			}
			return f.Destroy(ctx)
		}},
	} {
		ms, err := medianTime(200, x.do)
		if err != nil {
			return err
		}
		tell(result{Engine: "atoll", Task: x.name, Ms: ms})
	}
	return sb.Destroy(ctx)
}

// runIdle measures the memory of 1,000 sandboxes that have run one command.
func runIdle(ctx context.Context, d *virtual.Driver, tell func(result)) error {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	const n = 1000
	before := heap()
	live := make([]atoll.Sandbox, n)
	for i := range live {
		sb, err := d.Create(ctx, atoll.Spec{})
		if err != nil {
			return err
		}
		if _, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo hi", Session: true}); err != nil {
			return err
		}
		live[i] = sb
	}
	after := heap()
	tell(result{Engine: "atoll", Task: "1,000 idle, kB each", Ms: float64(after-before) / n / 1000, Unit: "kB"})
	for _, sb := range live {
		if err := sb.Destroy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runBash runs each script in real bash, in a process of its own.
func runBash(ctx context.Context, list []task, tell func(result)) error {
	const dir = "/tmp/bench"
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s exists: remove it, the scripts use it", dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, t := range list {
		if err := os.WriteFile(filepath.Join(dir, "log"), []byte(logText(t.Log)), 0o600); err != nil {
			return err
		}
		var out bytes.Buffer
		ms, err := medianTime(t.Runs, func() error {
			out.Reset()
			cmd := exec.CommandContext(ctx, "bash", "-c", t.Script)
			cmd.Env = append(os.Environ(), "LC_ALL=C")
			cmd.Stdout, cmd.Stderr = &out, &out
			return cmd.Run()
		})
		r := result{Engine: "bash", Task: t.Name, Ms: ms, Output: out.String()}
		if err != nil {
			r.Failed = err.Error()
		}
		tell(r)
	}
	return nil
}

// runPeers runs each script in the engines from npm, in a process of its own,
// so that one that hangs does not affect others.
func runPeers(ctx context.Context, dir string, list []task, tell func(result)) error {
	_, here, _, _ := runtime.Caller(0)
	script, err := os.ReadFile(filepath.Join(filepath.Dir(here), "peers.mjs"))
	if err != nil {
		return err
	}
	runner := filepath.Join(dir, "peers.mjs")
	if err := os.WriteFile(runner, script, 0o600); err != nil {
		return err
	}
	life := []task{{Name: "create + echo hi", Script: "echo hi", Runs: 30}, {Name: "1,000 idle, kB each", Script: "echo hi", Runs: 1}}
	for _, engine := range []string{"just-bash", "bashkit"} {
		for _, t := range append(slices.Clone(list), life...) {
			tell(runPeer(ctx, dir, engine, t))
		}
	}
	return nil
}

func runPeer(ctx context.Context, dir, engine string, t task) result {
	r := result{Engine: engine, Task: t.Name}
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	in, err := json.Marshal(map[string]any{"engine": engine, "task": t, "log": logText(t.Log)})
	if err != nil {
		r.Failed = err.Error()
		return r
	}
	cmd := exec.CommandContext(ctx, "node", "--expose-gc", "peers.mjs")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(in)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		r.Failed = err.Error()
	}
	return r
}

// printTable prints a row for each task: the times of all engines, with their
// ratio to atoll's.
func printTable(all []result) error {
	engines := []string{"atoll", "sealed", "bash", "just-bash", "bashkit"}
	by := make(map[string]map[string]result)
	var order []string
	for _, r := range all {
		if by[r.Task] == nil {
			by[r.Task] = make(map[string]result)
			order = append(order, r.Task)
		}
		by[r.Task][r.Engine] = r
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "task\t"+strings.Join(engines, "\t")+"\t")
	for _, name := range order {
		row := by[name]
		cells := []string{name}
		for _, e := range engines {
			cells = append(cells, formatCell(row[e], row["atoll"], row["bash"]))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	fmt.Fprintln(w, "\nms (median), and how many times atoll's; ! failed, ≠ other output than bash")
	return w.Flush()
}

func formatCell(r, atoll, bash result) string {
	switch {
	case r.Engine == "":
		return "-"
	case r.Failed != "":
		return "!"
	}
	s := fmt.Sprintf("%.4g", r.Ms)
	if r.Engine != "atoll" && atoll.Ms > 0 && atoll.Failed == "" {
		s += fmt.Sprintf(" (%.3gx)", r.Ms/atoll.Ms)
	}
	if bash.Engine != "" && r.Output != bash.Output {
		s += " ≠"
	}
	return s
}
