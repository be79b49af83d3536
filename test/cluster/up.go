package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// upCommand starts a cluster that runs until downCommand stops it.
func upCommand(args []string) error {
	var o options
	fs := o.newFlagSet("up")
	foreground := fs.Bool("foreground", false, "run in the foreground until interrupted")
	if _, err := splitArgs(fs, args); err != nil {
		return err
	}
	o.State, o.Forward = upState(), true
	removeDeadClusters()
	if _, err := os.Stat(string(o.State)); err == nil {
		return fmt.Errorf("a cluster is running already: 'cluster down' stops it (%s)", o.State)
	}
	if *foreground {
		return runCluster(o, nil)
	}
	return startInBackground(o, args)
}

// startInBackground starts 'up --foreground' in a new session and waits until the
// cluster is ready.
func startInBackground(o options, args []string) error {
	name := string(o.State) + ".log"
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	log, err := os.Create(name)
	if err != nil {
		return err
	}
	defer log.Close()
	c := exec.Command("/proc/self/exe", append([]string{"up", "--foreground"}, args...)...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			text, _ := os.ReadFile(name)
			_ = os.Remove(name)
			return fmt.Errorf("up: %w\n%s", err, text)
		case <-tick.C:
			if _, err := os.Stat(o.State.controlSocket()); err == nil {
				return errors.Join(writeHostKubeconfig(o.State), os.Rename(name, o.State.logPath("cluster")))
			}
		}
	}
}

// writeHostKubeconfig writes a kubeconfig for programs outside the cluster and prints
// the shell command that exports its path.
func writeHostKubeconfig(s stateDir) error {
	address, err := os.ReadFile(s.joinPath("address"))
	if err != nil {
		return err
	}
	if err := writeKubeconfig(s, "admin", s.kubeconfigPath("host"), "https://"+string(address)); err != nil {
		return err
	}
	fmt.Printf("export KUBECONFIG=%s\n", s.kubeconfigPath("host"))
	return nil
}

// downCommand stops the cluster that upCommand started, and waits until its state
// directory was removed.
func downCommand(args []string) error {
	s := upState()
	if !isAlive(s) {
		removeDeadClusters()
		return nil
	}
	b, err := os.ReadFile(s.joinPath("outer.pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return pollUntil(ctx, func(context.Context) error {
		if _, err := os.Stat(string(s)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the cluster does not stop; its process is %d", pid)
		}
		return nil
	})
}
