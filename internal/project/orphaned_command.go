package project

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// commandsDirName is a directory in a repository of the host. Each atoll that runs commands in a sandbox records them in a
// directory of its own there while they run. A sandbox keeps a command for minutes whose atoll was killed, and with it the lock
// files of git: the next atoll ends it.
const commandsDirName = "atoll-commands"

// commandRecord is what is recorded.
type commandRecord struct {
	Sandbox  string   `json:"sandbox"`
	Commands []string `json:"commands"` // ids of those that run
}

// Times of commands that a killed atoll has left.
const (
	endPatience = 10 * time.Second // to end by themselves, before they are killed
	maxLeftAge  = time.Hour        // then the sandbox has ended them
)

// trackedSandbox is a sandbox whose commands are recorded while they run.
type trackedSandbox struct {
	atoll.Sandbox
	dir string

	mu     sync.Mutex
	act    *journal.Act  // guarded by mu; nil: nothing was recorded
	record commandRecord // guarded by mu
}

// Unwrap returns the sandbox itself.
func (s *trackedSandbox) Unwrap() atoll.Sandbox { return s.Sandbox }

// Exec runs a command that is recorded.
func (s *trackedSandbox) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	if cmd.ID == "" {
		cmd.ID = "p" + atoll.NewID()[1:]
	}
	s.change(func(ids []string) []string { return append(ids, cmd.ID) })
	defer s.change(func(ids []string) []string {
		return slices.DeleteFunc(ids, func(id string) bool { return id == cmd.ID })
	})
	return s.Sandbox.Exec(ctx, cmd)
}

// change changes the record. Where it can't be written, a killed atoll leaves its commands to the sandbox.
func (s *trackedSandbox) change(f func([]string) []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Commands = f(s.record.Commands)
	if s.act != nil {
		_ = s.act.Update(s.record) // see above
		return
	}
	if os.MkdirAll(s.dir, 0o700) == nil {
		s.act, _ = journal.Begin(s.dir, "commands", s.record) // see above
	}
}

// close ends the record. What can't be removed names no command any more.
func (s *trackedSandbox) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.act != nil {
		_ = s.act.End()
	}
	_ = os.Remove(s.dir)
}

// trackCommands ends what a killed atoll has left in a sandbox, and returns the sandbox with commands that are recorded. The
// caller calls done when they have ended.
func (r *Repo) trackCommands(ctx context.Context, sb atoll.Sandbox) (tracked atoll.Sandbox, done func()) {
	resumer, ok := atoll.As[atoll.CommandResumer](sb)
	if _, twice := sb.(*trackedSandbox); twice || !ok { // other sandboxes end commands with their process
		return sb, func() {}
	}
	dir := filepath.Join(r.common, commandsDirName)
	endLeftCommands(ctx, resumer, dir, sb.ID())
	s := &trackedSandbox{Sandbox: sb, dir: filepath.Join(dir, atoll.NewID()), record: commandRecord{Sandbox: sb.ID()}}
	return s, s.close
}

// endLeftCommands ends the commands in a sandbox whose atolls were killed. What can't be ended is ended by the sandbox.
func endLeftCommands(ctx context.Context, resumer atoll.CommandResumer, dir, sandbox string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return // there is none, or nothing can be recorded either
	}
	for _, e := range list {
		own := filepath.Join(dir, e.Name())
		act, err := journal.TakeOver(own)
		if err != nil || act == nil {
			if err == nil && !journal.IsBegun(own) {
				_ = os.Remove(own) // killed in between; fails if another atoll has begun meanwhile
			}
			continue
		}
		var left commandRecord
		if act.Args(&left) == nil && left.Sandbox != sandbox && time.Since(act.Begun) < maxLeftAge {
			_ = act.Leave() // only its lock was taken
			continue
		}
		if left.Sandbox == sandbox {
			for _, id := range left.Commands {
				endCommand(ctx, resumer, id)
			}
		}
		if errors.Join(context.Cause(ctx), act.End()) == nil {
			_ = os.Remove(own) // see above
		}
	}
}

// endCommand ends a command as a user would, so that git removes its lock files, or kills it.
func endCommand(ctx context.Context, resumer atoll.CommandResumer, id string) {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	signals := make(chan string, 1)
	signals <- "TERM"
	streams := atoll.Cmd{ID: id, Internal: true, Args: []string{"git"}, Stdout: io.Discard, Stderr: io.Discard, Signals: signals, Timeout: -1}
	_, _ = resumer.ResumeExec(ctx, streams, atoll.Resumption{Stdout: -1, Stderr: -1}) // most often it is not there any more
}
