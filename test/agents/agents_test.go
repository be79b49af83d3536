//go:build linux

// Package agents tests real coding agents in real sandboxes with a model whose answers
// are scripted.
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

// tempRoot is a directory that is removed when this test binary exits.
var tempRoot string

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "agents and their programs", setUpAndRun)) }

func setUpAndRun(m *testing.M) int {
	var err error
	if tempRoot, err = os.MkdirTemp(cmp.Or(os.Getenv("ATOLL_TEST_DIR"), "/var/tmp"), "atoll-agents-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(tempRoot)
	if err := os.Chmod(tempRoot, 0o755); err != nil {
		panic(err)
	}
	return enginetest.Main(m, helpertest.Main)
}

// findProgram returns the path of an agent's program, from a variable that
// scripts/agents sets.
func findProgram(t testing.TB, name string) string {
	t.Helper()
	return testenv.Program(t, name, "ATOLL_"+strings.ToUpper(name))
}

// testDriver is a driver with an image for its sandboxes.
type testDriver struct {
	driver atoll.Driver
	image  string // empty: the driver's default image
}

// forEachDriver runs a test for every driver that works on this machine.
func forEachDriver(t *testing.T, test func(t *testing.T, p testDriver)) {
	t.Helper()
	t.Run("namespace", func(t *testing.T) {
		d := &namespace.Driver{Dir: makeTempDir(t)}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		if _, err := d.Probe(t.Context()); err != nil {
			testenv.Skip(t, "namespace", "%v", err)
		}
		test(t, testDriver{driver: d})
	})
	t.Run("docker", func(t *testing.T) {
		d := &docker.Driver{Host: enginetest.Host(t), Dir: makeTempDir(t)}
		if _, err := d.Probe(t.Context()); err != nil {
			testenv.Skip(t, "docker", "%v", err)
		}
		test(t, testDriver{driver: d, image: importProgramsImage(t, d)})
	})
}

// makeTempDir creates a directory below tempRoot.
func makeTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(tempRoot, "place-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// sharedImage is the image that the tests of the Docker driver share.
var sharedImage struct {
	image string // empty: not imported
}
