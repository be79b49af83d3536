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

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

const buildTime = 5 * time.Minute // for all helpers, on a slow host without a build cache

// Main is Build for a package that needs the helpers in the real tier only: in
// the logic tier it builds nothing and runs the tests.
func Main(m *testing.M) int {
	if !testenv.All() {
		return m.Run()
	}
	return Build(m)
}

// Build builds the helpers into a directory that $ATOLL_HELPERS then names, runs
// the tests and returns their exit code for os.Exit. A directory that is named
// already is used as it is.
func Build(m *testing.M) int {
	if os.Getenv("ATOLL_HELPERS") != "" {
		return m.Run()
	}
	dir := makeDir()
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		panic(err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "./cmd/atoll-guest", "./cmd/atoll-egress", "./cmd/atoll-sftp", "./cmd/atoll-tool", "./cmd/atoll-worker", "./cmd/atoll-python")
	cmd.Dir = filepath.Clean(strings.TrimSpace(string(root)))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic("building the helpers: " + string(out))
	}
	return runWith(m, dir)
}

// Own is Main with helpers that no other process runs, for tests that recognize their own processes
// by them: the helpers of a directory that is set are copied.
func Own(m *testing.M) int {
	from := os.Getenv("ATOLL_HELPERS")
	if from == "" || !testenv.All() || from == os.Getenv(ownVar) { // the last: in a process that a test has started
		return Main(m)
	}
	dir := makeDir()
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		panic(err)
	}
	if err := os.Setenv(ownVar, dir); err != nil {
		panic(err)
	}
	return runWith(m, dir)
}

// ownVar names the helpers that Own has copied.
const ownVar = "ATOLL_OWN_HELPERS"

func makeDir() string {
	dir, err := os.MkdirTemp("", "atoll-helpers-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // other users' sandboxes run them
	}
	if err != nil {
		panic(err)
	}
	return dir
}

func runWith(m *testing.M, helpers string) int {
	if err := os.Setenv("ATOLL_HELPERS", helpers); err != nil {
		panic(err)
	}
	return m.Run()
}
