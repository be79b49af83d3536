//go:build linux

package work

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// newDriver returns the namespace driver. It skips the test if it does not work, or
// fails it if ATOLL_MUST names it.
func newDriver(t *testing.T) atoll.Driver {
	t.Helper()
	d := &namespace.Driver{Dir: t.TempDir()}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.Probe(t.Context()); err != nil {
		testenv.Skip(t, "namespace", "%v", err)
	}
	return d
}
