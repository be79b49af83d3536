package sshd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"

	"github.com/atoll-sandbox/atoll"
	"golang.org/x/crypto/ssh"
)

const (
	maxEnv      = 64      // variables that a client sends
	maxEnvBytes = 8 << 10 // of each
	exitNotRun  = 125     // exit status of a command that could not be run
)

// session is one command, shell or subsystem of a client.
type session struct {
	server *Server
	ch     ssh.Channel
	user   string

	env     []string
	tty     *atoll.TTY
	resize  chan atoll.Size
	signals chan string
	started bool // a command was requested
}

// serveSession serves a session until its command exits or the client closes it.
func (s *Server) serveSession(ctx context.Context, user string, n ssh.NewChannel) {
	ch, requests, err := n.Accept()
	if err != nil {
		return // the client has disconnected
	}
	defer ch.Close()
	if user == DefaultUser {
		user = ""
	}
	t := &session{server: s, ch: ch, user: user, resize: make(chan atoll.Size, 1), signals: make(chan string, 16)}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel() // the client has closed the channel or disconnected
	for r := range requests {
		ok := t.handleRequest(r, func(cmd atoll.Cmd) {
			wg.Go(func() { t.runCommand(ctx, cmd) })
		})
		if r.WantReply {
			_ = r.Reply(ok, nil) // the client may have disconnected
		}
	}
}

// handleRequest handles a request of the client and reports whether it was accepted.
func (t *session) handleRequest(r *ssh.Request, start func(atoll.Cmd)) bool {
	switch r.Type {
	case "pty-req":
		return t.setTerminal(r.Payload)
	case "env":
		return t.setVariable(r.Payload)
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
		if ssh.Unmarshal(r.Payload, &sig) != nil || !t.server.Features.Signals {
			return false
		}
		select {
		case t.signals <- sig.Name:
			return true
		default:
			return false // too many signals are pending
		}
	case "shell", "exec", "subsystem":
		cmd, ok := t.parseCommand(r)
		if !ok || t.started {
			return false
		}
		t.started = true
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
	return false // agent and X11 forwarding, and unknown requests
}

func sizeOf(cols, rows uint32) atoll.Size {
	return atoll.Size{Rows: uint16(min(rows, atoll.MaxTerminalRows)), Cols: uint16(min(cols, atoll.MaxTerminalCols))}
}

// setTerminal allocates a terminal for the command.
func (t *session) setTerminal(payload []byte) bool {
	var p struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}
	if ssh.Unmarshal(payload, &p) != nil || t.started || !t.server.Features.TTY {
		return false
	}
	t.tty = &atoll.TTY{Size: sizeOf(p.Cols, p.Rows), Resize: t.resize}
	if p.Term != "" && len(p.Term) <= 64 && sanitizeText(p.Term) == p.Term {
		t.env = append(t.env, "TERM="+p.Term)
	}
	return true
}

// setVariable sets an environment variable of the command.
func (t *session) setVariable(payload []byte) bool {
	var v struct{ Name, Value string }
	if ssh.Unmarshal(payload, &v) != nil || t.started || len(t.env) >= maxEnv || len(v.Name)+len(v.Value) > maxEnvBytes ||
		v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.IndexByte(v.Value, 0) >= 0 {
		return false
	}
	t.env = append(t.env, v.Name+"="+v.Value)
	return true
}

// parseCommand returns the command of a request.
func (t *session) parseCommand(r *ssh.Request) (atoll.Cmd, bool) {
	cmd := atoll.Cmd{
		Env: t.env, User: t.user, TTY: t.tty, Timeout: -1,
		Stdin: t.ch, Stdout: t.ch, Stderr: t.ch.Stderr(),
	}
	if t.server.Features.Signals {
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
		return cmd, text.Text == "sftp" && t.server.SFTPProgram != nil && t.server.Features.Programs // run finds the program
	}
	if cmd.Shell = t.server.Shell; cmd.Shell == "" {
		cmd.Shell = "exec sh"
	}
	return cmd, true
}

// runCommand runs a command and sends its exit to the client.
func (t *session) runCommand(ctx context.Context, cmd atoll.Cmd) {
	exit, err := atoll.Exit{}, error(nil)
	if cmd.Shell == "" {
		var program string
		if program, err = t.server.installSFTP(ctx); err == nil {
			cmd.Args = []string{program}
		}
	}
	if err == nil {
		exit, err = t.server.Sandbox.Exec(ctx, cmd)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		end := "\n"
		if cmd.TTY != nil {
			end = "\r\n"
		}
		_, _ = io.WriteString(t.ch.Stderr(), "atoll: "+sanitizeText(err.Error())+end) // the client may have disconnected
		exit = atoll.Exit{Code: exitNotRun}
	}
	if t.ch.CloseWrite() == nil {
		t.sendExit(exit)
	}
	_ = t.ch.Close() // the client may have been faster
}

// sendExit sends the exit of a command.
func (t *session) sendExit(exit atoll.Exit) {
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

// sanitizeText makes text from a sandbox safe for a terminal.
func sanitizeText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, r) {
			return '·'
		}
		return r
	}, text)
}

var errWrongSize = errors.New("its size differs from what was written")

// installSFTP copies the SFTP server into the sandbox, once, and returns
// its path. The file is not secret and has no more rights than the sandbox's other
// commands, so a changed copy affects only the sandbox.
func (s *Server) installSFTP(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sftpPath != "" {
		return s.sftpPath, nil
	}
	name, data, err := s.sftpProgram()
	if err != nil {
		return "", err
	}
	info, err := atoll.Stat(ctx, s.Sandbox, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(data)) || info.Mode()&0o111 == 0 {
		if err := atoll.WriteFile(ctx, s.Sandbox, name, data, 0o755); err != nil {
			return "", fmt.Errorf("install the SFTP server %s: %w", name, err)
		}
		if info, err = atoll.Stat(ctx, s.Sandbox, name); err == nil && info.Size() != int64(len(data)) {
			err = errWrongSize
		}
		if err != nil {
			return "", fmt.Errorf("install the SFTP server %s: %w", name, err)
		}
	}
	s.sftpPath = name
	return name, nil
}

// sftpProgram returns the contents of the SFTP server and its path in the sandbox, which
// contains a hash of the contents.
func (s *Server) sftpProgram() (name string, data []byte, err error) {
	file, err := s.SFTPProgram()
	if err != nil {
		return "", nil, err
	}
	if data, err = os.ReadFile(file); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(data)
	return "/tmp/.atoll/sftp-" + hex.EncodeToString(sum[:8]), data, nil
}
