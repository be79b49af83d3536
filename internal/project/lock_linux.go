package project

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// findLockHolders returns the processes of this machine that hold a lock file of the repository, or may
// hold it: those that have it open, and each git that works in the repository, which may have closed it
// while it waits for an editor. known is false if processes can't be listed.
func (r *Repo) findLockHolders(name string) (who []string, known bool) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		real = name
	}
	var places []string
	for _, dir := range []string{r.Dir, r.common} {
		places = append(places, dir)
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
			places = append(places, real)
		}
	}
	list, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(list) == 0 {
		return nil, false
	}
	for _, dir := range list {
		if filepath.Base(dir) != fmt.Sprint(os.Getpid()) && (hasOpen(dir, real) || isGitIn(dir, places)) {
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // the process may have ended
			who = append(who, fmt.Sprintf("process %s (%s)", filepath.Base(dir), strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))))
		}
	}
	return who, true
}

// hasOpen reports whether a process has a file open, as far as that is visible.
func hasOpen(proc, name string) bool {
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return false // of another user, or ended
	}
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join(proc, "fd", fd.Name())); err == nil && to == name {
			return true
		}
	}
	return false
}

// isGitIn reports whether a process is a git that works in one of the directories, or may: the working
// directory of another user's process is not visible.
func isGitIn(proc string, places []string) bool {
	comm, err := os.ReadFile(filepath.Join(proc, "comm"))
	if err != nil || !strings.HasPrefix(string(comm), "git") {
		return false
	}
	if stat, err := os.ReadFile(filepath.Join(proc, "stat")); err == nil && strings.Contains(string(stat), ") Z ") {
		return false // a zombie
	}
	at, err := os.Readlink(filepath.Join(proc, "cwd"))
	if err != nil {
		return !os.IsNotExist(err)
	}
	line, _ := os.ReadFile(filepath.Join(proc, "cmdline")) // the process may have ended
	for _, dir := range places {
		if at == dir || strings.HasPrefix(at, dir+"/") || strings.Contains(string(line), dir) {
			return true
		}
	}
	return false
}
