package workspace

import (
	"strings"
	"testing"
)

// TestOwnerDirectories checks that owners have distinct directories on a case-insensitive file
// system.
func TestOwnerDirectories(t *testing.T) {
	seen := map[string]string{}
	names := []string{"a", "A", "aa", "aA", "Aa", "AA", "local", "Local", "LOCAL", "a@b.c+d_e-f", "A@B.C", strings.Repeat("X", 128), strings.Repeat("x", 128), "a1B2c3D4e5F6"}
	for _, n := range names {
		dir := encodeDir(n)
		if other, ok := seen[strings.ToLower(dir)]; ok {
			t.Errorf("%q and %q share %q", n, other, dir)
		}
		seen[strings.ToLower(dir)] = n
		if back, ok := decodeDir(dir); !ok || back != n {
			t.Errorf("%q is in %q, which is read as %q, %v", n, dir, back, ok)
		}
		if len(dir) > 255 {
			t.Errorf("%q is too long for a directory", dir)
		}
	}
	for _, dir := range []string{"A", "a!", "a!0", "a!2", "a!g", "a!!1", "a!10", "!1"} {
		if name, ok := decodeDir(dir); ok {
			t.Errorf("%q is read as %q", dir, name)
		}
	}
}
