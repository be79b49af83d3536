package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Sandbox is a fake sandbox without isolation: its files are a directory of the host, its
// programs are Programs, or the host's. Paths are the host's; files outside of Root can't
// be opened.
type Sandbox struct {
	Root string // parent of Dir and State

	// Programs are functions that replace programs, by the last element of
	// Args[0]. The one of "*" replaces all others.
	Programs map[string]Program

	// Env is added to the environment of the host's programs, which otherwise
	// have only PATH and HOME.
	Env []string

	// Execs is called for each command.
	Execs func(cmd atoll.Cmd)

	root   *os.Root
	ctx    context.Context //nolint:containedctx // the sandbox's life; done when it is destroyed
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	running   sync.WaitGroup
	listeners []net.Listener // guarded by mu
}

// Program is a program as a function. It returns soon after ctx is done.
type Program func(ctx context.Context, p *Process) int

// Process is the process of a Program.
type Process struct {
	Args, Env []string
	Dir       string
	Stdin     io.Reader
	Stdout    io.Writer
	Stderr    io.Writer
	Signals   <-chan string
}

// NewSandbox creates a sandbox that is removed with the test. It is not in /tmp, where some
// agents refuse to store their state.
func NewSandbox(t testing.TB) *Sandbox {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "atoll-agent-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Sandbox{Root: dir, Programs: make(map[string]Program)}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if s.root, err = os.OpenRoot(dir); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"workspace", "state", "home"} {
		if err := s.root.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Destroy(context.WithoutCancel(t.Context())), s.root.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Dir returns the workspace.
func (s *Sandbox) Dir() string { return filepath.Join(s.Root, "workspace") }

// State returns the directory of the agents' state.
func (s *Sandbox) State() string { return filepath.Join(s.Root, "state") }

// ID returns the name of the directory.
func (s *Sandbox) ID() string { return filepath.Base(s.Root) }

// Status returns the state Running, or an error after Destroy.
func (s *Sandbox) Status(context.Context) (atoll.Status, error) {
	if err := s.checkAlive("status"); err != nil {
		return atoll.Status{}, err
	}
	now := time.Now()
	return atoll.Status{ID: s.ID(), Driver: "agenttest", State: atoll.Running, Created: now, Active: now}, nil
}

func (s *Sandbox) checkAlive(op string) error {
	if s.ctx.Err() != nil {
		return &atoll.Error{Op: op, ID: s.ID(), Err: atoll.ErrNotFound}
	}
	return nil
}

// Exec runs a program.
func (s *Sandbox) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	if err := errors.Join(s.checkAlive("exec"), cmd.Check()); err != nil {
		return atoll.Exit{}, err
	}
	s.running.Add(1)
	defer s.running.Done()
	if s.Execs != nil {
		s.Execs(cmd)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.ctx, func() { //nolint:contextcheck // as above
		cancel(&atoll.Error{Op: "exec", ID: s.ID(), Err: fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)})
	})
	defer stop()
	if cmd.Timeout > 0 {
		var release context.CancelFunc
		ctx, release = context.WithTimeoutCause(ctx, cmd.Timeout, atoll.ErrTimeout)
		defer release()
	}
	if cmd.Dir == "" {
		cmd.Dir = s.Dir()
	}
	start := time.Now()
	var exit atoll.Exit
	var err error
	if f := s.findProgram(cmd); f != nil {
		exit, err = s.runFunction(ctx, f, cmd)
	} else {
		exit, err = s.runOnHost(ctx, cmd)
	}
	exit.Duration = time.Since(start)
	return exit, err
}

// findProgram returns the function of a command; nil: the command runs on the host.
func (s *Sandbox) findProgram(cmd atoll.Cmd) Program {
	if cmd.Shell != "" {
		return nil
	}
	if f, ok := s.Programs[path.Base(cmd.Args[0])]; ok {
		return f
	}
	return s.Programs["*"]
}

// runFunction runs a function.
func (s *Sandbox) runFunction(ctx context.Context, f Program, cmd atoll.Cmd) (exit atoll.Exit, err error) {
	p := &Process{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, Signals: cmd.Signals}
	if p.Stdin == nil {
		p.Stdin = strings.NewReader("")
	}
	var out, errs bytes.Buffer
	if p.Stdout == nil {
		p.Stdout = &out
	}
	if p.Stderr == nil {
		p.Stderr = &errs
	}
	ended := make(chan int, 1)
	s.running.Go(func() { ended <- f(ctx, p) }) // it may be blocked by a writer of the caller
	select {
	case code := <-ended:
		return atoll.Exit{Code: code, Stdout: out.Bytes(), Stderr: errs.Bytes()}, context.Cause(ctx)
	case <-ctx.Done():
		return atoll.Exit{Code: 137}, context.Cause(ctx)
	}
}

