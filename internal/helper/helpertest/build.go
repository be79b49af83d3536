// Package helpertest builds the helpers for tests.
package helpertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const buildTime = 5 * time.Minute // for all helpers, on a slow machine without a cache

// Main builds the helpers into a directory that $ATOLL_HELPERS then names, runs
// the tests and returns their exit code: what TestMain is for. A directory that
// is named already is used as it is.
func Main(m *testing.M) int {
	if os.Getenv("ATOLL_HELPERS") != "" {
		return m.Run()
	}
	dir := place()
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		panic(err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "./cmd/atoll-guest", "./cmd/atoll-gate", "./cmd/atoll-sftp", "./cmd/atoll-tool")
	cmd.Dir = filepath.Clean(strings.TrimSpace(string(root)))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic("building the helpers: " + string(out))
	}
	return with(m, dir)
}

// Own is Main with helpers that nobody else runs, for tests that know their own
// processes by them: those of a directory that is named are copied.
func Own(m *testing.M) int {
	from := os.Getenv("ATOLL_HELPERS")
	if from == "" {
		return Main(m)
	}
	dir := place()
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		panic(err)
	}
	return with(m, dir)
}

func place() string {
	dir, err := os.MkdirTemp("", "atoll-helpers-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // sandboxes of other users run them
	}
	if err != nil {
		panic(err)
	}
	return dir
}

func with(m *testing.M, helpers string) int {
	if err := os.Setenv("ATOLL_HELPERS", helpers); err != nil {
		panic(err)
	}
	return m.Run()
}
