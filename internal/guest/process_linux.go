package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// process is a started command with its process tree.
type process struct {
	s    *Server
	pid  int
	tree tree

	ended  chan struct{}      // closed when the command's first process has ended
	status syscall.WaitStatus // valid after that

	mu   sync.RWMutex // held for reading while tree is used
	done bool         // guarded by mu; the tree may be in use by another command
}

// startFailure reports a program that is missing or not executable. It becomes output of the
// command.
type startFailure struct {
	Code int // 126 or 127
	Text string
}

// Error returns the message that a shell would print.
func (e *startFailure) Error() string { return e.Text }

// start starts a command in isolation, in a new session. files are its descriptors 0 to 2; the
// caller keeps its copies. With terminal, the first becomes the controlling terminal. The error is
// a *startFailure if the program can't be executed.
func (s *Server) start(cmd *atoll.Cmd, files []int, terminal bool) (*process, error) {
	s.init()
	who, err := s.lookupUser(cmd.User)
	if err != nil {
		return nil, err
	}
	if terminal && s.Config.CanSwitchUser {
		if err := unix.Fchown(files[0], who.uid, who.gid); err != nil {
			return nil, err
		}
	}
	tree, err := s.newTree()
	if err != nil {
		return nil, err
	}
	c, text, err := s.prepareChild(cmd, who, tree, terminal)
	if err != nil {
		tree.releaseTree()
		return nil, err
	}
	c.files = append(c.files, files...)
	if text != nil {
		defer text.Close()
		c.files = append(c.files, int(text.Fd()))
	}
	p := &process{s: s, tree: tree, ended: make(chan struct{})}
	done, err := s.launcher.start(&s.Config, s.reaper, c, p)
	if err == nil {
		err = done.startError(cmd)
	}
	if err != nil {
		if done != nil && done.pid > 0 {
			<-p.ended
		}
		tree.releaseTree()
		return nil, err
	}
	return p, nil
}

// startError returns the error of a child that did not become the program; nil if it did.
func (l *launch) startError(cmd *atoll.Cmd) error {
	name := "sh"
	if len(cmd.Args) > 0 {
		name = cmd.Args[0]
	}
	switch {
	case errors.Is(l.errno, unix.EAGAIN), errors.Is(l.errno, unix.ENOMEM):
		return fmt.Errorf("%w: the sandbox has reached its limit of processes or memory: %w", atoll.ErrQuota, l.errno)
	case l.errno != 0:
		return fmt.Errorf("fork: %w", l.errno)
	case l.cause == 0:
		return nil
	case l.step == stepExec && (l.cause == unix.E2BIG || l.cause == unix.ENAMETOOLONG):
		return fmt.Errorf("%w: the arguments and the environment are too long for a program: the limit is 128 KiB for one", atoll.ErrInvalid)
	case l.step == stepExec && l.cause == unix.ENOENT:
		return &startFailure{127, name + ": not found\n"}
	case l.step == stepExec && (l.cause == unix.ENOMEM || l.cause == unix.EAGAIN):
		return fmt.Errorf("%w: %s: %w", atoll.ErrQuota, name, l.cause)
	case l.step == stepExec:
		return &startFailure{126, name + ": " + l.cause.Error() + "\n"}
	case l.step == stepDir:
		return &os.PathError{Op: "chdir", Path: cmd.Dir, Err: l.cause}
	case l.step == stepUser:
		return fmt.Errorf("%w: becoming user %q: %w", atoll.ErrUnsupported, cmd.User, l.cause)
	default:
		return fmt.Errorf("starting %s (%d): %w", name, l.step, l.cause)
	}
}

// defaultPath is the search path for programs.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// maxArgBytes is Linux's limit for one argument (MAX_ARG_STRLEN).
const maxArgBytes = 128 << 10

// prepareChild computes everything that the child needs before its exec. Shell text that is too
// long for an argument is passed in a file, which is the child's descriptor 3.
func (s *Server) prepareChild(cmd *atoll.Cmd, who userInfo, t tree, terminal bool) (c *child, text *os.File, err error) {
	shell := s.Config.Shell
	if shell == "" {
		shell = "/bin/sh"
	}
	args := cmd.Args
	if cmd.Shell != "" {
		args = []string{shell, "-c", cmd.Shell}
		if len(cmd.Shell) >= maxArgBytes {
			if text, err = newTextFile(cmd.Shell); err != nil {
				return nil, nil, err
			}
			args[2] = ". /proc/self/fd/3"
		}
	}
	dir := cmd.Dir
	if dir == "" {
		dir = "/"
	}
	env := s.buildEnv(cmd, who, t, dir, terminal)
	c = &child{terminal: terminal, cgroup: t.cgroupFD(), nofile: s.nofile, nproc: s.nproc, oom: []byte("300")}
	if s.Config.CanSwitchUser {
		c.switches, c.uid, c.gid = true, uintptr(who.uid), uintptr(who.gid)
		c.groups = t.addGroups(who.groups)
	}
	for _, p := range listProgramPaths(args[0], env) {
		if c.paths, err = appendCString(c.paths, p); err != nil {
			return nil, nil, err
		}
	}
	err = errors.Join(appendCStrings(&c.argv, args...), appendCStrings(&c.envv, env...), appendCStrings(&c.script, append([]string{"/bin/sh", ""}, args[1:]...)...))
	if err == nil {
		c.dir, err = syscall.BytePtrFromString(dir)
	}
	if err != nil && text != nil {
		_ = text.Close() // the error says more
	}
	return c, text, err
}

