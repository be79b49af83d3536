package project

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// holders are the processes of this machine that have a lock file of the
// repository, or may have it: who has it open, and each git that is at work in the
// repository, which has closed it while it waits for an editor. known: they could
// be found out.
func (r *Repo) holders(name string) (who []string, known bool) {
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
		if filepath.Base(dir) != fmt.Sprint(os.Getpid()) && (opened(dir, real) || gitIn(dir, places)) {
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended just now
			who = append(who, fmt.Sprintf("process %s (%s)", filepath.Base(dir), strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))))
		}
	}
	return who, true
}

// opened reports whether a process has a file open, as far as that is to be seen.
func opened(proc, name string) bool {
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return false // another user's, or it has ended
	}
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join(proc, "fd", fd.Name())); err == nil && to == name {
			return true
		}
	}
	return false
}

// gitIn reports whether a process is a git that works in one of the places, or may:
// where that of another user works is not to be seen.
func gitIn(proc string, places []string) bool {
	comm, err := os.ReadFile(filepath.Join(proc, "comm"))
	if err != nil || !strings.HasPrefix(string(comm), "git") {
		return false
	}
	if stat, err := os.ReadFile(filepath.Join(proc, "stat")); err == nil && strings.Contains(string(stat), ") Z ") {
		return false // it has ended
	}
	at, err := os.Readlink(filepath.Join(proc, "cwd"))
	if err != nil {
		return !os.IsNotExist(err)
	}
	line, _ := os.ReadFile(filepath.Join(proc, "cmdline")) // as above
	for _, dir := range places {
		if at == dir || strings.HasPrefix(at, dir+"/") || strings.Contains(string(line), dir) {
			return true
		}
	}
	return false
}
