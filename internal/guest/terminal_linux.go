package guest

import (
	"context"
	"errors"
	"os"
	"path"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest/vt"
)

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
