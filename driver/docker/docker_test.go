package docker_test

import (
	"os"
	"testing"

	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
)

// TestMain runs the tests with their own copy of the helpers, so that they recognize leaked
// processes by their program.
func TestMain(m *testing.M) { os.Exit(enginetest.Main(m, helpertest.Own)) }

// newDriver returns a driver of the tests' engine.
func newDriver(t testing.TB) *docker.Driver {
	t.Helper()
	return &docker.Driver{Host: enginetest.Host(t), Dir: t.TempDir()}
}

func TestDriver(t *testing.T) {
	t.Parallel() // at the same time as TestRemote: both mostly wait for the engine
	atolltest.Run(t, newDriver(t))
}

func BenchmarkDocker(b *testing.B) { atolltest.Bench(b, newDriver(b)) }
