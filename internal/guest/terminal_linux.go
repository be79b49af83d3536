package guest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest/vt"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// terminalOperations adds the handlers of terminals.
func (s *Server) terminalOperations(ops map[Op]handler) {
	s.terminals.Start = s.startTerminal
	set := &s.terminals
	about := func(f func(ctx context.Context, b *terminalBody) (any, error)) handler {
		return func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
			var b terminalBody
			err := q.DecodeBody(&b)
			var v any
			if err == nil {
				v, err = f(ctx, &b)
			}
			sendReply(st, v, err)
		}
	}
	ops[OpTerminalOpen] = func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
		var spec atoll.TerminalSpec
		err := q.DecodeBody(&spec)
		var t atoll.Terminal
		if err == nil {
			t, err = set.OpenTerminal(ctx, spec)
		}
		sendReply(st, t, err)
	}
	ops[OpTerminalList] = func(ctx context.Context, _ *host, st *yamux.Stream, _ *Request) {
		list, err := set.ListTerminals(ctx)
		sendReply(st, list, err)
	}
	ops[OpTerminalClose] = about(func(ctx context.Context, b *terminalBody) (any, error) { return nil, set.CloseTerminal(ctx, b.Name) })
	ops[OpTerminalRead] = about(func(ctx context.Context, b *terminalBody) (any, error) { return set.ReadTerminal(ctx, b.Name) })
	ops[OpTerminalSend] = about(func(ctx context.Context, b *terminalBody) (any, error) {
		return nil, set.SendTerminal(ctx, b.Name, b.Input)
	})
	ops[OpTerminalAttach] = s.attachTerminal
}

// startTerminal starts the command of a terminal.
func (s *Server) startTerminal(_ context.Context, spec *atoll.TerminalSpec, t *vt.Terminal) (vt.Program, error) {
	if len(spec.Args) == 0 {
		spec.Args = []string{s.findShell(spec.User)}
	}
	cmd := atoll.Cmd{
		Args: spec.Args, Dir: spec.Dir, User: spec.User, Env: append([]string{"COLORTERM=truecolor"}, spec.Env...),
		TTY: &atoll.TTY{Size: spec.Size},
	}
	c, err := s.startCommand(&cmd, true)
	var not *startFailure
	if errors.As(err, &not) {
		go func() {
			_, _ = t.Write([]byte(not.Text)) // never fails
			s.endTerminal(t, atoll.Exit{Code: not.Code}, 0)
		}()
		return noProgram{}, nil
	}
	if err != nil {
		return nil, err
	}
	go c.showOutput(t)
	return (*terminalProgram)(c), nil
}

// showOutput copies the command's output to the terminal until its end.
func (c *command) showOutput(t *vt.Terminal) {
	var pumps sync.WaitGroup
	pumps.Go(func() {
		_ = copyOutput(c.pty.File, func(b []byte) error { // writing to the terminal never fails
			c.s.markActive()
			_, err := t.Write(b[frameHeadSize:])
			return err
		})
	})
	end := c.waitForEnd()
	pumps.Wait()
	c.s.endTerminal(t, atoll.Exit{Code: end.Code, Signal: end.Signal}, c.pid)
	_ = c.in.SetWriteDeadline(time.Now()) // ends blocked input
	c.close()
}

// endTerminal records the end of a terminal's command and notifies hosts.
func (s *Server) endTerminal(t *vt.Terminal, exit atoll.Exit, pid int) {
	t.RecordExit(exit)
	info := t.Info()
	s.notifyHosts(atoll.Notice{Kind: atoll.NoticeProcessEnded, Process: info.Name, Command: info.Command, PID: pid, Code: exit.Code})
}

// terminalProgram is the command of a terminal as vt uses it.
type terminalProgram command

// Write types input.
func (c *terminalProgram) Write(b []byte) (int, error) {
	c.s.markActive()
	return c.in.Write(b)
}

// Resize sets the window size.
func (c *terminalProgram) Resize(size atoll.Size) { _ = c.pty.setSize(size) } // best effort

// Kill kills the command and its process tree.
func (c *terminalProgram) Kill() { go (*command)(c).kill() } // waitForEnd notices the end

// noProgram stands for a program that could not be started.
type noProgram struct{}

func (noProgram) Write(b []byte) (int, error) { return 0, os.ErrClosed }

func (noProgram) Resize(atoll.Size) {}

func (noProgram) Kill() {}

