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
	"github.com/atoll-sandbox/atoll/internal/vt"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// terminalOperations adds what is done with terminals.
func (s *Server) terminalOperations(ops map[Op]handler) {
	s.terminals.Start = s.startTerminal
	set := &s.terminals
	about := func(f func(ctx context.Context, b *terminalBody) (any, error)) handler {
		return func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
			var b terminalBody
			err := q.Into(&b)
			var v any
			if err == nil {
				v, err = f(ctx, &b)
			}
			reply(st, v, err)
		}
	}
	ops[OpTerminalOpen] = func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
		var spec atoll.TerminalSpec
		err := q.Into(&spec)
		var t atoll.Terminal
		if err == nil {
			t, err = set.OpenTerminal(ctx, spec)
		}
		reply(st, t, err)
	}
	ops[OpTerminalList] = func(ctx context.Context, _ *host, st *yamux.Stream, _ *Request) {
		list, err := set.ListTerminals(ctx)
		reply(st, list, err)
	}
	ops[OpTerminalClose] = about(func(ctx context.Context, b *terminalBody) (any, error) { return nil, set.CloseTerminal(ctx, b.Name) })
	ops[OpTerminalRead] = about(func(ctx context.Context, b *terminalBody) (any, error) { return set.ReadTerminal(ctx, b.Name) })
	ops[OpTerminalSend] = about(func(ctx context.Context, b *terminalBody) (any, error) {
		return nil, set.SendTerminal(ctx, b.Name, b.Input)
	})
	ops[OpTerminalAttach] = s.attachTerminal
}

// startTerminal starts a command on a terminal.
func (s *Server) startTerminal(_ context.Context, spec *atoll.TerminalSpec, t *vt.Shared) (vt.Program, error) {
	if len(spec.Args) == 0 {
		spec.Args = []string{s.shellOf(spec.User)}
	}
	cmd := atoll.Cmd{
		Args: spec.Args, Dir: spec.Dir, User: spec.User, Env: append([]string{"COLORTERM=truecolor"}, spec.Env...),
		TTY: &atoll.TTY{Size: spec.Size},
	}
	c, err := s.run(&cmd, true)
	var not *notStarted
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
	go c.show(t)
	return (*onTerminal)(c), nil
}

// show shows what a command writes, until its end.
func (c *command) show(t *vt.Shared) {
	var pumps sync.WaitGroup
	pumps.Go(func() {
		_ = pump(c.pty.File, func(b []byte) error { // a model takes everything
			c.s.touch()
			_, err := t.Write(b[frameSize:])
			return err
		})
	})
	end := c.await()
	pumps.Wait()
	c.s.endTerminal(t, atoll.Exit{Code: end.Code, Signal: end.Signal}, c.pid)
	_ = c.in.SetWriteDeadline(time.Now()) // so that nobody waits to type
	c.close()
}

// endTerminal says how the program of a terminal has ended.
func (s *Server) endTerminal(t *vt.Shared, exit atoll.Exit, pid int) {
	t.End(exit)
	info := t.Info()
	s.notify(atoll.Notice{Kind: atoll.NoticeProcessEnded, Process: info.Name, Command: info.Command, PID: pid, Code: exit.Code})
}

// onTerminal is a command that a terminal types for.
type onTerminal command

// Write types.
func (c *onTerminal) Write(b []byte) (int, error) {
	c.s.touch()
	return c.in.Write(b)
}

// Resize tells a size.
func (c *onTerminal) Resize(size atoll.Size) { _ = c.pty.resize(size) } // a wish

// Kill ends the command with its tree.
func (c *onTerminal) Kill() { go (*command)(c).kill() } // others hear of its end

// noProgram stands for a program that is not there.
type noProgram struct{}

func (noProgram) Write(b []byte) (int, error) { return 0, os.ErrClosed }

func (noProgram) Resize(atoll.Size) {}

func (noProgram) Kill() {}

