//go:build linux

// Package agents runs real coding agents in real sandboxes, against a model
// that says what a script has.
package agents

import (
	"cmp"
	"os"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// kept holds what lives as long as this test binary.
var kept string

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "agents and their programs", prepare)) }

func prepare(m *testing.M) int {
	var err error
	if kept, err = os.MkdirTemp(cmp.Or(os.Getenv("ATOLL_TEST_DIR"), "/var/tmp"), "atoll-agents-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(kept)
	if err := os.Chmod(kept, 0o755); err != nil {
		panic(err)
	}
	return enginetest.Main(m, helpertest.Main)
}

// program returns the file that a variable of scripts/agents names: the program
// of an agent.
func program(t testing.TB, name string) string {
	t.Helper()
	return testenv.Program(t, name, "ATOLL_"+strings.ToUpper(name))
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
			testenv.Skip(t, "namespace", "%v", err)
		}
		test(t, place{driver: d})
	})
	t.Run("docker", func(t *testing.T) {
		d := &docker.Driver{Host: enginetest.Host(t), Dir: scratch(t)}
		if _, err := d.Probe(t.Context()); err != nil {
			testenv.Skip(t, "docker", "%v", err)
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

// private is what the tests of one engine share.
var private struct {
	image string // empty: not imported
}
