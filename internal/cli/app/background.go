package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/version"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

const (
	// backgroundIdle is the idle time after which a background server ends.
	backgroundIdle = 15 * time.Minute
	// ServerStartTimeout is how long one may take until it answers.
	ServerStartTimeout = time.Minute
	// DefaultConsoleAddress is where one listens for browsers, if no other server does.
	DefaultConsoleAddress = "127.0.0.1:7081"
	// backgroundLog is how large its log may get before the next one begins anew.
	backgroundLog = 1 << 20
)

// EnsureServer starts a server in the background for the home, unless one answers or the
// configuration forbids it, and waits until it answers. It does nothing if commands use
// another server. Call it before the first use of Client.
func (a *App) EnsureServer(ctx context.Context) (err error) {
	if elsewhere, err := a.IsRemote(); err != nil || elsewhere {
		return err
	}
	if err := a.CheckHome(); err != nil {
		return err
	}
	if there, err := a.serverAnswers(ctx); err != nil || there {
		return err
	}
	if !config.Get[bool](a.Config, "server.autostart") {
		a.Progress("atoll: no server runs here (server.autostart is false): ports have no names and terminals no pages until 'atoll serve' does")
		return nil
	}
	if err := os.MkdirAll(a.Home, 0o700); err != nil {
		return a.ExplainWriteError(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, ServerStartTimeout, fmt.Errorf("%w: the server in the background has not answered for %v; its log is %s", atoll.ErrTimeout, ServerStartTimeout, a.serverLog()))
	defer cancel()
	unlock, err := a.LockHome(ctx, "server.lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if there, err := a.serverAnswers(ctx); err != nil || there {
		return err // another call was first
	}
	return a.startServer(ctx)
}

// LockHome takes the lock of a file in the home, and waits for who has it until
// ctx is done.
func (a *App) LockHome(ctx context.Context, name string) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(a.Home, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, a.ExplainWriteError(err)
	}
	if err := filelock.Poll(ctx, f); err != nil {
		return nil, output.CloseAfter(err, f)
	}
	return f.Close, nil
}

func (a *App) serverLog() string { return filepath.Join(a.Home, "server.log") }

// serverAnswers reports whether a server of the home answers, and warns if it has another
// version.
func (a *App) serverAnswers(ctx context.Context) (bool, error) {
	l, err := a.connectSocket(ctx)
	if err != nil || l == nil {
		return false, err
	}
	ask, cancel := context.WithTimeout(ctx, ServerStartTimeout/3)
	defer cancel()
	_, err = l.Quota(ask)
	if err = errors.Join(err, l.close(ctx)); err != nil {
		return false, ctxErr(ctx) // it is about to end
	}
	s, v := a.ReadServerInfo(), version.Build().Version
	if s.Version != "" && s.Version != v {
		a.Progress("atoll: the server that runs here is atoll %s, this is %s: it is used as it is; 'atoll serve --stop' ends it, and sandboxes stay", s.Version, v)
	}
	return true, nil
}

// startServer starts a server that outlives this process, and waits until it answers.
func (a *App) startServer(ctx context.Context) error {
	log, err := a.openServerLog()
	if err != nil {
		return a.ExplainWriteError(err)
	}
	defer log.Close()
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	program := a.Program
	if program == "" {
		if program, err = helper.Executable(); err != nil {
			return err
		}
	}
	cmd := exec.Command(program, "serve", "--home", a.Home, "--background", "--ends-when-idle", backgroundIdle.String()) //nolint:noctx // it outlives this call
	cmd.Dir = a.Home                                                                                                     // it holds no other directory, and reads no project's file
	cmd.Env = backgroundEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = DetachedProcAttr()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a server in the background: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // it ends with the server or with this process
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if there, err := a.serverAnswers(ctx); err != nil || there {
			return err
		}
		select {
		case err := <-ended:
			return fmt.Errorf("%w: the server in the background ended: %w\n%s(its log is %s)", atoll.ErrUnavailable, err, a.serverSaid(begin), a.serverLog())
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), cmd.Process.Kill())
		case <-tick.C: // another process's socket: there is nothing to wait on
		}
	}
}

