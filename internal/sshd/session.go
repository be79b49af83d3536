package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/crypto/ssh"

	"github.com/atoll-sandbox/atoll"
)

const (
	mostEnv      = 64      // variables that a client sends
	mostEnvBytes = 8 << 10 // of each
	noCommand    = 125     // exit status of what could not be run
)

// session is one command, shell or subsystem of a client.
type session struct {
	s    *Server
	ch   ssh.Channel
	user string

	env     []string
	tty     *atoll.TTY
	resize  chan atoll.Size
	signals chan string
	runs    bool // it has been asked what to run
}

// session serves a session until its command ends or the client closes it.
func (s *Server) session(ctx context.Context, user string, n ssh.NewChannel) {
	ch, requests, err := n.Accept()
	if err != nil {
		return // the client is gone
	}
	defer ch.Close()
	if user == DefaultUser {
		user = ""
	}
	t := &session{s: s, ch: ch, user: user, resize: make(chan atoll.Size, 1), signals: make(chan string, 16)}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel() // the client has closed the channel, or is gone
	for r := range requests {
		ok := t.request(r, func(cmd atoll.Cmd) {
			wg.Go(func() { t.run(ctx, cmd) })
		})
		if r.WantReply {
			_ = r.Reply(ok, nil) // who is gone needs none
		}
	}
}

// request does what a client asks of its session, or reports that it does not.
func (t *session) request(r *ssh.Request, start func(atoll.Cmd)) bool {
	switch r.Type {
	case "pty-req":
		return t.terminal(r.Payload)
	case "env":
		return t.variable(r.Payload)
	case "window-change":
		var size struct{ Cols, Rows, Width, Height uint32 }
		if ssh.Unmarshal(r.Payload, &size) != nil || t.tty == nil {
			return false
		}
		select { // the newest counts
		case <-t.resize:
		default:
		}
		t.resize <- sizeOf(size.Cols, size.Rows) // only this goroutine fills it
		return true
	case "signal":
		var sig struct{ Name string }
		if ssh.Unmarshal(r.Payload, &sig) != nil || !t.s.Features.Signals {
			return false
		}
		select {
		case t.signals <- sig.Name:
			return true
		default:
			return false // more than a command can want
		}
	case "shell", "exec", "subsystem":
		cmd, ok := t.command(r)
		if !ok || t.runs {
			return false
		}
		t.runs = true
		// The reply goes out before anything of the command: requests are served in
		// this goroutine, and Reply follows at once.
		if r.WantReply {
			if r.Reply(true, nil) != nil {
				return false
			}
			r.WantReply = false
		}
		start(cmd)
		return true
	}
	return false // forwarding of agents and of X11, and all that is not known
}

func sizeOf(cols, rows uint32) atoll.Size {
	return atoll.Size{Rows: uint16(min(rows, atoll.MaxTerminalRows)), Cols: uint16(min(cols, atoll.MaxTerminalCols))}
}

// terminal notes that the command gets a terminal.
func (t *session) terminal(payload []byte) bool {
	var p struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}
	if ssh.Unmarshal(payload, &p) != nil || t.runs || !t.s.Features.TTY {
		return false
	}
	t.tty = &atoll.TTY{Size: sizeOf(p.Cols, p.Rows), Resize: t.resize}
	if p.Term != "" && len(p.Term) <= 64 && plain(p.Term) == p.Term {
		t.env = append(t.env, "TERM="+p.Term)
	}
	return true
}

// variable notes a variable of the command's environment.
func (t *session) variable(payload []byte) bool {
	var v struct{ Name, Value string }
	if ssh.Unmarshal(payload, &v) != nil || t.runs || len(t.env) >= mostEnv || len(v.Name)+len(v.Value) > mostEnvBytes ||
		v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.IndexByte(v.Value, 0) >= 0 {
		return false
	}
	t.env = append(t.env, v.Name+"="+v.Value)
	return true
}

// command is what a request asks to be run.
func (t *session) command(r *ssh.Request) (atoll.Cmd, bool) {
	cmd := atoll.Cmd{
		Env: t.env, User: t.user, TTY: t.tty, Timeout: -1,
		Stdin: t.ch, Stdout: t.ch, Stderr: t.ch.Stderr(),
	}
	if t.s.Features.Signals {
		cmd.Signals = t.signals
	}
	var text struct{ Text string }
	if r.Type != "shell" && ssh.Unmarshal(r.Payload, &text) != nil {
		return cmd, false
	}
	switch {
	case r.Type == "exec" && text.Text != "":
		cmd.Shell = text.Text
		return cmd, true
	case r.Type == "subsystem":
		cmd.TTY = nil
		return cmd, text.Text == "sftp" && t.s.Program != nil && t.s.Features.Programs // run finds the program
	}
	if cmd.Shell = t.s.Shell; cmd.Shell == "" {
		cmd.Shell = "exec sh"
	}
	return cmd, true
}

// run runs a command and tells the client how it ended.
func (t *session) run(ctx context.Context, cmd atoll.Cmd) {
	exit, err := atoll.Exit{}, error(nil)
	if cmd.Shell == "" {
		var program string
		if program, err = t.s.place(ctx); err == nil {
			cmd.Args = []string{program}
		}
	}
	if err == nil {
		exit, err = t.s.Sandbox.Exec(ctx, cmd)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		end := "\n"
		if cmd.TTY != nil {
			end = "\r\n"
		}
		_, _ = io.WriteString(t.ch.Stderr(), "atoll: "+plain(err.Error())+end) // who is gone reads nothing
		exit = atoll.Exit{Code: noCommand}
	}
	if t.ch.CloseWrite() == nil {
		t.tell(exit)
	}
	_ = t.ch.Close() // the client may have been faster
}

// tell says how a command ended.
func (t *session) tell(exit atoll.Exit) {
	if exit.Signal != "" {
		_, _ = t.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name       string
			Core       bool
			Text, Lang string
		}{Name: exit.Signal}))
		return
	}
	_, _ = t.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(exit.Code)}))
}

// plain makes text that may come from a sandbox safe for a terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, r) {
			return '·'
		}
		return r
	}, text)
}

var errSize = errors.New("it is not what was written")

// place brings the program that serves SFTP into the sandbox, once, and returns
// its path there. It is no secret, and may no more than the sandbox's other
// commands: who changes it inside deceives himself.
func (s *Server) place(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.placed != "" {
		return s.placed, nil
	}
	name, data, err := s.program()
	if err != nil {
		return "", err
	}
	info, err := atoll.Stat(ctx, s.Sandbox, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(data)) || info.Mode()&0o111 == 0 {
		if err := atoll.WriteFile(ctx, s.Sandbox, name, data, 0o755); err != nil {
			return "", fmt.Errorf("the program that serves files, %s: %w", name, err)
		}
		if info, err = atoll.Stat(ctx, s.Sandbox, name); err == nil && info.Size() != int64(len(data)) {
			err = errSize
		}
		if err != nil {
			return "", fmt.Errorf("the program that serves files, %s: %w", name, err)
		}
	}
	s.placed = name
	return name, nil
}
