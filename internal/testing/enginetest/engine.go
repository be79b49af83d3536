// Package enginetest gives tests a Docker engine of their own, as scripts/engine
// starts it.
package enginetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// hostVar names the address of an engine that runs already, as scripts/test sets
// it. Without, the first test of a test binary that needs an engine starts one.
const hostVar = "ATOLL_ENGINE"

// private is the engine of this test binary.
var private struct {
	once sync.Once
	dir  string // empty: not started
	host string
	err  error
}

// Main runs the tests, stops the engine if one of them has started it, and returns
// their exit code for os.Exit.
func Main(m *testing.M, run func(*testing.M) int) int {
	code := run(m)
	if private.dir == "" {
		return code
	}
	err := runEngineScript("stop", new(bytes.Buffer))
	if err == nil {
		err = os.RemoveAll(private.dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stopping the engine:", err)
		return 1
	}
	return code
}

// Host returns the address of the engine, such as unix:///tmp/x/docker.sock. It
// skips the test in the logic tier and where there can be no engine. The test
// binary must run its tests with Main.
func Host(t testing.TB) string {
	t.Helper()
	testenv.Real(t, "docker")
	if host := os.Getenv(hostVar); host != "" {
		return host
	}
	if _, err := exec.LookPath("dockerd"); err != nil || os.Geteuid() != 0 {
		testenv.Skip(t, "docker", "dockerd (apt-get install docker.io busybox-static) and root to run it are missing")
	}
	private.once.Do(start)
	if private.err != nil {
		t.Fatalf("starting an engine: %v", private.err)
	}
	return private.host
}

// Dir returns the directory that holds everything of the engine.
func Dir(t testing.TB) string {
	t.Helper()
	return filepath.Dir(strings.TrimPrefix(Host(t), "unix://"))
}

// start starts the private engine.
func start() {
	if private.dir, private.err = os.MkdirTemp("", "atoll-engine-"); private.err != nil {
		return
	}
	var out bytes.Buffer
	if private.err = runEngineScript("start", &out); private.err == nil {
		_, private.host, _ = strings.Cut(strings.TrimSpace(out.String()), "DOCKER_HOST=")
	}
}

// runEngineScript runs a command of scripts/engine with the directory of the private engine.
func runEngineScript(verb string, out *bytes.Buffer) error {
	dir, err := os.Getwd() // of the package
	if err != nil {
		return err
	}
	for !fileExists(filepath.Join(dir, "go.mod")) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	cmd := exec.Command(filepath.Join(dir, "scripts/engine"), verb, private.dir)
	cmd.Env = append(os.Environ(), fmt.Sprintf("ENGINE_OWNER=%d", os.Getpid()))
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("scripts/engine %s: %w: %s", verb, err, log.String())
	}
	return nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
