package guest

import (
	"os"
	"testing"
)

// TestThreadsAreReserved checks that the guest has its threads before the programs of a sandbox can
// use up its processes.
func TestThreadsAreReserved(t *testing.T) {
	reserveThreads()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks) < reservedThreads {
		t.Errorf("%d threads, want at least %d", len(tasks), reservedThreads)
	}
}
