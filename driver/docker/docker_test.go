package docker_test

import (
	"os"
	"testing"

	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
)

// TestMain has helpers that only these tests run: leaks are looked for among the
// processes that run them.
func TestMain(m *testing.M) { os.Exit(enginetest.Main(m, helpertest.Own)) }

// local returns a driver of the tests' engine.
func local(t testing.TB) *docker.Driver {
	t.Helper()
	return &docker.Driver{Host: enginetest.Host(t), Dir: t.TempDir()}
}

func TestDriver(t *testing.T) {
	t.Parallel() // beside TestRemote: both wait for the engine more than they work
	atolltest.Run(t, local(t))
}

func BenchmarkDocker(b *testing.B) { atolltest.Bench(b, local(b)) }
