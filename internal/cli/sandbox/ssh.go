package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/guest/sshd"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

func (a commands) sshCommand() *cobra.Command {
	var stdio, port bool
	var user string
	cmd := &cobra.Command{
		Use:   "ssh [flags] SANDBOX [-- COMMAND...]",
		Short: "Connect to a sandbox with SSH",
		Long: `Connect to a sandbox with the ssh program of this machine. No port is opened,
and the sandbox needs no SSH server: atoll is the server and runs commands as
'atoll exec' does. Its keys are created for this sandbox on this machine, and
'atoll rm' removes them.

After 'atoll config-ssh', 'ssh SANDBOX.atoll' does the same, and scp, sftp,
rsync, sshfs and editors work, too. ssh -L forwards ports of the sandbox; ports
and the SSH agent of this machine cannot be forwarded into it.

With --port, listen on a free port of the loopback address until Ctrl-C, for
programs that need a port; they need the printed key.`,
		Example: `  atoll ssh box
  atoll ssh box -- make test
  atoll ssh --json --port box`,
		Args:              app.CheckArgCount(1, -1, "a sandbox, and perhaps a command"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			command := args[1:]
			if len(command) > 0 && command[0] == "--" {
				command = command[1:]
			}
			if stdio && port || (stdio || port) && len(command) > 0 {
				return fmt.Errorf("%w: --stdio, --port and a command: give one of them", atoll.ErrInvalid)
			}
			b, err := a.openSSH(cmd.Context(), args[0], stdio)
			switch {
			case err != nil:
				return err
			case stdio:
				return b.server.Serve(cmd.Context(), newStdio(a.In, a.Out))
			case port:
				return a.sshPort(cmd.Context(), b, user)
			}
			return a.sshInto(cmd, b, user, command)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&stdio, "stdio", false, "be the server, on standard input and output: what ssh calls as its ProxyCommand")
	cmd.Flags().BoolVar(&port, "port", false, "be the server, on a free port of 127.0.0.1, until Ctrl-C")
	cmd.Flags().StringVarP(&user, "user", "u", sshd.DefaultUser, "`USER` inside; "+sshd.DefaultUser+" is the sandbox's own")
	return cmd
}

// sshTarget is a sandbox that SSH can reach.
type sshTarget struct {
	host   string // as ssh calls it: NAME.atoll
	id     string
	keys   sshd.Identity
	server *sshd.Server
}

// openSSH finds a sandbox, and makes or finds its keys. With whole, the name must be its whole name or id: the beginning of one
// would reach another sandbox once the one with that name is removed.
func (a commands) openSSH(ctx context.Context, name string, whole bool) (*sshTarget, error) {
	given := strings.TrimSuffix(name, sshd.Domain)
	sb, err := a.OpenSandbox(ctx, given)
	if err != nil {
		return nil, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	name = output.SandboxName(info.Status)
	if whole && given != name && given != info.ID {
		return nil, &atoll.Error{Op: "ssh", ID: given, Err: fmt.Errorf("%w: %s begins with it, and ssh needs the whole name", atoll.ErrNotFound, name)}
	}
	if info.State != atoll.Running {
		return nil, &atoll.Error{Op: "ssh", ID: output.SandboxName(info.Status), Err: fmt.Errorf("%w: it is %s; 'atoll start' or 'atoll resume' it first", atoll.ErrState, info.State)}
	}
	if err := a.CheckHome(); err != nil {
		return nil, err
	}
	keys, err := a.SSHKeys().Ensure(name, info.ID)
	if err != nil {
		return nil, err
	}
	return &sshTarget{
		host: name + sshd.Domain, id: info.ID, keys: keys,
		server: &sshd.Server{
			Sandbox: sb, Features: info.Features, Host: keys.Host, Client: keys.Client, Shell: realShell,
			SFTPProgram: func() (string, error) { return helper.Finder{}.Find("atoll-sftp") },
		},
	}, nil
}

// sshInto runs ssh, which calls atoll for its connection.
func (a commands) sshInto(c *cobra.Command, b *sshTarget, user string, command []string) error {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return fmt.Errorf("%w: there is no ssh on this machine: install OpenSSH's client, or say 'atoll exec -it %s -- sh'", atoll.ErrUnavailable, strings.TrimSuffix(b.host, sshd.Domain))
	}
	proxy, err := a.proxyCommand(c, b.host)
	if err != nil {
		return err
	}
	args := []string{"-o", "ProxyCommand=" + proxy}
	for _, o := range b.sshArguments() {
		args = append(args, "-o", o)
	}
	args = append(args, "-l", user, "--", b.host)
	args = append(args, command...)
	cmd := exec.CommandContext(c.Context(), program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Out, a.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it puts the terminal right
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case c.Context().Err() != nil:
		return context.Cause(c.Context())
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exitcode.Silent(exit.ExitCode())
	case errors.As(err, &exit):
		return exitcode.Silent(exitcode.Failed)
	}
	return err
}

// sshArguments returns the ssh configuration for a sandbox as lines.
func (b *sshTarget) sshArguments() []string {
	return append([]string{
		"IdentityFile=" + sshWord(b.keys.KeyFile),
		"UserKnownHostsFile=" + sshWord(b.keys.KnownHosts),
	}, sshOptions...)
}

// sshOptions are those that are the same for all sandboxes: only the key that is
// meant, only the server that is meant, and nothing of this machine goes inside.
var sshOptions = []string{
	"IdentitiesOnly=yes",
	"IdentityAgent=none",
	"CertificateFile=none",
	"PreferredAuthentications=publickey",
	"GlobalKnownHostsFile=/dev/null",
	"StrictHostKeyChecking=yes",
	"UpdateHostKeys=no",
	"CheckHostIP=no",
	"ForwardAgent=no",
	"ForwardX11=no",
}

// sshWord writes a path as ssh's configuration takes one.
func sshWord(path string) string { return `"` + strings.ReplaceAll(path, "%", "%%") + `"` }

// proxyCommand is the command with which ssh reaches a sandbox, by the way that
// this call goes; "%h" is any of them.
func (a commands) proxyCommand(c *cobra.Command, name string) (string, error) {
	self, err := helper.Executable()
	if err != nil {
		return "", err
	}
	args := []string{self}
	for _, flag := range []string{"home", "host", "context"} { // $ATOLL_HOME and others are there for ssh, too
		if f := c.Flags().Lookup(flag); f != nil && f.Changed {
			args = append(args, "--"+flag, f.Value.String())
		}
	}
	for i, arg := range args {
		args[i] = strings.ReplaceAll(shellWord(arg), "%", "%%")
	}
	return strings.Join(append(args, "ssh", "--stdio", name), " "), nil
}

// shellWord writes a text as one word of the shell.
func shellWord(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:@,=%") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// sshPlace is where a listening server is, and how one gets in.
type sshPlace struct {
	Sandbox    string   `json:"sandbox"`
	Host       string   `json:"host"`
	Port       int      `json:"port"`
	User       string   `json:"user"`
	KeyFile    string   `json:"identity_file"`
	KnownHosts string   `json:"known_hosts"`
	Command    []string `json:"command"`
}

// sshPort serves on a port of the loopback until ctx is done.
func (a commands) sshPort(ctx context.Context, b *sshTarget, user string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })() // it ends Accept
	defer l.Close()
	place := sshPlace{
		Sandbox: b.id, Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, User: user, KeyFile: b.keys.KeyFile, KnownHosts: b.keys.KnownHosts,
	}
	place.Command = []string{"ssh", "-p", strconv.Itoa(place.Port)}
	for _, o := range b.sshArguments() {
		place.Command = append(place.Command, "-o", o)
	}
	place.Command = append(place.Command, user+"@"+place.Host)
	if err := a.tellPort(place); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		wg.Go(func() {
			if err := b.server.Serve(ctx, c); err != nil {
				a.Progress("atoll: %s: %v", c.RemoteAddr(), err)
			}
		})
	}
}