// relativePath returns a path relative to Root.
func (s *Sandbox) relativePath(op, name string) (string, error) {
	if err := s.checkAlive(op); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(s.Root, name)
	if err != nil || !filepath.IsLocal(rel) {
		return "", &atoll.Error{Op: op, ID: s.ID(), Err: fmt.Errorf("%w: %s is not in %s", atoll.ErrDenied, name, s.Root)}
	}
	return rel, nil
}

// convertError converts errors of files to those of atoll.
func (s *Sandbox) convertError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %w", atoll.ErrNotFound, err)
	case errors.Is(err, fs.ErrExist):
		err = fmt.Errorf("%w: %w", atoll.ErrExists, err)
	default:
		err = fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	return &atoll.Error{Op: op, ID: s.ID(), Err: err}
}

// OpenFile opens a file.
func (s *Sandbox) OpenFile(_ context.Context, name string) (io.ReadCloser, error) {
	rel, err := s.relativePath("read", name)
	if err != nil {
		return nil, err
	}
	f, err := s.root.Open(rel)
	if err != nil {
		return nil, s.convertError("read", err)
	}
	return f, nil
}

// WriteFile replaces a file.
func (s *Sandbox) WriteFile(_ context.Context, name string, content io.Reader, perm fs.FileMode) error {
	rel, err := s.relativePath("write", name)
	if err != nil {
		return err
	}
	f, err := s.root.OpenFile(rel+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, perm)
	if err != nil {
		return s.convertError("write", err)
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Chmod(perm), f.Close()); err == nil {
		err = s.root.Rename(rel+".new", rel)
	}
	return s.convertError("write", err)
}

// StatFile describes a file.
func (s *Sandbox) StatFile(_ context.Context, name string) (fs.FileInfo, error) {
	rel, err := s.relativePath("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := s.root.Lstat(rel)
	return info, s.convertError("stat", err)
}

// ReadDir lists a directory.
func (s *Sandbox) ReadDir(_ context.Context, name string) ([]fs.FileInfo, error) {
	rel, err := s.relativePath("list", name)
	if err != nil {
		return nil, err
	}
	f, err := s.root.Open(rel)
	if err != nil {
		return nil, s.convertError("list", err)
	}
	list, err := f.Readdir(-1)
	slices.SortFunc(list, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
	return list, s.convertError("list", errors.Join(err, f.Close()))
}

// Mkdir makes a directory.
func (s *Sandbox) Mkdir(_ context.Context, name string, perm fs.FileMode) error {
	rel, err := s.relativePath("mkdir", name)
	if err != nil {
		return err
	}
	return s.convertError("mkdir", s.root.MkdirAll(rel, perm))
}

// Remove removes a name and all below it.
func (s *Sandbox) Remove(_ context.Context, name string) error {
	rel, err := s.relativePath("remove", name)
	if err != nil {
		return err
	}
	if _, err := s.root.Lstat(rel); err != nil {
		return s.convertError("remove", err)
	}
	return s.convertError("remove", s.root.RemoveAll(rel))
}

// Import returns ErrUnsupported: files are written one by one.
func (s *Sandbox) Import(context.Context, string, io.Reader) error {
	return &atoll.Error{Op: "import", ID: s.ID(), Err: atoll.ErrUnsupported}
}

// Export returns ErrUnsupported.
func (s *Sandbox) Export(context.Context, string) (io.ReadCloser, error) {
	return nil, &atoll.Error{Op: "export", ID: s.ID(), Err: atoll.ErrUnsupported}
}

// Listen listens on the host.
func (s *Sandbox) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	if err := s.checkAlive("listen"); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
	if err != nil {
		return nil, &atoll.Error{Op: "listen", ID: s.ID(), Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
	return l, nil
}

// Destroy ends every program and listener.
func (s *Sandbox) Destroy(context.Context) error {
	s.cancel(nil)
	s.mu.Lock()
	for _, l := range s.listeners {
		_ = l.Close() // it may be closed
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

var (
	_ atoll.Sandbox  = (*Sandbox)(nil)
	_ atoll.DirFS    = (*Sandbox)(nil)
	_ atoll.Listener = (*Sandbox)(nil)
)
