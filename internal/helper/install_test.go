package helper_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/helper"
)

// TestNamesAreAllHelpers checks that every helper in cmd is installed.
func TestNamesAreAllHelpers(t *testing.T) {
	dirs, err := filepath.Glob("../../cmd/atoll-*")
	if err != nil || len(dirs) != len(helper.Names) {
		t.Errorf("cmd has %q, %v; Names has %q", dirs, err, helper.Names)
	}
	args := strings.Join(helper.InstallArgs("v1.0.0"), " ")
	for _, dir := range dirs {
		if !strings.Contains(args, "/cmd/"+filepath.Base(dir)+"@v1.0.0") {
			t.Errorf("go %s does not build %s", args, dir)
		}
	}
}
