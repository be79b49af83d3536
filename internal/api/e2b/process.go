package e2b

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// The messages of the service process.Process.
type (
	processConfig struct {
		Cmd  string            `json:"cmd"`
		Args []string          `json:"args"`
		Envs map[string]string `json:"envs,omitempty"`
		Cwd  string            `json:"cwd,omitempty"`
	}
	ptySize struct {
		Size struct {
			Cols uint16 `json:"cols"`
			Rows uint16 `json:"rows"`
		} `json:"size"`
	}
	startRequest struct {
		Process processConfig `json:"process"`
		PTY     *ptySize      `json:"pty"`
		Tag     string        `json:"tag"`
		Stdin   *bool         `json:"stdin"` // nil: it is open, as in older SDKs
	}
	selector struct {
		PID int    `json:"pid"`
		Tag string `json:"tag"`
	}
	selectRequest struct {
		Process selector `json:"process"`
		PTY     *ptySize `json:"pty"`    // of Update
		Signal  string   `json:"signal"` // of SendSignal
		Input   struct {
			Stdin []byte `json:"stdin"`
			PTY   []byte `json:"pty"`
		} `json:"input"` // of SendInput
	}
	// inputMessage is a message of StreamInput.
	inputMessage struct {
		Start *struct {
			Process selector `json:"process"`
		} `json:"start"`
		Data *struct {
			Input struct {
				Stdin []byte `json:"stdin"`
				PTY   []byte `json:"pty"`
			} `json:"input"`
		} `json:"data"`
	}
	processInfo struct {
		Config processConfig `json:"config"`
		PID    int           `json:"pid"`
		Tag    string        `json:"tag,omitempty"`
	}
	processList struct {
		Processes []processInfo `json:"processes"`
	}
	empty struct{}
)

// processEvent returns a message of the stream of a process.
func processEvent(kind string, v any) any {
	return map[string]any{"event": map[string]any{kind: v}}
}

type endEvent struct {
	ExitCode int    `json:"exitCode"`
	Exited   bool   `json:"exited"`
	Status   string `json:"status"`
	Error    string `json:"error,omitempty"`
}

// registerProcesses registers the service process.Process.
func (s *Server) registerProcesses() {
	const name = "/process.Process/"
	add(s.data, "POST "+name+"Start", s.startProcess)
	add(s.data, "POST "+name+"Connect", s.connectProcess)
	add(s.data, "POST "+name+"StreamInput", s.streamInput)
	addUnary(s, name+"List", s.listProcesses)
	addUnary(s, name+"SendInput", s.sendInput)
	addUnary(s, name+"SendSignal", s.sendSignal)
	addUnary(s, name+"Update", s.updateProcess)
	addUnary(s, name+"CloseStdin", s.closeStdin)
}

// stream runs f with the response of a call whose answers are a stream, which begins with the first
// message of the client. An error of f ends the stream.
func streamOf[I any](s *Server, c *call, keepAlive any, f func(ctx context.Context, in *I, out *stream) error) error {
	if err := c.checkMedia(streamType); err != nil {
		return err
	}
	every := c.keepAliveInterval()
	var in I
	if err := c.readMessage(&in); err != nil {
		if errors.Is(err, io.EOF) {
			err = invalidError("the stream has no message")
		}
		return c.endStream(err)
	}
	out := c.newStream()
	ctx, cancel := context.WithCancelCause(c.r.Context())
	stop := context.AfterFunc(s.opts.Stopping, func() { cancel(errStopping) })
	var wg sync.WaitGroup
	if keepAlive != nil {
		wg.Go(func() { out.keepAlive(ctx, every, keepAlive) })
	}
	err := f(ctx, &in, out)
	if cause := context.Cause(ctx); errors.Is(cause, errStopping) {
		err = errStopping
	}
	stop()
	cancel(nil)
	wg.Wait()
	out.endWith(err)
	return nil
}

// errStopping ends streams when the server shuts down.
var errStopping = &Error{Status: http.StatusServiceUnavailable, Message: "the server is shutting down"}

// endStream answers with a stream that has only an error.
func (c *call) endStream(err error) error {
	c.newStream().endWith(err)
	return nil
}