// appendCStrings fills list with C strings and a final nil, as the kernel expects it.
func appendCStrings(list *[]*byte, of ...string) error {
	*list = make([]*byte, 0, len(of)+1)
	for _, s := range of {
		var err error
		if *list, err = appendCString(*list, s); err != nil {
			return err
		}
	}
	*list = append(*list, nil)
	return nil
}

func appendCString(list []*byte, s string) ([]*byte, error) {
	p, err := syscall.BytePtrFromString(s)
	if err != nil {
		return nil, fmt.Errorf("%w: text with a NUL byte", atoll.ErrInvalid)
	}
	return append(list, p), nil
}

// listProgramPaths returns the paths where a program may be, by PATH of the command's environment.
func listProgramPaths(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	path := defaultPath
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	var list []string
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		list = append(list, dir+"/"+name)
	}
	return list
}

// buildEnv returns the environment of a command. Each variable appears once.
func (s *Server) buildEnv(cmd *atoll.Cmd, who userInfo, t tree, dir string, terminal bool) []string {
	home, shell, name := who.home, who.shell, who.name
	if home == "" {
		home = "/"
	}
	if shell == "" {
		shell = "/bin/sh"
	}
	if name == "" {
		name = strconv.Itoa(who.uid)
	}
	env := make([]string, 0, 8+len(s.Config.Env)+len(cmd.Env))
	env = append(env, "HOME="+home, "USER="+name, "LOGNAME="+name, "SHELL="+shell, "PATH="+defaultPath, "PWD="+dir)
	if terminal {
		env = append(env, "TERM=xterm-256color")
	}
	env = append(append(env, s.Config.Env...), cmd.Env...)
	if m := t.envVar(); m != "" {
		env = append(env, m)
	}
	at := make(map[string]int, len(env))
	list := env[:0]
	for _, e := range env {
		k, _, _ := strings.Cut(e, "=")
		if i, ok := at[k]; ok {
			list[i] = e
			continue
		}
		at[k] = len(list)
		list = append(list, e)
	}
	return list
}

// newTextFile returns an anonymous file with the text that programs of every user can read.
func newTextFile(text string) (*os.File, error) {
	low, err := unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	const above = 10 // smallest descriptor number, above those of the child
	fd, err := unix.FcntlInt(uintptr(low), unix.F_DUPFD_CLOEXEC, above)
	_ = unix.Close(low) // not written to
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "command")
	if err = f.Chmod(0o444); err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		_ = f.Close() // the first error counts
		return nil, err
	}
	return f, nil
}

// buildEnd returns the result of the command, which must have ended.
func (p *process) buildEnd() CommandResult { return endFromStatus(p.status) }

func endFromStatus(ws syscall.WaitStatus) CommandResult {
	if ws.Signaled() {
		return CommandResult{Code: 128 + int(ws.Signal()), Signal: signalName(ws.Signal())}
	}
	return CommandResult{Code: ws.ExitStatus()}
}

// kill kills the command and its process tree, unless the tree was released already.
func (p *process) kill() {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.done {
		p.tree.kill(p)
	}
}

// killRemaining kills the processes that an ended command has left, and releases its tree.
func (p *process) killRemaining() {
	p.kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done {
		p.done = true
		p.tree.releaseTree()
	}
}

// sendSignal sends a signal by name. Signals that a terminal's keys can send go to the whole
// process group, others only to the command's first process. KILL kills the tree. Unknown names
// are ignored.
func (p *process) sendSignal(name string) {
	sig, ok := parseSignal(name)
	switch {
	case !ok:
	case sig == unix.SIGKILL:
		p.kill()
	default:
		p.s.reaper.kill(p, isTerminalSignal(sig), sig)
	}
}

func isTerminalSignal(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGSTOP, unix.SIGCONT, unix.SIGHUP, unix.SIGWINCH:
		return true
	}
	return false
}

// parseSignal parses a name such as "TERM" or "SIGTERM".
func parseSignal(name string) (syscall.Signal, bool) {
	if !bytes.HasPrefix([]byte(name), []byte("SIG")) {
		name = "SIG" + name
	}
	sig := unix.SignalNum(name)
	return sig, sig != 0
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(int(sig))
}
