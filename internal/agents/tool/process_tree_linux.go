package tool

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// setProcessGroup starts a program in a process group of its own, so that it and its
// children can be found, and do not get the terminal's signals.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// processInfo is a process of the host and its relations to others.
type processInfo struct {
	pid, parent, group, session int
	marked                      bool
	replacing                   bool // it is in execve: its new environment can't be read yet
}

// killTree kills a program that was not waited for, and all processes that it started:
// its children, its group and session, and processes with its mark in the
// environment. They are stopped first, so that none starts another during the search.
func killTree(pid int, mark string) {
	killProcesses(func(p processInfo) bool { return p.pid == pid || p.group == pid || p.session == pid || p.marked }, mark)
}

// killDescendants kills the remaining processes of a program that was waited for. The
// kernel does not reuse its pid while its group or session exists; if another
// process has the pid, only the mark identifies the program's processes.
func killDescendants(pid int, mark string) {
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err == nil {
		killProcesses(func(p processInfo) bool { return p.marked }, mark)
		return
	}
	killProcesses(func(p processInfo) bool { return p.group == pid || p.session == pid || p.marked }, mark)
}

// killProcesses stops the matching processes and all their descendants, until there
// are no new ones, and then kills them. It waits a while for processes that can't be
// identified yet, because they are in execve.
func killProcesses(meant func(processInfo) bool, mark string) {
	ended := make(map[int]bool)
	for range 50 {
		fresh := 0
		list, between := findFamily(meant, mark)
		for _, p := range list {
			if !ended[p] {
				ended[p] = true
				fresh++
				_ = syscall.Kill(p, syscall.SIGSTOP) // it may have exited
			}
		}
		if fresh == 0 && !between {
			break
		}
		if fresh == 0 {
			time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel has no notification for the end of execve
		}
	}
	for p := range ended {
		_ = syscall.Kill(p, syscall.SIGKILL) // it may have exited
	}
}

// findFamily lists the matching processes and their descendants, and reports whether
// there are processes that can't be identified yet.
func findFamily(meant func(processInfo) bool, mark string) (list []int, between bool) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, false
	}
	var all []processInfo
	for _, dir := range dirs {
		if p, ok := readProcess(dir, mark); ok && p.pid > 1 && p.pid != os.Getpid() {
			all = append(all, p)
			between = between || p.replacing
		}
	}
	in := make(map[int]bool)
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !in[p.pid] && (in[p.parent] || meant(p)) {
				in[p.pid], grown = true, true
			}
		}
	}
	return slices.Collect(maps.Keys(in)), between
}

// readProcess reads a directory of /proc.
func readProcess(dir, mark string) (processInfo, bool) {
	pid, err := strconv.Atoi(filepath.Base(dir))
	if err != nil {
		return processInfo{}, false
	}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return processInfo{}, false // it has exited
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from field 3 of proc(5) on
	if len(f) < 49 || f[0] == "Z" {
		return processInfo{}, false
	}
	p := processInfo{pid: pid}
	var flags int
	for i, to := range map[int]*int{4: &p.parent, 5: &p.group, 6: &p.session, 9: &flags} {
		if *to, err = strconv.Atoi(f[i-3]); err != nil {
			return processInfo{}, false
		}
	}
	environ, err := os.ReadFile(dir + "/environ") // not readable for other users' processes, which are never ours
	p.marked = err == nil && bytes.Contains(environ, []byte(mark))
	const exiting, kernelThread = 0x4, 0x200000 // flags of include/linux/sched.h
	if err == nil && len(environ) == 0 && flags&(exiting|kernelThread) == 0 {
		// Field 51 is the end of the environment's memory. It is 0 in a program
		// that execve has not set up yet.
		p.replacing = f[51-3] == "0"
	}
	return p, true
}
