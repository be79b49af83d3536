package namespace_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/leaktest"
)

// TestSandboxesLeaveNothing creates, uses and destroys many sandboxes, eight at once.
func TestSandboxesLeaveNothing(t *testing.T) {
	d := newDriver(t)
	leaktest.UseMany(t, d, d.Dir, leaktest.Rounds(t, 40), 8)
}
