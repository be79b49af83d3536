package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// StartProcess runs a command that goes on when nobody is attached, and returns
// at once. id names it; empty: the server does. Its output is kept, up to a
// bound; see Attach and Output. Without Stdin, what those who are attached write
// is its input.
func (s *Sandbox) StartProcess(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, error) {
	k := s.call("start", "", "/processes")
	var p atoll.Process
	if err := cmd.Check(); err != nil {
		return p, k.fail(err)
	}
	if cmd.Stdout != nil || cmd.Stderr != nil || cmd.Signals != nil {
		return p, k.fail(fmt.Errorf("%w: a detached command has no Stdout, Stderr and Signals: attach to it", atoll.ErrInvalid))
	}
	w := wire.CommandOf(&cmd)
	w.Process, w.Detach = id, true
	if cmd.Stdin != nil {
		b, err := io.ReadAll(io.LimitReader(cmd.Stdin, maxInline+1))
		if err == nil && len(b) > maxInline {
			err = fmt.Errorf("%w: a detached command takes %d bytes of Stdin: attach to it for more", atoll.ErrInvalid, maxInline)
		}
		if err != nil {
			return p, k.fail(err)
		}
		w.Stdin = b
		if len(b) == 0 {
			w.Stdin = []byte{}
		}
	}
	err := s.c.post(ctx, k, w, &p)
	return p, err
}

// Processes returns the commands under way and those that ended lately, oldest
// first.
func (s *Sandbox) Processes(ctx context.Context) ([]atoll.Process, error) {
	return list[atoll.Process](ctx, s.c, s.call("list processes", "", "/processes"))
}

// Process returns one command.
func (s *Sandbox) Process(ctx context.Context, id string) (atoll.Process, error) {
	var p atoll.Process
	err := s.c.get(ctx, s.call("process", "", "/processes/"+seg(id)), &p)
	return p, err
}

// Signal sends a signal to a process: "INT", "TERM", "KILL"… KILL ends the whole
// tree.
func (s *Sandbox) Signal(ctx context.Context, id, signal string) error {
	return s.c.post(ctx, s.call("signal", "", "/processes/"+seg(id)+"/signal"), wire.Signal{Signal: signal}, nil)
}

// Kill ends a process with its whole tree.
func (s *Sandbox) Kill(ctx context.Context, id string) error {
	return s.c.get(ctx, s.call("kill", http.MethodDelete, "/processes/"+seg(id)), nil)
}

// OutputStream names one of a process's two.
type OutputStream string

// The streams.
const (
	Stdout OutputStream = "stdout"
	Stderr OutputStream = "stderr"
)

// Output reads what a process has written to one of its streams, as far as it is
// kept.
func (s *Sandbox) Output(ctx context.Context, id string, stream OutputStream) (io.ReadCloser, error) {
	return s.output(ctx, id, url.Values{"stream": {string(stream)}})
}

// FollowOutput is Output that goes on until the process has ended.
func (s *Sandbox) FollowOutput(ctx context.Context, id string, stream OutputStream) (io.ReadCloser, error) {
	return s.output(ctx, id, url.Values{"stream": {string(stream)}, "follow": {"true"}})
}

func (s *Sandbox) output(ctx context.Context, id string, q url.Values) (io.ReadCloser, error) {
	k := s.call("output", "", "/processes/"+seg(id)+"/output")
	k.query = q
	return s.c.download(ctx, k)
}

// Attachment is how somebody is connected to a process.
type Attachment struct {
	// Offset is where in the output to begin, counted in bytes of both streams;
	// what is no longer kept is skipped. Negative: only what is new.
	Offset int64

	Stdin   io.Reader         // nil: none is written. Its end closes the process's.
	Stdout  io.Writer         // nil: forgotten
	Stderr  io.Writer         // nil: forgotten
	Resize  <-chan atoll.Size // nil: none
	Signals <-chan string     // nil: none
	Lost    func(bytes int64) // is told of output that is no longer kept; nil: nobody asks
}

// Attach connects to a process until it has ended, whose exit it returns, or ctx
// is done: then the process goes on. Any number may be attached; one that is too
// slow misses output.
func (s *Sandbox) Attach(ctx context.Context, id string, a Attachment) (atoll.Exit, error) {
	k := s.call("attach", "", "/processes/"+seg(id)+"/attach")
	if ctx.Err() != nil {
		return atoll.Exit{}, k.fail(ended(ctx))
	}
	k.query = window()
	k.query.Set("offset", strconv.FormatInt(a.Offset, 10))
	flag(k.query, "stdin", a.Stdin != nil)
	flag(k.query, "resize", a.Resize != nil)
	if a.Stdout == nil {
		a.Stdout = io.Discard
	}
	if a.Stderr == nil {
		a.Stderr = io.Discard
	}
	conn, err := s.c.upgrade(ctx, k, wire.ExecProtocol)
	if err != nil {
		return atoll.Exit{}, err
	}
	st := newStream(s.c, k, conn, atoll.Cmd{Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Signals: a.Signals})
	st.resize, st.lost, st.attached = a.Resize, a.Lost, true
	return st.run(ctx, nil)
}

// Detach starts a command that goes on by itself; see StartProcess.
func (s *Sandbox) Detach(ctx context.Context, cmd atoll.Cmd) (atoll.Process, error) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Signals = nil, nil, nil, nil
	return s.StartProcess(ctx, "", cmd)
}

// Reattach connects to a detached command; see Attach.
func (s *Sandbox) Reattach(ctx context.Context, id string, streams atoll.Cmd) (atoll.Exit, error) {
	a := Attachment{Stdin: streams.Stdin, Stdout: streams.Stdout, Stderr: streams.Stderr, Signals: streams.Signals}
	if streams.TTY != nil {
		a.Resize = streams.TTY.Resize
	}
	return s.Attach(ctx, id, a)
}

// Detached returns the detached commands, oldest first.
func (s *Sandbox) Detached(ctx context.Context) ([]atoll.Process, error) {
	list, err := s.Processes(ctx)
	return slices.DeleteFunc(list, func(p atoll.Process) bool { return !p.Detached }), err
}
