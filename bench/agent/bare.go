package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
)

// bare is a turn of the agent as a plain process: the same files, arguments and
// talk, and nothing else.
func (b *bench) bare(ctx context.Context, state string) (took, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return took{}, err
	}
	srv := &http.Server{Handler: b.model, ReadHeaderTimeout: time.Minute}
	go srv.Serve(l) //nolint:errcheck // it ends with Close
	defer srv.Close()
	site := agent.Site{Dir: filepath.Join(b.dir, "work"), State: state, Model: "http://" + l.Addr().String(), Root: os.Getuid() == 0}
	if err := os.MkdirAll(site.Dir, 0o755); err != nil {
		return took{}, err
	}
	b.model.reset()
	turn, w := b.turn, watcher{}
	start := time.Now()
	plan, err := b.agent.Plan(&turn, site)
	if err != nil {
		return took{}, err
	}
	if err := place(plan.Files); err != nil {
		return took{}, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(b.program), plan.Args[0]), plan.Args[1:]...)
	cmd.Dir, cmd.Env = site.Dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + site.State}, plan.Env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return took{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return took{}, err
	}
	if err := cmd.Start(); err != nil {
		return took{}, err
	}
	x := &plain{in: in, see: w.see}
	x.Send(plan.Stdin)
	talk := b.agent.Talk(&turn, site)
	talk.Begin(x)
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			talk.Line(x, line[:len(line)-1])
		}
		if talk.Settled() {
			x.Close()
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		return took{}, fmt.Errorf("%s: %w", plan.Args[0], err)
	}
	return took{time.Since(start), w.first.Sub(b.model.first())}, nil
}

// bareNew is one without anything that an earlier turn has left.
func (b *bench) bareNew(ctx context.Context) (took, error) {
	state, err := os.MkdirTemp(b.dir, "state-")
	if err != nil {
		return took{}, err
	}
	defer os.RemoveAll(state)
	return b.bare(ctx, state)
}

// plain is the other end of a talk.
type plain struct {
	in  io.WriteCloser
	see func(agent.Event)
}

func (p *plain) Emit(e agent.Event) { p.see(e) }
func (p *plain) Send(b []byte)      { _, _ = p.in.Write(b) } // a process that is gone is seen at its output
func (p *plain) Close()             { _ = p.in.Close() }
