// Command agent measures how much more time a turn takes through atoll than
// with the bare agent, with the same model on this machine, and how much later
// its first word arrives.
//
//	ATOLL_HELPERS=.cache/helpers go run ./bench/agent [-n 20] [-claude FILE] [-warm] [-load 1000 -chats 20]
//
// The kinds bare-warm and warm are further prompts of a process, plain and in a chat of a server. With -load, it runs that many turns of
// several chats at once and prints what they hold.
//
// Without Claude Code, a small fake agent asks the model and prints its
// answer.
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
		if err := runFakeAgent(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	n := flag.Int("n", 20, "turns of each kind")
	program := flag.String("claude", os.Getenv("ATOLL_CLAUDE"), "file of Claude Code; empty: only the fake agent")
	warm := flag.Bool("warm", false, "only further prompts of a process")
	load := flag.Int("load", 0, "turns in warm processes, instead of the comparison")
	chats := flag.Int("chats", 20, "chats at once, with -load")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // otherwise sandboxes would remain
	err := run(ctx, *program, func(b *bench) error {
		if *load > 0 {
			if !b.agent.Features().Turns {
				return nil
			}
			return b.runLoad(ctx, *chats, *load)
		}
		return b.measureKinds(ctx, *n, *warm)
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/agent:", err)
		os.Exit(1)
	}
}

// subject is an agent to measure.
type subject struct {
	name    string
	agent   agent.Agent
	program string // file of the host
	turn    agent.Turn
}

// packagedAgent is the fake agent, with a program of the host.
type packagedAgent struct{ command.Agent }

// Features returns the features of a packaged agent.
func (p packagedAgent) Features() agent.Features {
	f := p.Agent.Features()
	f.Package = &agent.Package{Name: "double", Version: "1", Program: "double"}
	return f
}

const programs = "/opt/atoll/agents" // path of the programs in the sandbox

func run(ctx context.Context, program string, measure func(*bench) error) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	list := []subject{{"double", packagedAgent{}, self, agent.Turn{Prompt: agent.Text("hello"), Command: []string{filepath.Base(self), "double"}}}}
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
		b := &bench{subject: s, driver: d, dir: dir, model: &fakeModel{}}
		if err := measure(b); err != nil {
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
	model  *fakeModel
}

// turnTimes are the times of one turn.
type turnTimes struct {
	all   time.Duration
	first time.Duration // from the model's first word to its event
}

// kind is a way to run a turn.
type kind struct {
	name string
	turn func() (turnTimes, error)
	than int // index of the kind to compare with
	all  []turnTimes
}

// measureKinds runs turns of each kind alternately, so that other load on the
// machine affects all kinds alike.
func (b *bench) measureKinds(ctx context.Context, n int, warm bool) (err error) {
	if warm && !b.agent.Features().Turns {
		return nil
	}
	ready, err := b.create(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ready.Destroy(context.WithoutCancel(ctx))) }()
	site, err := b.startSite(ctx, 2) // the warm chat and one that has ended
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	kinds := []kind{
		{name: "bare", turn: func() (turnTimes, error) { return b.runBare(ctx, filepath.Join(b.dir, "state")) }},
		{name: "ready", turn: func() (turnTimes, error) { return b.runInSandbox(ctx, ready) }},
		// An agent without state has more to do, bare or not.
		{name: "bare-new", turn: func() (turnTimes, error) { return b.runBareNew(ctx) }},
		{name: "created", turn: func() (turnTimes, error) { return b.runCreated(ctx) }, than: 2},
		{name: "served", turn: func() (turnTimes, error) { return b.runServed(ctx, site) }, than: 2},
	}
	if warm {
		kinds = nil
	}
	if b.agent.Features().Turns {
		bare, err := b.startBareSession(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bare.close()) }()
		kinds = append(kinds, kind{name: "bare-warm", turn: bare.run, than: len(kinds)}, kind{name: "warm", turn: func() (turnTimes, error) {
			b.model.reset()
			return b.runServedTurn(ctx, site, "warm")
		}, than: len(kinds)})
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
		all, first := medianTimes(k.all)
		bareAll, bareFirst := medianTimes(kinds[k.than].all)
		fmt.Fprintf(os.Stdout, "BenchmarkTurn/%s/%s %d %d ns/op %.2f ms/turn %+.2f ms-over-bare %.2f x-bare %.2f ms-first-word %+.2f ms-first-over-bare\n",
			b.name, k.name, n, all.Nanoseconds(), toMilliseconds(all), toMilliseconds(all-bareAll), float64(all)/float64(bareAll), toMilliseconds(first), toMilliseconds(first-bareFirst))
	}
	return nil
}

func toMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// medianTimes returns the medians.
func medianTimes(list []turnTimes) (all, first time.Duration) {
	var a, f []time.Duration
	for _, t := range list {
		a, f = append(a, t.all), append(f, t.first)
	}
	slices.Sort(a)
	slices.Sort(f)
	return a[len(a)/2], f[len(f)/2]
}

// create creates a sandbox that contains the agent's program.
func (b *bench) create(ctx context.Context) (atoll.Sandbox, error) {
	return b.driver.Create(ctx, atoll.Spec{Mounts: []atoll.Mount{{Source: filepath.Dir(b.program), Target: programs, ReadOnly: true}}})
}

// runCreated runs a turn in a new sandbox.
func (b *bench) runCreated(ctx context.Context) (turnTimes, error) {
	start := time.Now()
	sb, err := b.create(ctx)
	if err != nil {
		return turnTimes{}, err
	}
	t, err := b.runInSandbox(ctx, sb)
	err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	t.all = time.Since(start)
	return t, err
}

// runInSandbox runs a turn in a sandbox.
func (b *bench) runInSandbox(ctx context.Context, sb atoll.Sandbox) (turnTimes, error) {
	var w firstTokenWatcher
	b.model.reset()
	start := time.Now()
	r, err := agent.Run(ctx, agent.Job{
		Sandbox: sb, Agent: b.agent, Turn: b.turn, Path: []string{programs}, Model: b.model, Emit: w.handleEvent,
	})
	t := turnTimes{time.Since(start), w.first.Sub(b.model.firstSent())}
	if err == nil && r.Outcome != agent.OK {
		b, _ := json.Marshal(r)
		err = fmt.Errorf("the turn failed: %s", b)
	}
	return t, err
}

// firstTokenWatcher records when the first word arrives.
type firstTokenWatcher struct{ first time.Time }

func (w *firstTokenWatcher) handleEvent(e agent.Event) {
	if e.Type == agent.TextDelta && w.first.IsZero() {
		w.first = time.Now()
	}
}

// writeFiles writes the files of a plan to this machine.
func writeFiles(files []agent.File) error {
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
