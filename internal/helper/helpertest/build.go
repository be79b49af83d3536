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
	dir, err := os.MkdirTemp("", "atoll-helpers-")
	if err != nil {
		panic(err)
	}
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
	if err := os.Chmod(dir, 0o755); err != nil { // sandboxes of other users run them
		panic(err)
	}
	if err := os.Setenv("ATOLL_HELPERS", dir); err != nil {
		panic(err)
	}
	return m.Run()
}
