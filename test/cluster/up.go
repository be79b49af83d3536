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

// upCommand starts a cluster that stays.
func upCommand(args []string) error {
	var o options
	fs := o.flags("up")
	foreground := fs.Bool("foreground", false, "stay until interrupted")
	if _, err := splitArgs(fs, args); err != nil {
		return err
	}
	o.State, o.Forward = lasting(), true
	sweep()
	if _, err := os.Stat(string(o.State)); err == nil {
		return fmt.Errorf("a cluster is up already: 'cluster down' ends it (%s)", o.State)
	}
	if *foreground {
		return outer(o, nil)
	}
	return background(o, args)
}

// background runs 'up --foreground' as a process of its own and waits until
// the cluster is ready.
func background(o options, args []string) error {
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
			if _, err := os.Stat(o.State.control()); err == nil {
				return errors.Join(printHost(o.State), os.Rename(name, o.State.log("cluster")))
			}
		}
	}
}

// printHost writes the kubeconfig for programs outside, and says where it is.
func printHost(s state) error {
	address, err := os.ReadFile(s.path("address"))
	if err != nil {
		return err
	}
	if err := writeKubeconfig(s, "admin", s.kubeconfig("host"), "https://"+string(address)); err != nil {
		return err
	}
	fmt.Printf("export KUBECONFIG=%s\n", s.kubeconfig("host"))
	return nil
}

// downCommand ends the cluster that is up, and waits until nothing is left.
func downCommand(args []string) error {
	s := lasting()
	if !alive(s) {
		sweep()
		return nil
	}
	b, err := os.ReadFile(s.path("outer.pid"))
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
	return until(ctx, func(context.Context) error {
		if _, err := os.Stat(string(s)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the cluster does not end; its process is %d", pid)
		}
		return nil
	})
}
