// Command agent measures what a turn costs more through atoll than the same
// agent costs bare, with the same model on this machine, and how much later its
// first word comes.
//
//	ATOLL_HELPERS=.cache/helpers go run ./bench/agent [-n 20] [-claude FILE]
//
// Without Claude Code a small program stands for the agent: it asks the model
// and prints what it says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/claude"
	"github.com/atoll-sandbox/atoll/agent/command"
	"github.com/atoll-sandbox/atoll/driver/namespace"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "double" {
		if err := double(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	n := flag.Int("n", 20, "turns of each kind")
	program := flag.String("claude", os.Getenv("ATOLL_CLAUDE"), "file of Claude Code; empty: only the double")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // sandboxes would stay
	err := run(ctx, *n, *program)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/agent:", err)
		os.Exit(1)
	}
}

// subject is an agent to be measured.
type subject struct {
	name    string
	agent   agent.Agent
	program string // file of the host
	turn    agent.Turn
}

// packaged is the double's agent: its program comes from the host.
type packaged struct{ command.Agent }

// Features says so.
func (p packaged) Features() agent.Features {
	f := p.Agent.Features()
	f.Package = &agent.Package{Name: "double", Version: "1", Program: "double"}
	return f
}

const programs = "/opt/atoll/agents" // where they are inside

func run(ctx context.Context, n int, program string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	list := []subject{{"double", packaged{}, self, agent.Turn{Prompt: agent.Text("hello"), Command: []string{filepath.Base(self), "double"}}}}
	if program != "" {
		list = append(list, subject{"claude", claude.Agent{}, program, agent.Turn{Prompt: agent.Text("hello")}})
	}
	dir, err := os.MkdirTemp("/var/tmp", "atoll-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &namespace.Driver{Dir: filepath.Join(dir, "home")}
	defer d.Close()
	for _, s := range list {
		b := &bench{subject: s, driver: d, dir: dir, model: &oracle{}}
		if err := b.measure(ctx, n); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// bench measures one agent.
type bench struct {
	subject
	driver *namespace.Driver
	dir    string
	model  *oracle
}

// took is what one turn took.
type took struct {
	all   time.Duration
	first time.Duration // from the model's first word to its event
}

// measure runs turns of each kind in turns, so that what the machine does
// besides is the same for all.
func (b *bench) measure(ctx context.Context, n int) (err error) {
	ready, err := b.create(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ready.Destroy(context.WithoutCancel(ctx))) }()
	site, err := b.site(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	kinds := []struct {
		name string
		turn func() (took, error)
		than int // the kind that it is compared with
		all  []took
	}{
		{name: "bare", turn: func() (took, error) { return b.bare(ctx, filepath.Join(b.dir, "state")) }},
		{name: "ready", turn: func() (took, error) { return b.through(ctx, ready) }},
		// An agent that has no state yet has more to do, bare or not.
		{name: "bare-new", turn: func() (took, error) { return b.bareNew(ctx) }},
		{name: "created", turn: func() (took, error) { return b.created(ctx) }, than: 2},
		{name: "served", turn: func() (took, error) { return b.served(ctx, site) }, than: 2},
	}
	for i := range n + 1 {
		for k := range kinds {
			t, err := kinds[k].turn()
			if err != nil {
				return fmt.Errorf("%s: %w", kinds[k].name, err)
			}
			if i > 0 { // the first warms up
				kinds[k].all = append(kinds[k].all, t)
			}
		}
	}
	for _, k := range kinds {
		all, first := middle(k.all)
		bareAll, bareFirst := middle(kinds[k.than].all)
		fmt.Fprintf(os.Stdout, "BenchmarkTurn/%s/%s %d %d ns/op %.2f ms/turn %+.2f ms-over-bare %.2f x-bare %.2f ms-first-word %+.2f ms-first-over-bare\n",
			b.name, k.name, n, all.Nanoseconds(), ms(all), ms(all-bareAll), float64(all)/float64(bareAll), ms(first), ms(first-bareFirst))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// middle returns the medians.
func middle(list []took) (all, first time.Duration) {
	var a, f []time.Duration
	for _, t := range list {
		a, f = append(a, t.all), append(f, t.first)
	}
	slices.Sort(a)
	slices.Sort(f)
	return a[len(a)/2], f[len(f)/2]
}

// create makes a sandbox in which the agent's program is.
func (b *bench) create(ctx context.Context) (atoll.Sandbox, error) {
	return b.driver.Create(ctx, atoll.Spec{Mounts: []atoll.Mount{{Source: filepath.Dir(b.program), Target: programs, ReadOnly: true}}})
}

// created is a turn in a sandbox of its own.
func (b *bench) created(ctx context.Context) (took, error) {
	start := time.Now()
	sb, err := b.create(ctx)
	if err != nil {
		return took{}, err
	}
	t, err := b.through(ctx, sb)
	err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	t.all = time.Since(start)
	return t, err
}

// through is a turn in a sandbox.
func (b *bench) through(ctx context.Context, sb atoll.Sandbox) (took, error) {
	var w watcher
	b.model.reset()
	start := time.Now()
	r, err := agent.Run(ctx, agent.Job{
		Sandbox: sb, Agent: b.agent, Turn: b.turn, Path: []string{programs}, Model: b.model, Emit: w.see,
	})
	t := took{time.Since(start), w.first.Sub(b.model.first())}
	if err == nil && r.Outcome != agent.OK {
		b, _ := json.Marshal(r)
		err = fmt.Errorf("the turn failed: %s", b)
	}
	return t, err
}

// watcher sees when the first word comes.
type watcher struct{ first time.Time }

func (w *watcher) see(e agent.Event) {
	if e.Type == agent.TextDelta && w.first.IsZero() {
		w.first = time.Now()
	}
}

// place writes the files of a plan to this machine.
func place(files []agent.File) error {
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(f.Path, f.Data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
