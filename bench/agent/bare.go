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

// runBare runs a turn of the agent as a plain process, with the same files,
// arguments and protocol.
func (b *bench) runBare(ctx context.Context, state string) (turnTimes, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return turnTimes{}, err
	}
	srv := &http.Server{Handler: b.model, ReadHeaderTimeout: time.Minute}
	go srv.Serve(l) //nolint:errcheck // it ends with Close
	defer srv.Close()
	site := agent.Environment{Dir: filepath.Join(b.dir, "work"), State: state, Model: "http://" + l.Addr().String(), Root: os.Getuid() == 0}
	if err := os.MkdirAll(site.Dir, 0o755); err != nil {
		return turnTimes{}, err
	}
	b.model.reset()
	turn, w := b.turn, firstTokenWatcher{}
	start := time.Now()
	plan, err := b.agent.Plan(&turn, site)
	if err != nil {
		return turnTimes{}, err
	}
	if err := writeFiles(plan.Files); err != nil {
		return turnTimes{}, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(b.program), plan.Args[0]), plan.Args[1:]...)
	cmd.Dir, cmd.Env = site.Dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + site.State}, plan.Env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return turnTimes{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return turnTimes{}, err
	}
	if err := cmd.Start(); err != nil {
		return turnTimes{}, err
	}
	x := &plainIO{in: in, see: w.handleEvent}
	x.Send(plan.Stdin)
	talk := b.agent.NewConversation(&turn, site)
	talk.Begin(x)
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			talk.HandleLine(x, line[:len(line)-1])
		}
		if talk.IsFinished() {
			x.Close()
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		return turnTimes{}, fmt.Errorf("%s: %w", plan.Args[0], err)
	}
	return turnTimes{time.Since(start), w.first.Sub(b.model.firstSent())}, nil
}

// runBareNew is runBare without state from earlier turns.
func (b *bench) runBareNew(ctx context.Context) (turnTimes, error) {
	state, err := os.MkdirTemp(b.dir, "state-")
	if err != nil {
		return turnTimes{}, err
	}
	defer os.RemoveAll(state)
	return b.runBare(ctx, state)
}

// plainIO connects the agent's protocol to the plain process.
type plainIO struct {
	in  io.WriteCloser
	see func(agent.Event)
}

func (p *plainIO) Emit(e agent.Event) { p.see(e) }
func (p *plainIO) Send(b []byte)      { _, _ = p.in.Write(b) } // if the process has exited, its output ends too
func (p *plainIO) Close()             { _ = p.in.Close() }
