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
	err := stop(private.dir)
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
	requireEngine(t)
	private.once.Do(func() { private.dir, private.host, private.err = start("") })
	if private.err != nil {
		t.Fatalf("starting an engine: %v", private.err)
	}
	return private.host
}

// requireEngine skips the test where no engine can be started.
func requireEngine(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("dockerd"); err != nil || os.Geteuid() != 0 {
		testenv.Skip(t, "docker", "dockerd (apt-get install docker.io busybox-static) and root to run it are missing")
	}
}

// Engine is an engine of one test, which may restart it.
type Engine struct {
	Host string

	dir, args string
}

// Start starts an engine with further arguments, such as "--live-restore". It is stopped when the
// test ends.
func Start(t testing.TB, args string) *Engine {
	t.Helper()
	testenv.Real(t, "docker")
	requireEngine(t)
	dir, host, err := start(args)
	t.Cleanup(func() {
		if dir == "" {
			return
		}
		if err := stop(dir); err != nil {
			t.Errorf("stopping the engine: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("starting an engine: %v", err)
	}
	return &Engine{Host: host, dir: dir, args: args}
}

// Restart restarts the engine as its administrator does, and waits until it answers.
func (e *Engine) Restart(t testing.TB) {
	t.Helper()
	if err := runEngineScript("restart", e.dir, e.args, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
}

// Dir returns the directory that holds everything of the engine.
func Dir(t testing.TB) string {
	t.Helper()
	return filepath.Dir(strings.TrimPrefix(Host(t), "unix://"))
}

// start starts an engine in a new directory, which may exist after an error, too.
func start(args string) (dir, host string, err error) {
	if dir, err = os.MkdirTemp("", "atoll-engine-"); err != nil {
		return "", "", err
	}
	var out bytes.Buffer
	if err = runEngineScript("start", dir, args, &out); err == nil {
		_, host, _ = strings.Cut(strings.TrimSpace(out.String()), "DOCKER_HOST=")
	}
	return dir, host, err
}

// stop stops the engine of a directory and removes the directory.
func stop(dir string) error {
	err := runEngineScript("stop", dir, "", new(bytes.Buffer))
	if err == nil {
		err = os.RemoveAll(dir)
	}
	return err
}

// runEngineScript runs a command of scripts/engine with the directory of an engine and further
// arguments of dockerd.
func runEngineScript(verb, engine, args string, out *bytes.Buffer) error {
	dir, err := os.Getwd() // of the package
	if err != nil {
		return err
	}
	for !fileExists(filepath.Join(dir, "go.mod")) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	cmd := exec.Command(filepath.Join(dir, "scripts/engine"), verb, engine) //nolint:noctx // it ends by itself
	cmd.Env = append(os.Environ(), fmt.Sprintf("ENGINE_OWNER=%d", os.Getpid()))
	if args != "" {
		cmd.Env = append(cmd.Env, "ENGINE_ARGS="+args)
	}
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
