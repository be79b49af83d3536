//go:build linux

// Package agents runs real coding agents in real sandboxes, against a model
// that says what a script has.
package agents

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/helper/helpertest"
	"github.com/atoll-sandbox/atoll/internal/musthave"
)

// kept holds what lives as long as this test binary.
var kept string

func TestMain(m *testing.M) { os.Exit(prepare(m)) }

func prepare(m *testing.M) int {
	var err error
	if kept, err = os.MkdirTemp(cmp.Or(os.Getenv("ATOLL_TEST_DIR"), "/var/tmp"), "atoll-agents-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(kept)
	if err := os.Chmod(kept, 0o755); err != nil {
		panic(err)
	}
	defer stopEngine()
	return helpertest.Main(m)
}

// program returns the file that a variable of scripts/agents names: the program
// of an agent.
func program(t testing.TB, name string) string {
	t.Helper()
	return musthave.Program(t, name, "ATOLL_"+strings.ToUpper(name))
}

// place is where sandboxes are made.
type place struct {
	driver atoll.Driver
	image  string // empty: the driver's own has what agents need
}

// each runs a test for every driver that can be tried here.
func each(t *testing.T, test func(t *testing.T, p place)) {
	t.Helper()
	t.Run("namespace", func(t *testing.T) {
		d := &namespace.Driver{Dir: scratch(t)}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		if _, err := d.Probe(t.Context()); err != nil {
			musthave.Skip(t, "namespace", "%v", err)
		}
		test(t, place{driver: d})
	})
	t.Run("docker", func(t *testing.T) {
		d := &docker.Driver{Host: engine(t), Dir: scratch(t)}
		if _, err := d.Probe(t.Context()); err != nil {
			musthave.Skip(t, "docker", "%v", err)
		}
		test(t, place{driver: d, image: rootFS(t, d)})
	})
}

// scratch makes a directory that ends with the test.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(kept, "place-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// private is the Docker engine of these tests, and the image in it.
var private struct {
	dir, host, image string
}

// engine returns the address of a Docker engine: that which ATOLL_ENGINE names,
// or one that the first test starts.
func engine(t testing.TB) string {
	t.Helper()
	if host := os.Getenv("ATOLL_ENGINE"); host != "" {
		return host
	}
	if private.host != "" {
		return private.host
	}
	if _, err := exec.LookPath("dockerd"); err != nil || os.Geteuid() != 0 {
		musthave.Skip(t, "docker", "dockerd (apt-get install docker.io busybox-static) and root to run it are missing")
	}
	private.dir = filepath.Join(kept, "engine")
	cmd := exec.Command("../../scripts/engine", "start", private.dir) //nolint:noctx // it has a deadline of its own
	cmd.Env = append(os.Environ(), fmt.Sprintf("ENGINE_OWNER=%d", os.Getpid()))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	_, host, found := strings.Cut(strings.TrimSpace(string(out)), "DOCKER_HOST=")
	if err != nil || !found {
		t.Fatalf("starting a private engine: %v: %s", err, out)
	}
	private.host = host
	return host
}

func stopEngine() {
	if private.dir == "" {
		return
	}
	if out, err := exec.Command("../../scripts/engine", "stop", private.dir).CombinedOutput(); err != nil { //nolint:noctx // likewise
		panic("stopping the engine: " + string(out))
	}
}