// findShell returns the login shell of a user, or the best interactive shell in the sandbox.
func (s *Server) findShell(user string) string {
	var list []string
	if who, err := s.lookupUser(user); err == nil && isUserShell(who.shell) {
		list = append(list, who.shell)
	}
	for _, sh := range append(list, "/bin/bash", s.Config.Shell) {
		if sh != "" && unix.Access(sh, unix.X_OK) == nil {
			return sh
		}
	}
	return "/bin/sh"
}

// isUserShell reports whether a shell in /etc/passwd was chosen for interactive use. "sh" is the
// default, and there may be a better one.
func isUserShell(shell string) bool {
	switch path.Base(shell) {
	case "nologin", "false", "true", "sync", "sh":
		return false
	}
	return path.IsAbs(shell)
}

// window is a host's window that is attached to a terminal.
type window struct {
	st      *yamux.Stream
	sending sync.Mutex // held while a frame is written
	stdin   *wire.Pipe
	sizes   chan atoll.Size
	cancel  context.CancelCauseFunc
	ctx     context.Context //nolint:containedctx // it ends with the channel

	mu      sync.Mutex
	changed sync.Cond
	unacked int  // guarded by mu; bytes that are not acknowledged
	closed  bool // guarded by mu
}

// attachTerminal handles OpTerminalAttach.
func (s *Server) attachTerminal(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	var b terminalBody
	err := q.DecodeBody(&b)
	if err == nil {
		_, err = s.terminals.ReadTerminal(ctx, b.Name)
	}
	sendAnswer(st, err)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &window{st: st, sizes: make(chan atoll.Size), ctx: ctx, cancel: cancel}
	w.changed.L = &w.mu
	w.stdin = wire.NewPipe(stdinWindow, func(n int) { _ = w.sendFrame(FrameAck, binary.BigEndian.AppendUint32(nil, uint32(n))) })
	stop := context.AfterFunc(ctx, w.markClosed)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(w.handleFrames)
	a := atoll.Attachment{Stdout: w, Size: b.Size, Resize: w.sizes, ReadOnly: b.ReadOnly, History: b.History}
	if !b.ReadOnly {
		a.Stdin = w.stdin
	}
	if b.Sized {
		a.OnResize = func(size atoll.Size) {
			p, _ := json.Marshal(size)      // can't fail
			_ = w.sendFrame(FrameResize, p) // handleFrames notices an error too
		}
	}
	exit, err := s.terminals.AttachTerminal(ctx, b.Name, a)
	if err == nil && !s.shuttingDown.Load() {
		p, _ := json.Marshal(CommandResult{Code: exit.Code, Signal: exit.Signal}) // can't fail
		_ = w.sendFrame(FrameExit, p)                                             // fails if the host has disconnected
		_ = st.Close()                                                            // likewise
	} else {
		_ = st.Reset() // the host knows the cause
	}
	w.stdin.CloseReader()
	w.cancel(nil)
	wg.Wait()
}

// markClosed ends blocked writes to this window.
func (w *window) markClosed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
}

// handleFrames handles the host's frames until the channel ends.
func (w *window) handleFrames() {
	defer w.cancel(context.Canceled)
	buf := make([]byte, 512)
	for {
		f, p, err := readFrame(w.st, &buf)
		if err != nil || !w.handleFrame(f, p) {
			return
		}
	}
}

// handleFrame handles one frame. It returns false if the host violates the protocol.
func (w *window) handleFrame(f Frame, p []byte) bool {
	switch f {
	case FrameStdin:
		if len(p) == 0 {
			w.stdin.CloseWriter(nil)
			return true
		}
		return w.stdin.TryWrite(p)
	case FrameResize:
		var size atoll.Size
		if json.Unmarshal(p, &size) != nil {
			return false
		}
		select {
		case w.sizes <- size:
		case <-w.ctx.Done():
		}
		return true
	case FrameAck:
		if len(p) != 4 {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		n := int(binary.BigEndian.Uint32(p))
		if n > w.unacked {
			return false
		}
		w.unacked -= n
		w.changed.Broadcast()
		return true
	}
	return false
}

// Write sends output to the host. It blocks while too much is unacknowledged.
func (w *window) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		w.mu.Lock()
		for w.unacked >= maxUnacked && !w.closed {
			w.changed.Wait()
		}
		n := min(len(p)-done, maxUnacked-w.unacked, maxFrame)
		w.unacked += n
		over := w.closed
		w.mu.Unlock()
		if over {
			return done, os.ErrClosed
		}
		if err := w.sendFrame(FrameStdout, p[done:done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

func (w *window) sendFrame(f Frame, p []byte) error {
	w.sending.Lock()
	defer w.sending.Unlock()
	return writeFrame(w.st, f, p)
}
