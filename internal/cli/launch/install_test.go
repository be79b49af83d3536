package launch_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/launch"
)

// TestInstallHelpers builds the helpers with a fake go, which records how it is called.
func TestInstallHelpers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the fake go is a shell script")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$CGO_ENABLED,$GOFLAGS,$GOBIN\" \"$@\" >" + dir + "/log\nexit ${FAKE_STATUS:-0}\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv("GOFLAGS", "-race")
	var out bytes.Buffer
	// The fake builds nothing: that is noticed.
	if err := launch.InstallHelpers(t.Context(), "v1.2.3", &out); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "did not make") {
		t.Errorf("a go that builds nothing: %v", err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	want := "0,," + filepath.Dir(self) + " install -trimpath -ldflags=-s -w github.com/atoll-sandbox/atoll/cmd/atoll-full@v1.2.3 "
	if !strings.HasPrefix(string(log), want) || !strings.Contains(string(log), "/cmd/atoll-guest@v1.2.3") {
		t.Errorf("go was called with %q, want %q…", log, want)
	}
	t.Setenv("FAKE_STATUS", "1")
	if err := launch.InstallHelpers(t.Context(), "v1.2.3", &out); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "go install") {
		t.Errorf("a go that fails: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := launch.InstallHelpers(t.Context(), "v1.2.3", &out); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "go command is missing") {
		t.Errorf("without go: %v", err)
	}
	if err := launch.InstallHelpers(t.Context(), "", &out); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "make build") {
		t.Errorf("from a checkout: %v", err)
	}
}
