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

// StartProcess starts a command that runs independently of its callers, and returns
// at once. id identifies it; empty: the server chooses an id. The server stores the output up to
// a limit; see Attach and Output. Without Stdin, the command reads the input of attached
// callers.
func (s *Sandbox) StartProcess(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, error) {
	k := s.newCall("start", "", "/processes")
	var p atoll.Process
	if err := cmd.Check(); err != nil {
		return p, k.wrapError(err)
	}
	if cmd.Stdout != nil || cmd.Stderr != nil || cmd.Signals != nil {
		return p, k.wrapError(fmt.Errorf("%w: a detached command has no Stdout, Stderr and Signals: attach to it", atoll.ErrInvalid))
	}
	w := wire.CommandOf(&cmd)
	w.Process, w.Detach = id, true
	if cmd.Stdin != nil {
		b, err := io.ReadAll(io.LimitReader(cmd.Stdin, maxInline+1))
		if err == nil && len(b) > maxInline {
			err = fmt.Errorf("%w: a detached command takes %d bytes of Stdin: attach to it for more", atoll.ErrInvalid, maxInline)
		}
		if err != nil {
			return p, k.wrapError(err)
		}
		w.Stdin = b
		if len(b) == 0 {
			w.Stdin = []byte{}
		}
	}
	err := s.c.postJSON(ctx, k, w, &p)
	return p, err
}

// Processes returns the running commands and those that exited recently, oldest
// first, without those of atoll itself.
func (s *Sandbox) Processes(ctx context.Context) ([]atoll.Process, error) {
	return getList[atoll.Process](ctx, s.c, s.newCall("list processes", "", "/processes"))
}

// AllProcesses returns what Processes returns, with the commands of atoll itself.
func (s *Sandbox) AllProcesses(ctx context.Context) ([]atoll.Process, error) {
	k := s.newCall("list processes", "", "/processes")
	k.query = url.Values{"internal": {"true"}}
	return getList[atoll.Process](ctx, s.c, k)
}

// Process returns one command.
func (s *Sandbox) Process(ctx context.Context, id string) (atoll.Process, error) {
	var p atoll.Process
	err := s.c.getJSON(ctx, s.newCall("process", "", "/processes/"+escapeSegment(id)), &p)
	return p, err
}

// Signal sends a signal to a process: "INT", "TERM", "KILL"… KILL ends its whole
// process tree.
func (s *Sandbox) Signal(ctx context.Context, id, signal string) error {
	return s.c.postJSON(ctx, s.newCall("signal", "", "/processes/"+escapeSegment(id)+"/signal"), wire.Signal{Signal: signal}, nil)
}

// Kill ends a process and its whole process tree.
func (s *Sandbox) Kill(ctx context.Context, id string) error {
	return s.c.getJSON(ctx, s.newCall("kill", http.MethodDelete, "/processes/"+escapeSegment(id)), nil)
}

// OutputStream names an output stream of a process.
type OutputStream string

// The streams.
const (
	Stdout OutputStream = "stdout"
	Stderr OutputStream = "stderr"
)

// Output opens the stored output of one stream of a process.
// Older output may have been dropped.
func (s *Sandbox) Output(ctx context.Context, id string, stream OutputStream) (io.ReadCloser, error) {
	return s.openOutput(ctx, id, url.Values{"stream": {string(stream)}})
}

// FollowOutput is like Output, but continues until the process has exited.
func (s *Sandbox) FollowOutput(ctx context.Context, id string, stream OutputStream) (io.ReadCloser, error) {
	return s.openOutput(ctx, id, url.Values{"stream": {string(stream)}, "follow": {"true"}})
}

func (s *Sandbox) openOutput(ctx context.Context, id string, q url.Values) (io.ReadCloser, error) {
	k := s.newCall("output", "", "/processes/"+escapeSegment(id)+"/output")
	k.query = q
	return s.c.startDownload(ctx, k)
}

// Attachment connects a caller to a process.
type Attachment struct {
	// Offset is the position in the output to start from, counted in bytes of both streams;
	// output that is no longer stored is skipped. Negative: only new output.
	Offset int64

	Stdin   io.Reader         // nil: no input. Its EOF closes the process's input.
	Stdout  io.Writer         // nil: discarded
	Stderr  io.Writer         // nil: discarded
	Resize  <-chan atoll.Size // nil: none
	Signals <-chan string     // nil: none
	OnLost  func(bytes int64) // is called for output that is no longer stored; nil: not reported
}

// Attach connects to a process until it exits, and returns its exit, or until ctx
// is done: then the process continues. Any number of callers may be attached; a slow
// one misses output.
func (s *Sandbox) Attach(ctx context.Context, id string, a Attachment) (atoll.Exit, error) {
	k := s.newCall("attach", "", "/processes/"+escapeSegment(id)+"/attach")
	if ctx.Err() != nil {
		return atoll.Exit{}, k.wrapError(contextError(ctx))
	}
	k.query = windowQuery()
	k.query.Set("offset", strconv.FormatInt(a.Offset, 10))
	setFlag(k.query, "stdin", a.Stdin != nil)
	setFlag(k.query, "resize", a.Resize != nil)
	if a.Stdout == nil {
		a.Stdout = io.Discard
	}
	if a.Stderr == nil {
		a.Stderr = io.Discard
	}
	conn, err := s.c.openWebSocket(ctx, k, wire.ExecProtocol)
	if err != nil {
		return atoll.Exit{}, err
	}
	st := newStream(s.c, k, conn, atoll.Cmd{Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Signals: a.Signals})
	st.resize, st.lost, st.attached = a.Resize, a.OnLost, true
	return st.runCommand(ctx, nil)
}

// Detach starts a command that runs independently of its caller; see StartProcess.
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