// shellOf returns the shell of a user that is made for people.
func (s *Server) shellOf(user string) string {
	var list []string
	if who, err := s.account(user); err == nil && chosen(who.shell) {
		list = append(list, who.shell)
	}
	for _, sh := range append(list, "/bin/bash", s.Config.Shell) {
		if sh != "" && unix.Access(sh, unix.X_OK) == nil {
			return sh
		}
	}
	return "/bin/sh"
}

// chosen reports whether a shell of /etc/passwd is one that somebody has chosen for
// people: "sh" is the system's, and better ones may be there.
func chosen(shell string) bool {
	switch path.Base(shell) {
	case "nologin", "false", "true", "sync", "sh":
		return false
	}
	return path.IsAbs(shell)
}

// window is a host's window before a terminal.
type window struct {
	st      *yamux.Stream
	sending sync.Mutex // held while a frame is written
	stdin   *wire.Pipe
	sizes   chan atoll.Size
	cancel  context.CancelCauseFunc
	ctx     context.Context //nolint:containedctx // of the channel

	mu    sync.Mutex
	room  sync.Cond
	under int  // guarded by mu; bytes that are not acknowledged
	over  bool // guarded by mu
}

// attachTerminal shows a terminal to a host.
func (s *Server) attachTerminal(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	var b terminalBody
	err := q.Into(&b)
	if err == nil {
		_, err = s.terminals.ReadTerminal(ctx, b.Name)
	}
	answer(st, err)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &window{st: st, sizes: make(chan atoll.Size), ctx: ctx, cancel: cancel}
	w.room.L = &w.mu
	w.stdin = wire.NewPipe(stdinWindow, func(n int) { _ = w.send(FrameAck, binary.BigEndian.AppendUint32(nil, uint32(n))) })
	stop := context.AfterFunc(ctx, w.end)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(w.listen)
	a := atoll.Attachment{Stdout: w, Size: b.Size, Resize: w.sizes, ReadOnly: b.ReadOnly, History: b.History}
	if !b.ReadOnly {
		a.Stdin = w.stdin
	}
	if b.Sized {
		a.Sized = func(size atoll.Size) {
			p, _ := json.Marshal(size) // can't fail
			_ = w.send(FrameResize, p) // listen says why
		}
	}
	exit, err := s.terminals.AttachTerminal(ctx, b.Name, a)
	if err == nil && !s.quitting.Load() {
		p, _ := json.Marshal(End{Code: exit.Code, Signal: exit.Signal}) // can't fail
		_ = w.send(FrameExit, p)                                        // a host that is gone needs none
		_ = st.Close()                                                  // likewise
	} else {
		_ = st.Reset() // the host knows why
	}
	w.stdin.Stop()
	w.cancel(nil)
	wg.Wait()
}

// end lets nobody wait for this window any more.
func (w *window) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.room.Broadcast()
}

// listen takes the host's frames until the channel ends.
func (w *window) listen() {
	defer w.cancel(context.Canceled)
	buf := make([]byte, 512)
	for {
		f, p, err := readFrame(w.st, &buf)
		if err != nil || !w.take(f, p) {
			return
		}
	}
}

// take does what a frame says; false: the host breaks the protocol.
func (w *window) take(f Frame, p []byte) bool {
	switch f {
	case FrameStdin:
		if len(p) == 0 {
			w.stdin.End(nil)
			return true
		}
		return w.stdin.Offer(p)
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
		if n > w.under {
			return false
		}
		w.under -= n
		w.room.Broadcast()
		return true
	}
	return false
}

// Write shows something, when there is room for it.
func (w *window) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		w.mu.Lock()
		for w.under >= showWindow && !w.over {
			w.room.Wait()
		}
		n := min(len(p)-done, showWindow-w.under, maxFrame)
		w.under += n
		over := w.over
		w.mu.Unlock()
		if over {
			return done, os.ErrClosed
		}
		if err := w.send(FrameStdout, p[done:done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

func (w *window) send(f Frame, p []byte) error {
	w.sending.Lock()
	defer w.sending.Unlock()
	return writeFrame(w.st, f, p)
}
