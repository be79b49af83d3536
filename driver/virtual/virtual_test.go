package virtual_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

func TestMain(m *testing.M) {
	// A directory that vfs.Host no longer needs is closed by its finalizer, whenever that runs.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("runtime.runFinalizers"))
}

func TestInMemory(t *testing.T) { atolltest.Run(t, virtual.New()) }

func TestKept(t *testing.T) { atolltest.Run(t, &virtual.Driver{Dir: t.TempDir()}) }

func BenchmarkVirtual(b *testing.B) { atolltest.Bench(b, virtual.New()) }
