package agenttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// markEnv is an environment variable of every process of a command, to find those that
// have left its process group.
const markEnv = "ATOLL_AGENTTEST="

// runOnHost runs a program of the host.
func (s *Sandbox) runOnHost(ctx context.Context, c atoll.Cmd) (atoll.Exit, error) {
	args := c.Args
	if c.Shell != "" {
		args = []string{"sh", "-c", c.Shell}
	}
	id := markEnv + rand.Text()
	cmd := &exec.Cmd{Args: args, Dir: c.Dir, Stdout: c.Stdout, Stderr: c.Stderr, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	cmd.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(s.Root, "home"), "LANG=C.UTF-8"}, s.Env, c.Env, []string{id})
	var exit atoll.Exit
	var err error
	if cmd.Path, err = find(args[0], cmd.Env); err != nil {
		exit.Code, exit.Stderr = 127, []byte(args[0]+": not found\n")
		if c.Stderr != nil {
			_, err = c.Stderr.Write(exit.Stderr)
			return exit, err
		}
		return exit, nil
	}
	var out, errs bytes.Buffer
	if c.Stdout == nil {
		cmd.Stdout = &out
	}
	if c.Stderr == nil {
		cmd.Stderr = &errs
	}
	stdin, err := s.pipeStdin(cmd, c.Stdin)
	if err != nil {
		return exit, err
	}
	cmd.WaitDelay = 100 * time.Millisecond // for processes outside of the group, and for blocked writers
	if err := cmd.Start(); err != nil {
		return exit, errors.Join(err, stdin.Close())
	}
	ended := make(chan struct{})
	go forwardSignals(cmd.Process.Pid, c.Signals, ended)
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	_ = cmd.Wait() // ProcessState has the result
	stop()
	close(ended)
	killMarked(id)
	_ = stdin.Close() // nothing reads it any more
	exit.Stdout, exit.Stderr = out.Bytes(), errs.Bytes()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		exit.Code = 128 + int(ws.Signal())
	} else {
		exit.Code = cmd.ProcessState.ExitCode()
	}
	return exit, context.Cause(ctx)
}

// pipeStdin passes a command its input through a kernel pipe, so that waiting for the
// command does not wait for the caller's reader.
func (s *Sandbox) pipeStdin(cmd *exec.Cmd, r io.Reader) (io.Closer, error) {
	if r == nil {
		return io.NopCloser(nil), nil
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = pr
	go func() {
		_, _ = io.Copy(pw, r) // until the process exits, or the caller closes
		_ = pw.Close()
	}()
	return pr, nil
}

// forwardSignals forwards signals to a process.
func forwardSignals(pid int, signals <-chan string, ended <-chan struct{}) {
	known := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}
	for {
		select {
		case name, ok := <-signals:
			if !ok {
				return
			}
			if sig, ok := known[name]; ok {
				_ = syscall.Kill(pid, sig) // it may have exited
			}
		case <-ended:
			return
		}
	}
}

// killMarked kills all processes with the mark in their environment.
func killMarked(id string) {
	for again := true; again; {
		again = false
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, f := range files {
			env, err := os.ReadFile(f)
			if err != nil || !slices.Contains(splitEnv(env), id) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
				again = true
			}
		}
	}
}

func splitEnv(b []byte) []string {
	var list []string
	for e := range bytes.SplitSeq(b, []byte{0}) {
		list = append(list, string(e))
	}
	return list
}

// find finds a program on the PATH of an environment.
func find(name string, env []string) (string, error) {
	if filepath.Base(name) != name {
		return name, nil
	}
	var dirs string
	for _, e := range env {
		if v, ok := bytes.CutPrefix([]byte(e), []byte("PATH=")); ok {
			dirs = string(v)
		}
	}
	for _, d := range filepath.SplitList(dirs) {
		p := filepath.Join(d, name)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", exec.ErrNotFound
}