func (a commands) tellPort(p sshPlace) error {
	if a.JSON {
		return a.PrintJSONLine(p)
	}
	words := make([]string, len(p.Command))
	for i, w := range p.Command {
		words[i] = shellWord(w)
	}
	a.Progress("atoll: SSH to %s on port %d, until Ctrl-C:", p.Sandbox, p.Port)
	_, err := fmt.Fprintln(a.Out, strings.Join(words, " "))
	return err
}

// stdio is standard input and output as a connection.
type stdio struct {
	io.Reader
	io.Writer
	close func() error
}

// newStdio returns a connection that reads from in and writes to out. Close interrupts a
// waiting read where that is possible.
func newStdio(in io.Reader, out io.Writer) net.Conn {
	return &stdio{Reader: in, Writer: out, close: sync.OnceValue(func() error {
		var errs []error
		for _, s := range []any{in, out} {
			if c, ok := s.(io.Closer); ok {
				errs = append(errs, c.Close())
			}
		}
		return errors.Join(errs...)
	})}
}

func (s *stdio) Close() error { return s.close() }

func (*stdio) LocalAddr() net.Addr { return &net.UnixAddr{Name: "stdio", Net: "unix"} }

func (*stdio) RemoteAddr() net.Addr { return &net.UnixAddr{Name: "stdio", Net: "unix"} }

func (*stdio) SetDeadline(time.Time) error { return os.ErrNoDeadline }

func (*stdio) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

func (*stdio) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
