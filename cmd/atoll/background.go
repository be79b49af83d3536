package main

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
	"github.com/atoll-sandbox/atoll/internal/filelock"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/whole"
)

const (
	// backgroundIdle is how long a server in the background stays when nobody
	// needs it.
	backgroundIdle = 15 * time.Minute
	// backgroundStart is how long one may take until it answers.
	backgroundStart = time.Minute
	// backgroundPages is where one listens for browsers, if nobody else does.
	backgroundPages = "127.0.0.1:7081"
	// backgroundLog is how large its log may get before the next one begins anew.
	backgroundLog = 1 << 20
)

// background makes sure that a server runs for the home, so that names of
// ports and pages of terminals are there when no command is: it starts one if
// none answers, and waits until it does. It is called before the first use of
// a.client. Where it starts none, since that is not wanted or commands go to
// another server, everything works without.
func (a *app) background(ctx context.Context) (err error) {
	if elsewhere, err := a.elsewhere(); err != nil || elsewhere {
		return err
	}
	if err := a.homed(); err != nil {
		return err
	}
	if there, err := a.served(ctx); err != nil || there {
		return err
	}
	if !get[bool](a.config, "server.autostart") {
		a.progress("atoll: no server runs here (server.autostart is false): ports have no names and terminals no pages until 'atoll serve' does")
		return nil
	}
	if err := os.MkdirAll(a.home, 0o700); err != nil {
		return a.writable(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, backgroundStart, fmt.Errorf("%w: the server in the background has not answered for %v; its log is %s", atoll.ErrTimeout, backgroundStart, a.serverLog()))
	defer cancel()
	unlock, err := a.lockHome(ctx, "server.lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if there, err := a.served(ctx); err != nil || there {
		return err // another call was first
	}
	return a.startServer(ctx)
}

// lockHome takes the lock of a file in the home, and waits for who has it until
// ctx is done.
func (a *app) lockHome(ctx context.Context, name string) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(a.home, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, a.writable(err)
	}
	if err := filelock.Poll(ctx, f); err != nil {
		return nil, finish(err, f)
	}
	return f.Close, nil
}

func (a *app) serverLog() string { return filepath.Join(a.home, "server.log") }

// served reports whether a server of the home answers, and tells a person if it
// is one of another version.
func (a *app) served(ctx context.Context) (bool, error) {
	l, err := a.socket(ctx)
	if err != nil || l == nil {
		return false, err
	}
	ask, cancel := context.WithTimeout(ctx, backgroundStart/3)
	defer cancel()
	_, err = l.Quota(ask)
	if err = errors.Join(err, l.end(ctx)); err != nil {
		return false, ctxErr(ctx) // it is about to end
	}
	s, v := a.readServerFile(), buildVersion().Version
	if s.Version != "" && s.Version != v {
		a.progress("atoll: the server that runs here is atoll %s, this is %s: it is used as it is; 'kill %d' ends it, and sandboxes stay", s.Version, v, s.PID)
	}
	return true, nil
}

// startServer starts a server that outlives this process, and waits until it
// answers.
func (a *app) startServer(ctx context.Context) error {
	log, err := a.openServerLog()
	if err != nil {
		return a.writable(err)
	}
	defer log.Close()
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	program := a.program
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return err
		}
	}
	cmd := exec.Command(program, "serve", "--home", a.home, "--background", "--ends-when-idle", backgroundIdle.String()) //nolint:noctx // it outlives this call
	cmd.Dir = a.home                                                                                                     // it holds no other directory, and reads no project's file
	cmd.Env = backgroundEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a server in the background: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // it ends with the server or with this process
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if there, err := a.served(ctx); err != nil || there {
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

// backgroundEnv is the environment of a server in the background: what says
// where commands go is not for it, nor is who started this process.
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

// openServerLog opens the log for what comes. One that has become long is put
// aside, in place of the one before.
func (a *app) openServerLog() (*os.File, error) {
	name := a.serverLog()
	if info, err := os.Lstat(name); err == nil && info.Size() > backgroundLog {
		if err := os.Rename(name, name+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// serverSaid returns the last that a server wrote to its log since an offset.
func (a *app) serverSaid(begin int64) string {
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
	return lines(string(bytes.ToValidUTF8(b, nil)), "")
}

// serverFile is what $ATOLL_HOME/server.json says of the server that runs.
type serverFile struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Listen  []string  `json:"listen"`          // as clients call them, the socket first
	Proxy   string    `json:"proxy,omitempty"` // address of the proxy of names of ports; empty: there is none
	Pages   string    `json:"pages,omitempty"` // URL that browsers of this machine open; empty: there is none
	Idle    string    `json:"ends_when_idle,omitempty"`
}

func (a *app) serverFileName() string { return filepath.Join(a.home, "server.json") }

// readServerFile returns what the server of the home says of itself. What a
// server that was killed has left is believed by nobody who has asked [app.served]
// before; a file that can't be read says nothing.
func (a *app) readServerFile() serverFile {
	var s serverFile
	b, err := readSmall(a.serverFileName())
	if err != nil || json.Unmarshal(b, &s) != nil {
		return serverFile{}
	}
	return s
}

// writeServerFile replaces the file in one step.
func (a *app) writeServerFile(s serverFile) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return whole.Replace(a.serverFileName(), append(b, '\n'), 0o600)
}

// removeServerFile removes it; one that is not there is no error.
func (a *app) removeServerFile() error {
	if err := os.Remove(a.serverFileName()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// quiet is somebody who knows how long nothing has been asked of him; 0: he is
// at work.
type quiet interface{ Quiet() time.Duration }

// untilIdle waits until nobody has needed a server for a while: no call, no
// command, no sandbox of a project that runs. It returns nil then, or ctx's
// error.
func untilIdle(ctx context.Context, f *fleet.Fleet, after time.Duration, all ...quiet) error {
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
			idle = idle && q.Quiet() >= after
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
	census, err := f.Census(ctx)
	if err != nil || census.Commands > 0 {
		return true, err
	}
	list, err := f.For(fleet.LocalCaller()).List(ctx, fleet.Filter{States: []atoll.State{atoll.Starting, atoll.Running, atoll.Paused}, AllOwners: true})
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
