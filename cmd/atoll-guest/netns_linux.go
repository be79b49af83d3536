package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/guest"
)

// netnsMain sets up the redirection in the network namespace of a process, outside the
// sandbox: `netns PID [FD]`. FD is an inherited pidfd of the process.
func netnsMain(args []string) int {
	if len(args) != 1 && len(args) != 2 {
		return printFailure("netns", errors.New("give the id of a process"))
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return printFailure("netns", err)
	}
	var fd int
	if len(args) == 2 {
		fd, err = strconv.Atoi(args[1])
	} else if fd, err = unix.PidfdOpen(pid, 0); err != nil {
		err = fmt.Errorf("process %d: %w", pid, err)
	}
	if err != nil {
		return printFailure("netns", err)
	}
	runtime.LockOSThread() // the namespace is the thread's
	if err := enterNetwork(fd, pid); err != nil {
		return printFailure("netns", err)
	}
	if err := guest.RedirectConnections(); err != nil {
		return printFailure("netns", err)
	}
	return 0
}

// enterNetwork joins the network namespace of a pidfd, which must differ from this process's.
func enterNetwork(fd, pid int) error {
	defer unix.Close(fd)
	before, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("the network of process %d: %w", pid, err)
	}
	after, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	if os.SameFile(before, after) {
		return fmt.Errorf("process %d shares this process's network: that is not redirected", pid)
	}
	return nil
}