// startProcess starts a command and answers with its output until it ends. The command goes on without
// its client, until its timeout.
func (s *Server) startProcess(c *call) error {
	return streamOf(s, c, processEvent("keepalive", empty{}), func(ctx context.Context, in *startRequest, out *stream) error {
		sb, err := s.openSandbox(c)
		if err != nil {
			return err
		}
		cmd, err := s.commandOf(ctx, c, sb, in)
		if err != nil {
			return err
		}
		w := processWriter{out: out, tty: cmd.TTY != nil}
		cmd.Stdout, cmd.Stderr = w.writerFor("stdout"), w.writerFor("stderr")
		out.mu.Lock() // the first message is the process id
		p, err := sb.StartAttached(ctx, in.Tag, *cmd)
		if err == nil {
			err = out.sendLocked(processEvent("start", map[string]int{"pid": p.Number()}))
		}
		out.mu.Unlock()
		if p == nil {
			return err
		}
		select {
		case <-p.Done():
			exit, err := p.Exit()
			return sendEnd(out, sb, exit, err)
		case <-ctx.Done():
			return nil
		}
	})
}

// sendEnd sends how a process has ended.
func sendEnd(out *stream, sb *fleet.Sandbox, exit atoll.Exit, err error) error {
	switch {
	case errors.Is(err, atoll.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return &Error{Status: http.StatusRequestTimeout, Message: "the command was ended at its timeout"}
	case err != nil && (errors.Is(err, atoll.ErrNotFound) || errors.Is(err, atoll.ErrState)):
		return DeadSandbox(sb.ID())
	case err != nil:
		return err
	}
	return out.send(processEvent("end", endOfProcess(exit)))
}

// endOfProcess describes the end of a process as its parent sees it: a signal gives no status.
func endOfProcess(exit atoll.Exit) endEvent {
	e := endEvent{ExitCode: exit.Code, Exited: true, Status: fmt.Sprintf("exit status %d", exit.Code)}
	if exit.Signal != "" {
		e = endEvent{ExitCode: -1, Status: "signal: " + signalText(exit.Signal)}
	}
	if e.ExitCode != 0 {
		e.Error = e.Status
	}
	return e
}

// signalText returns what is usually said of a signal.
func signalText(name string) string {
	if text := map[string]string{"KILL": "killed", "TERM": "terminated", "INT": "interrupt", "HUP": "hangup", "QUIT": "quit", "ABRT": "aborted", "SEGV": "segmentation fault", "PIPE": "broken pipe"}[name]; text != "" {
		return text
	}
	return strings.ToLower(name)
}

// maxChunk is the size of a piece of output in bytes. Decoders of clients are slow with large ones.
const maxChunk = 32 << 10

// processWriter makes messages of the output of a process.
type processWriter struct {
	out *stream
	tty bool
}

// writerFor returns the writer of one of its streams.
func (w processWriter) writerFor(name string) io.Writer {
	if w.tty {
		name = "pty"
	}
	return &outputWriter{w.out, name}
}

type outputWriter struct {
	out  *stream
	name string
}

// Write sends output.
func (w *outputWriter) Write(b []byte) (int, error) {
	n := 0
	for chunk := range slices.Chunk(b, maxChunk) {
		if err := w.out.send(processEvent("data", map[string]string{w.name: base64.StdEncoding.EncodeToString(chunk)})); err != nil {
			return n, err
		}
		n += len(chunk)
	}
	return n, nil
}

// commandOf returns the command that a client asks for.
func (s *Server) commandOf(ctx context.Context, c *call, sb *fleet.Sandbox, in *startRequest) (*atoll.Cmd, error) {
	if in.Process.Cmd == "" {
		return nil, invalidError("process.cmd: must not be empty")
	}
	timeout, err := c.readTimeout()
	if err != nil {
		return nil, err
	}
	user, err := c.readUser()
	if err != nil {
		return nil, err
	}
	cmd := &atoll.Cmd{Args: append([]string{in.Process.Cmd}, in.Process.Args...), User: user, Timeout: timeout}
	if timeout == 0 {
		cmd.Timeout = -1
	}
	if in.Process.Cwd != "" {
		cmd.Dir = absolutePath(in.Process.Cwd)
	}
	for _, k := range slices.Sorted(maps.Keys(in.Process.Envs)) {
		cmd.Env = append(cmd.Env, k+"="+in.Process.Envs[k])
	}
	if in.PTY != nil {
		cmd.TTY = &atoll.TTY{Size: atoll.Size{Rows: in.PTY.Size.Rows, Cols: in.PTY.Size.Cols}}
	} else if in.Stdin != nil && !*in.Stdin {
		cmd.Stdin = strings.NewReader("")
	}
	if cmd.Args[0] == "/bin/bash" {
		cmd.Args[0], err = s.shells.Find(ctx, sb)
		return cmd, err
	}
	return cmd, nil
}

// readUser returns the user that a request names; empty: the sandbox's, which E2B calls "user".
func (c *call) readUser() (string, error) {
	name, _, ok := c.r.BasicAuth()
	if !ok {
		name = c.r.URL.Query().Get("username")
	}
	if name == "user" {
		return "", nil
	}
	if strings.ContainsAny(name, "\x00\n:/") || len(name) > 64 {
		return "", invalidError("user %q: it can't be the name of a user", shortenText(name))
	}
	return name, nil
}

// absolutePath returns the absolute path of a file: paths are relative to the home of commands.
func absolutePath(name string) string {
	switch {
	case name == "~", name == "":
		name = home
	case strings.HasPrefix(name, "~/"):
		name = home + name[1:]
	case !strings.HasPrefix(name, "/"):
		name = home + "/" + name
	}
	return path.Clean(name)
}

// find returns the process that a request selects.
func (q selector) find(ctx context.Context, sb *fleet.Sandbox) (atoll.Process, error) {
	p, err := sb.ProcessByNumber(ctx, q.PID)
	if q.Tag != "" {
		p, err = sb.Process(ctx, q.Tag)
	}
	if errors.Is(err, atoll.ErrNotFound) {
		err = q.notFoundError()
	}
	return p, err
}

func (q selector) notFoundError() error {
	if q.Tag != "" {
		return &Error{Status: http.StatusNotFound, Message: "process with tag " + shortenText(q.Tag) + " not found"}
	}
	return &Error{Status: http.StatusNotFound, Message: fmt.Sprintf("process with pid %d not found", q.PID)}
}

// connectProcess answers with the output of a process from now on, preceded by what is kept of it, until
// it ends.
func (s *Server) connectProcess(c *call) error {
	return streamOf(s, c, processEvent("keepalive", empty{}), func(ctx context.Context, in *selectRequest, out *stream) error {
		sb, err := s.openSandbox(c)
		if err != nil {
			return err
		}
		p, err := in.Process.find(ctx, sb)
		if err != nil {
			return err
		}
		timeout, err := c.readTimeout()
		if err != nil {
			return err
		}
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		if err := out.send(processEvent("start", map[string]int{"pid": p.Number()})); err != nil {
			return err
		}
		w := processWriter{out: out, tty: p.TTY}
		exit, err := sb.Attach(ctx, p.ID, fleet.Attachment{Stdout: w.writerFor("stdout"), Stderr: w.writerFor("stderr")})
		if c.r.Context().Err() != nil {
			return nil
		}
		return sendEnd(out, sb, exit, err)
	})
}

// listProcesses lists the processes that run.
func (s *Server) listProcesses(c *call, _ *empty) (*processList, error) {
	sb, err := s.openSandbox(c)
	if err != nil {
		return nil, err
	}
	all, err := sb.Processes(c.r.Context())
	if err != nil {
		return nil, err
	}
	list := &processList{Processes: []processInfo{}}
	for i := range all {
		p := &all[i]
		if !p.Running {
			continue
		}
		info := processInfo{PID: p.Number(), Config: processConfig{Cmd: "/bin/sh", Args: []string{"-c", p.Command}}}
		if len(p.Args) > 0 {
			info.Config.Cmd, info.Config.Args = p.Args[0], p.Args[1:]
		}
		if !isGenerated(p.ID) {
			info.Tag = p.ID
		}
		list.Processes = append(list.Processes, info)
	}
	return list, nil
}

// isGenerated reports whether the fleet made the id of a process.
func isGenerated(id string) bool { return strings.HasPrefix(id, "p") && atoll.CheckID(id) == nil }

// withProcess calls f with the process that a request selects.
func (s *Server) withProcess(c *call, q selector, f func(ctx context.Context, sb *fleet.Sandbox, p *atoll.Process) error) (*empty, error) {
	sb, err := s.openSandbox(c)
	if err != nil {
		return nil, err
	}
	ctx := c.r.Context()
	p, err := q.find(ctx, sb)
	if err == nil && !p.Running {
		err = q.notFoundError()
	}
	if err != nil {
		return nil, err
	}
	if err := f(ctx, sb, &p); err != nil {
		if errors.Is(err, atoll.ErrNotFound) {
			return nil, q.notFoundError()
		}
		return nil, err
	}
	return &empty{}, nil
}

// sendInput writes to the standard input, or the terminal, of a process.
func (s *Server) sendInput(c *call, in *selectRequest) (*empty, error) {
	return s.withProcess(c, in.Process, func(ctx context.Context, sb *fleet.Sandbox, p *atoll.Process) error {
		return sb.WriteInput(ctx, p.ID, slices.Concat(in.Input.Stdin, in.Input.PTY))
	})
}

// closeStdin ends the standard input of a process.
func (s *Server) closeStdin(c *call, in *selectRequest) (*empty, error) {
	return s.withProcess(c, in.Process, func(ctx context.Context, sb *fleet.Sandbox, p *atoll.Process) error {
		if p.TTY {
			return invalidError("process %d has a terminal, whose input can't be closed: send Ctrl-D", p.Number())
		}
		return sb.CloseInput(ctx, p.ID)
	})
}

// updateProcess changes the size of the terminal of a process.
func (s *Server) updateProcess(c *call, in *selectRequest) (*empty, error) {
	return s.withProcess(c, in.Process, func(ctx context.Context, sb *fleet.Sandbox, p *atoll.Process) error {
		if in.PTY == nil {
			return nil
		}
		return sb.Resize(ctx, p.ID, atoll.Size{Rows: in.PTY.Size.Rows, Cols: in.PTY.Size.Cols})
	})
}

// signalNames are the signals that clients can send.
var signalNames = map[string]string{"SIGNAL_SIGTERM": "TERM", "SIGNAL_SIGKILL": "KILL"}

// sendSignal sends a signal to a process.
func (s *Server) sendSignal(c *call, in *selectRequest) (*empty, error) {
	name := signalNames[in.Signal]
	if name == "" {
		return nil, invalidError("signal %q: must be SIGNAL_SIGTERM or SIGNAL_SIGKILL", shortenText(in.Signal))
	}
	return s.withProcess(c, in.Process, func(ctx context.Context, sb *fleet.Sandbox, p *atoll.Process) error {
		err := sb.Signal(ctx, p.ID, name)
		if errors.Is(err, atoll.ErrState) {
			err = fmt.Errorf("%w: %w", atoll.ErrNotFound, err)
		}
		return err
	})
}

// streamInput writes a stream of the client to the standard input of a process.
func (s *Server) streamInput(c *call) error {
	return streamOf(s, c, nil, func(ctx context.Context, first *inputMessage, out *stream) error {
		if first.Start == nil {
			return invalidError("the first message must be start")
		}
		sb, err := s.openSandbox(c)
		if err != nil {
			return err
		}
		p, err := first.Start.Process.find(ctx, sb)
		if err != nil {
			return err
		}
		for {
			var in inputMessage
			err := c.readMessage(&in)
			if errors.Is(err, io.EOF) {
				return out.send(empty{})
			}
			if err != nil {
				return err
			}
			if in.Data == nil {
				continue // keepalive
			}
			if err := sb.WriteInput(ctx, p.ID, slices.Concat(in.Data.Input.Stdin, in.Data.Input.PTY)); err != nil {
				return err
			}
		}
	})
}
