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

// lead makes a program the first of a group of its own, so that it and its
// children can be found, and are not interrupted with us.
func lead(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// processInfo is a process of the host, as far as who belongs to whom goes.
type processInfo struct {
	pid, parent, group, session int
	marked                      bool
	between                     bool // two programs, with no environment to look into yet
}

// endTree ends a program that was not waited for, and all that it has started:
// its children, its group and session, and whoever carries its mark in the
// environment. They are stopped first, so that none starts another while the
// others are looked for.
func endTree(pid int, mark string) {
	end(func(p processInfo) bool { return p.pid == pid || p.group == pid || p.session == pid || p.marked }, mark)
}

// endRest ends what is left of a program that has ended and was waited for. Its
// number is not given to another as long as its group or session is there; if
// another has it, only the mark tells who is meant.
func endRest(pid int, mark string) {
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err == nil {
		end(func(p processInfo) bool { return p.marked }, mark)
		return
	}
	end(func(p processInfo) bool { return p.group == pid || p.session == pid || p.marked }, mark)
}

// end stops the processes that are meant and all their descendants, until there
// are no more, and then ends them. It waits a while for processes of which
// nobody can tell yet, since they are becoming another program.
func end(meant func(processInfo) bool, mark string) {
	ended := make(map[int]bool)
	for range 50 {
		fresh := 0
		list, between := kin(meant, mark)
		for _, p := range list {
			if !ended[p] {
				ended[p] = true
				fresh++
				_ = syscall.Kill(p, syscall.SIGSTOP) // it may be gone
			}
		}
		if fresh == 0 && !between {
			break
		}
		if fresh == 0 {
			time.Sleep(time.Millisecond) // there is nothing that tells when a program has begun
		}
	}
	for p := range ended {
		_ = syscall.Kill(p, syscall.SIGKILL) // it may be gone
	}
}

// kin lists the processes that are meant and their descendants, and says whether
// there are others that may be meant.
func kin(meant func(processInfo) bool, mark string) (list []int, between bool) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, false
	}
	var all []processInfo
	for _, dir := range dirs {
		if p, ok := inspect(dir, mark); ok && p.pid > 1 && p.pid != os.Getpid() {
			all = append(all, p)
			between = between || p.between
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

// inspect reads a directory of /proc.
func inspect(dir, mark string) (processInfo, bool) {
	pid, err := strconv.Atoi(filepath.Base(dir))
	if err != nil {
		return processInfo{}, false
	}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return processInfo{}, false // it is gone
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
	environ, err := os.ReadFile(dir + "/environ") // of others it can't be read, and they are none of ours
	p.marked = err == nil && bytes.Contains(environ, []byte(mark))
	const exiting, kernelThread = 0x4, 0x200000 // flags of include/linux/sched.h
	if err == nil && len(environ) == 0 && flags&(exiting|kernelThread) == 0 {
		// An empty environment has a place, of which field 51 is the end. A new
		// program has none from when it replaced the old until it is laid out.
		p.between = f[51-3] == "0"
	}
	return p, true
}
