package fleet

import (
	"testing"

	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// testRegistry opens the registry of a home until the end of the test.
func testRegistry(t testing.TB, home string) *registry.Store {
	t.Helper()
	s, err := registry.OpenSQLite(t.Context(), home, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
