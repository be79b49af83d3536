package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binaryVar names an atoll that is built already, as scripts/test sets it.
const binaryVar = "ATOLL_BINARY"

// builtDir holds what Atoll built; Main removes it. Empty: nothing.
var builtDir string

// buildAtoll builds the atoll command and returns its path.
var buildAtoll = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(binaryVar); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "atoll-bin-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	path := filepath.Join(dir, "atoll")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/atoll-sandbox/atoll/cmd/atoll-full")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// Atoll returns the path of the atoll command, without packed helpers: the one
// that $ATOLL_BINARY names, or one that it builds once for the test binary. The
// test binary must run its tests with Main, which removes what was built.
func Atoll(t testing.TB) string {
	t.Helper()
	path, err := buildAtoll()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
