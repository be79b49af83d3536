//go:build linux

package work

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// newDriver returns the namespace driver, or skips where there is none; where
// ATOLL_MUST names it, it fails.
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