// backgroundEnv returns env without the variables that choose a server or notify the parent
// process.
func backgroundEnv(env []string) []string {
	var kept []string
	for _, e := range env {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "ATOLL_HOST", "ATOLL_TOKEN", "ATOLL_CONTEXT", "ATOLL_OUTPUT", "NOTIFY_SOCKET":
		default:
			kept = append(kept, e)
		}
	}
	return kept
}

// openServerLog opens the log for appending. A log that has become large replaces the previous
// one first.
func (a *App) openServerLog() (*os.File, error) {
	name := a.serverLog()
	if info, err := os.Lstat(name); err == nil && info.Size() > backgroundLog {
		if err := os.Rename(name, name+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// serverSaid returns the last that a server wrote to its log since an offset.
func (a *App) serverSaid(begin int64) string {
	f, err := os.Open(a.serverLog())
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, begin, backgroundLog))
	if err != nil {
		return ""
	}
	const most = 2048
	b = b[max(0, len(b)-most):]
	return output.CleanLines(string(bytes.ToValidUTF8(b, nil)), "")
}

// ServerInfo is the content of $ATOLL_HOME/server.json, which describes the running server.
type ServerInfo struct {
	PID        int       `json:"pid"`
	Version    string    `json:"version"`
	Started    time.Time `json:"started"`
	Listen     []string  `json:"listen"`          // as clients call them, the socket first
	Proxy      string    `json:"proxy,omitempty"` // address of the proxy of names of ports; empty: there is none
	ConsoleURL string    `json:"pages,omitempty"` // URL that browsers of this machine open; empty: there is none
	Idle       string    `json:"ends_when_idle,omitempty"`
}

func (a *App) serverInfoFile() string { return filepath.Join(a.Home, "server.json") }

// ReadServerInfo reads server.json. The file may be left from a server that was killed, so
// callers check first that a server answers. A file that cannot be read is the zero
// ServerInfo.
func (a *App) ReadServerInfo() ServerInfo {
	var s ServerInfo
	b, err := config.ReadSmallFile(a.serverInfoFile())
	if err != nil || json.Unmarshal(b, &s) != nil {
		return ServerInfo{}
	}
	return s
}

// WriteServerInfo replaces the file in one step.
func (a *App) WriteServerInfo(s ServerInfo) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Replace(a.serverInfoFile(), append(b, '\n'), 0o600)
}

// RemoveServerInfo removes server.json; a missing file is no error.
func (a *App) RemoveServerInfo() error {
	if err := os.Remove(a.serverInfoFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Idler reports how long a component has been idle; 0 means that it is busy.
type Idler interface{ IdleTime() time.Duration }

// WaitUntilIdle waits until the server has been idle for a while: no request, no command, no
// running sandbox of a project. It returns nil then, or the cause of ctx's end.
func WaitUntilIdle(ctx context.Context, f *fleet.Fleet, after time.Duration, all ...Idler) error {
	beat := min(max(after/10, 10*time.Millisecond), time.Minute)
	t := time.NewTicker(beat)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
		idle := true
		for _, q := range all {
			idle = idle && q.IdleTime() >= after
		}
		if !idle {
			continue
		}
		if needed, err := stillNeeded(ctx, f); err == nil && !needed {
			return nil
		}
	}
}

// stillNeeded reports whether commands are under way from here, or a sandbox of
// a project runs.
func stillNeeded(ctx context.Context, f *fleet.Fleet) (bool, error) {
	counts, err := f.CountSandboxes(ctx)
	if err != nil || counts.Commands > 0 {
		return true, err
	}
	list, err := f.Account(fleet.LocalCaller()).List(ctx, fleet.Filter{States: []atoll.State{atoll.Starting, atoll.Running, atoll.Paused}, AllOwners: true})
	if err != nil {
		return true, err
	}
	for _, info := range list {
		if _, ok := info.Labels[project.Label]; ok {
			return true, nil
		}
	}
	return false, nil
}
