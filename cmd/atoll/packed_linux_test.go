package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// packAtoll builds atoll with the full program packed into it, as `make build` does.
func packAtoll(t *testing.T, dir string) string {
	t.Helper()
	path, full := filepath.Join(dir, "atoll"), filepath.Join(dir, "build", helper.FullProgram)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	b, err := os.ReadFile(testenv.Atoll(t)) // it is the full program
	if err := errors.Join(err, os.Mkdir(filepath.Dir(full), 0o755), os.WriteFile(full, b, 0o755), helper.Pack(path, full), os.RemoveAll(filepath.Dir(full))); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPackedProgram runs commands with the one file that is installed: with a cache, in a cache that
// others can write, and where no cache can be.
func TestPackedProgram(t *testing.T) {
	testenv.Real(t, "a built atoll")
	dir := t.TempDir()
	program := packAtoll(t, dir)
	cache := filepath.Join(dir, "cache", "atoll")
	call := func(env string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "ATOLL_HOME=" + filepath.Join(dir, "home"), env}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	want := func(env, output string, args ...string) {
		t.Helper()
		if out, err := call(env, args...); err != nil || !strings.Contains(out, output) {
			t.Errorf("atoll %q: %v, %q, want %q", args, err, out, output)
		}
	}
	found := func() []string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(cache, helper.FullProgram+"-*"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	own := "XDG_CACHE_HOME=" + filepath.Join(dir, "cache")
	want(own, "atoll devel", "version")
	if files := found(); len(files) != 0 {
		t.Errorf("'atoll version' unpacked %q", files)
	}
	for range 2 { // the second time it is there
		want(own, "hi\n", "run", "--", "echo", "hi")
	}
	files := found()
	if len(files) != 1 {
		t.Fatalf("unpacked: %q", files)
	}
	want(own, "ProxyCommand "+program+" ", "config-ssh", "--dry-run", "--file", filepath.Join(dir, "ssh")) // not the path of what it unpacked
	if _, err := call(own, "run", "--", "sh", "-c", "exit 3"); exitStatus(err) != 3 {
		t.Errorf("the status of a command: %v", err)
	}

	// A program that was cut short, or that others can replace, is not run.
	if err := os.Truncate(files[0], 1000); err != nil {
		t.Fatal(err)
	}
	want(own, "hi\n", "run", "--", "echo", "hi")
	trap := "#!/bin/sh\necho trapped\n"
	info, err := os.Stat(files[0])
	if err == nil {
		err = errors.Join(os.WriteFile(files[0], []byte(trap), 0o755), os.Truncate(files[0], info.Size()), os.Chmod(cache, 0o777))
	}
	if err != nil {
		t.Fatal(err)
	}
	want(own, "hi\n", "run", "--", "echo", "hi")
	want("HOME=", "hi\n", "run", "--", "echo", "hi") // from memory
}

// exitStatus returns the exit status that an error of a process has; -1: none.
func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
