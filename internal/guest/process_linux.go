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

// process is a command that was started, with all that it starts.
type process struct {
	s    *Server
	pid  int
	tree tree

	ended  chan struct{}      // closed when the command itself has ended
	status syscall.WaitStatus // since then

	mu   sync.RWMutex // held for reading while tree is used
	done bool         // guarded by mu; tree may be another's
}

// notStarted is why there is no process, for the command's own output: the
// program is missing, or is none.
type notStarted struct {
	Code int // 126 or 127
	Text string
}

// Error returns what a shell says.
func (e *notStarted) Error() string { return e.Text }

// start starts a command behind the walls, in a session of its own. files are
// its descriptors 0 to 2, and stay the caller's; with terminal, the first is
// its controlling terminal. The error is a *notStarted when the program can't
// be executed.
func (s *Server) start(cmd *atoll.Cmd, files []int, terminal bool) (*process, error) {
	s.begin()
	who, err := s.account(cmd.User)
	if err != nil {
		return nil, err
	}
	if terminal && s.Config.Switch {
		if err := unix.Fchown(files[0], who.uid, who.gid); err != nil {
			return nil, err
		}
	}
	tree, err := s.newTree()
	if err != nil {
		return nil, err
	}
	c, text, err := s.prepare(cmd, who, tree, terminal)
	if err != nil {
		tree.free()
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
		err = done.fault(cmd)
	}
	if err != nil {
		if done != nil && done.pid > 0 {
			<-p.ended
		}
		tree.free()
		return nil, err
	}
	return p, nil
}

// fault says why a child is no program.
func (l *launch) fault(cmd *atoll.Cmd) error {
	name := "sh"
	if len(cmd.Args) > 0 {
		name = cmd.Args[0]
	}
	switch {
	case errors.Is(l.errno, unix.EAGAIN), errors.Is(l.errno, unix.ENOMEM):
		return fmt.Errorf("%w: the sandbox has no room for another process: %w", atoll.ErrQuota, l.errno)
	case l.errno != 0:
		return fmt.Errorf("fork: %w", l.errno)
	case l.cause == 0:
		return nil
	case l.step == stepExec && (l.cause == unix.E2BIG || l.cause == unix.ENAMETOOLONG):
		return fmt.Errorf("%w: the arguments and the environment are longer than a program can be given: one at most 128 KiB", atoll.ErrInvalid)
	case l.step == stepExec && l.cause == unix.ENOENT:
		return &notStarted{127, name + ": not found\n"}
	case l.step == stepExec && (l.cause == unix.ENOMEM || l.cause == unix.EAGAIN):
		return fmt.Errorf("%w: %s: %w", atoll.ErrQuota, name, l.cause)
	case l.step == stepExec:
		return &notStarted{126, name + ": " + l.cause.Error() + "\n"}
	case l.step == stepDir:
		return &os.PathError{Op: "chdir", Path: cmd.Dir, Err: l.cause}
	case l.step == stepUser:
		return fmt.Errorf("%w: becoming user %q: %w", atoll.ErrUnsupported, cmd.User, l.cause)
	default:
		return fmt.Errorf("starting %s (%d): %w", name, l.step, l.cause)
	}
}

// defaultPath is where programs are looked for.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// longestArg is what Linux gives a program as one argument (MAX_ARG_STRLEN).
const longestArg = 128 << 10

// prepare writes down what a child does. Shell text that is too long for an
// argument comes in a file, which is the child's descriptor 3.
func (s *Server) prepare(cmd *atoll.Cmd, who account, t tree, terminal bool) (c *child, text *os.File, err error) {
	shell := s.Config.Shell
	if shell == "" {
		shell = "/bin/sh"
	}
	args := cmd.Args
	if cmd.Shell != "" {
		args = []string{shell, "-c", cmd.Shell}
		if len(cmd.Shell) >= longestArg {
			if text, err = memory(cmd.Shell); err != nil {
				return nil, nil, err
			}
			args[2] = ". /proc/self/fd/3"
		}
	}
	dir := cmd.Dir
	if dir == "" {
		dir = "/"
	}
	env := s.environment(cmd, who, t, dir, terminal)
	c = &child{terminal: terminal, cgroup: t.cgroup(), nofile: s.nofile, nproc: s.nproc, oom: []byte("300")}
	if s.Config.Switch {
		c.become, c.uid, c.gid = true, uintptr(who.uid), uintptr(who.gid)
		c.groups = t.mark(who.groups)
	}
	for _, p := range programs(args[0], env) {
		if c.paths, err = appendText(c.paths, p); err != nil {
			return nil, nil, err
		}
	}
	err = errors.Join(texts(&c.argv, args...), texts(&c.envv, env...), texts(&c.script, append([]string{"/bin/sh", ""}, args[1:]...)...))
	if err == nil {
		c.dir, err = syscall.BytePtrFromString(dir)
	}
	if err != nil && text != nil {
		_ = text.Close() // the error says more
	}
	return c, text, err
}

// texts makes a list for the kernel, which ends with nil.
func texts(list *[]*byte, of ...string) error {
	*list = make([]*byte, 0, len(of)+1)
	for _, s := range of {
		var err error
		if *list, err = appendText(*list, s); err != nil {
			return err
		}
	}
	*list = append(*list, nil)
	return nil
}

func appendText(list []*byte, s string) ([]*byte, error) {
	p, err := syscall.BytePtrFromString(s)
	if err != nil {
		return nil, fmt.Errorf("%w: text with a NUL byte", atoll.ErrInvalid)
	}
	return append(list, p), nil
}

// programs returns where a program may be, in the command's own environment.
func programs(name string, env []string) []string {
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

// environment returns all variables of a command, each once.
func (s *Server) environment(cmd *atoll.Cmd, who account, t tree, dir string, terminal bool) []string {
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
	if m := t.variable(); m != "" {
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

// memory returns text as a file that programs of every user can read.
func memory(text string) (*os.File, error) {
	low, err := unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	const above = 10 // the number that it gets in the child
	fd, err := unix.FcntlInt(uintptr(low), unix.F_DUPFD_CLOEXEC, above)
	_ = unix.Close(low) // nothing was written
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
		_ = f.Close() // the error says more
		return nil, err
	}
	return f, nil
}

// end says how the command ended; it has.
func (p *process) end() End { return endOf(p.status) }

func endOf(ws syscall.WaitStatus) End {
	if ws.Signaled() {
		return End{Code: 128 + int(ws.Signal()), Signal: signalName(ws.Signal())}
	}
	return End{Code: ws.ExitStatus()}
}

// kill ends the command and all that it has started, unless that is over.
func (p *process) kill() {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.done {
		p.tree.kill(p)
	}
}

// finish ends what is left of a command that has ended itself.
func (p *process) finish() {
	p.kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done {
		p.done = true
		p.tree.free()
	}
}

// signal sends a signal by its name. What a terminal's keys send goes to the
// whole group, as from a terminal; what programs send, to the command only.
// KILL ends everything. Unknown names are no signals.
func (p *process) signal(name string) {
	sig, ok := signalOf(name)
	switch {
	case !ok:
	case sig == unix.SIGKILL:
		p.kill()
	default:
		p.s.reaper.kill(p, byKey(sig), sig)
	}
}

func byKey(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGSTOP, unix.SIGCONT, unix.SIGHUP, unix.SIGWINCH:
		return true
	}
	return false
}

// signalOf reads "TERM", "SIGTERM".
func signalOf(name string) (syscall.Signal, bool) {
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
