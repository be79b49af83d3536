package project_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/project"
)

// TestLockedRepository has lock files of git in the way: of a process that lives,
// of one that was killed, of gits of an atoll that was killed. Only the last are
// taken away; of the others it says whose they are, and what to do.
func TestLockedRepository(t *testing.T) {
	dir, r, sb := there(t)
	sh(t, sb, commitThird+"touch .git/index.lock")
	lock := filepath.Join(dir, ".git/index.lock")
	before := hostState(t, dir)
	refused := func(what, says string) {
		t.Helper()
		_, err := r.Sync(t.Context(), sb, box)
		if !errors.Is(err, project.ErrLocked) || errors.Is(err, project.ErrDirty) || !strings.Contains(err.Error(), lock) || !strings.Contains(err.Error(), says) {
			t.Fatalf("%s: %v", what, err)
		}
		same(t, "the host, "+what, hostState(t, dir), before)
	}
	left := func(host string) {
		t.Helper()
		b, err := json.Marshal(map[string]any{"host": host, "absent": []string{"HEAD.lock", "index.lock", "../outside.lock", "config"}})
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, ".git/atoll-at-work", string(b))
	}
	outside := filepath.Join(filepath.Dir(lock), "../outside.lock")
	write(t, dir, "outside.lock", "not git's")
	before = hostState(t, dir)
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), "sh", "-c", `exec 9>"$0"; echo; exec sleep 1000`, lock)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	refused("of a process that lives", "belongs to process "+strconv.Itoa(cmd.Process.Pid)+" (sleep 1000): try again when that has ended")
	left(here)
	refused("of a process that lives, after a turn", "belongs to process "+strconv.Itoa(cmd.Process.Pid))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	refused("of one that was killed", "no process of this host has it open: a killed git left it there")
	left("another-machine")
	refused("of another machine's atoll", "no process of this host has it open")

	left(here)
	write(t, dir, ".git/HEAD.lock", "")
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	same(t, "file", read(t, dir, "c.txt"), "three\n")
	for name, is := range map[string]bool{lock: false, filepath.Join(dir, ".git/HEAD.lock"): false, outside: true, filepath.Join(dir, ".git/config"): true} {
		if _, err := os.Lstat(name); (err == nil) != is {
			t.Errorf("%s: %v", name, err)
		}
	}
	same(t, "the turn", read(t, dir, ".git/atoll-at-work"), "")
	write(t, dir, ".git/refs/heads/main.lock", "")
	sh(t, sb, "rm .git/index.lock; echo four >d.txt; git add d.txt; git commit -qm four")
	_, err = r.Sync(t.Context(), sb, box)
	is(t, err, project.ErrLocked)
}
