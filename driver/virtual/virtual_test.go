package virtual_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	// A directory that vfs.Host no longer needs is closed by its finalizer, whenever that runs.
	goleak.VerifyTestMain(withHelpers{m}, goleak.IgnoreAnyFunction("runtime.runFinalizers"))
}

// withHelpers runs tests with the helpers, in the real tier.
type withHelpers struct{ m *testing.M }

// Run runs the tests.
func (w withHelpers) Run() int { return helpertest.Main(w.m) }

func TestInMemory(t *testing.T) {
	testenv.Logic(t)
	atolltest.Run(t, virtual.New())
}

func TestKept(t *testing.T) {
	testenv.Logic(t)
	atolltest.Run(t, &virtual.Driver{Dir: t.TempDir()})
}

func BenchmarkVirtual(b *testing.B) { atolltest.Bench(b, virtual.New()) }
