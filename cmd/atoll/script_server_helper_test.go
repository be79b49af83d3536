package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll/cmd/internal/program"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// startBackground is what 'atoll up' begins with, as a command of scripts.
func startBackground() {
	os.Exit(inBackground(context.Background()))
}

func inBackground(ctx context.Context) int {
	a := &app.App{Streams: tty.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, Wiring: program.Wiring()}
	err := a.Configure(&cobra.Command{})
	if err == nil {
		a.Program, err = exec.LookPath("atoll")
	}
	if err == nil {
		err = a.EnsureServer(ctx)
	}
	if err != nil {
		a.PrintError(err)
		return exitcode.Failed
	}
	return 0
}

// killServer sends a signal to a server in the background and waits until it is
// gone: kill-server KILL home/server.json.
func killServer(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM}
	if neg || len(args) != 2 || signals[args[0]] == 0 {
		ts.Fatalf("usage: kill-server KILL|TERM FILE")
	}
	var s app.ServerInfo
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &s))
	ts.Check(syscall.Kill(s.PID, signals[args[0]]))
	if !poll(func() bool { return !serverRuns(ts.MkAbs("home")) }) {
		ts.Fatalf("process %d goes on", s.PID)
	}
}

// serverRuns reports whether a server has a home.
func serverRuns(home string) bool {
	lock, err := os.Open(filepath.Join(home, "serve.lock"))
	if err != nil {
		return false
	}
	defer lock.Close()
	free, err := filelock.Try(lock)
	return err == nil && !free
}

// leaveNoServer kills what a script that failed has left in the background.
func leaveNoServer(home string) {
	var s app.ServerInfo
	b, err := os.ReadFile(filepath.Join(home, "server.json"))
	if err == nil && json.Unmarshal(b, &s) == nil && s.PID > 0 && serverRuns(home) {
		_ = syscall.Kill(s.PID, syscall.SIGKILL) // it may have ended just now
	}
}
