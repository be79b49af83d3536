package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// InstallHelpers builds the helpers of a version with go and puts them beside this program. It prints what it
// does to out. version is that of this program: [helper.Version].
func InstallHelpers(ctx context.Context, version string, out io.Writer) error {
	if helper.IsPacked(helper.FullProgram) {
		_, err := fmt.Fprintln(out, "this atoll has its other programs in itself: nothing is missing")
		return err
	}
	if version == "" {
		return fmt.Errorf("%w: this atoll was built of a checkout: run `make build` there, which puts the helpers into it", atoll.ErrUnavailable)
	}
	self, err := helper.Executable()
	if err != nil {
		return err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return err
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("%w: the go command is missing: install Go from go.dev, or a release of atoll, which has the helpers in it: %w", atoll.ErrUnavailable, err)
	}
	cmd := exec.CommandContext(ctx, tool, helper.InstallArgs(version)...)
	// Into the directory of this program, without what would make the programs others: a module in the
	// current directory, C code, and flags of the user's.
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOBIN="+filepath.Dir(self), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=")
	cmd.Stdout, cmd.Stderr = out, out
	if _, err := fmt.Fprintf(out, "GOBIN=%s CGO_ENABLED=0 go %s\n", filepath.Dir(self), strings.Join(quoteArgs(cmd.Args[1:]), " ")); err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: go install: %w", atoll.ErrUnavailable, err)
	}
	if missing := helper.MissingBeside(); len(missing) > 0 {
		return fmt.Errorf("%w: go install did not make %s", atoll.ErrUnavailable, strings.Join(missing, ", "))
	}
	return nil
}

// quoteArgs quotes arguments with spaces for a shell.
func quoteArgs(args []string) []string {
	quoted := make([]string, len(args))
	for i, a := range args {
		if quoted[i] = a; strings.Contains(a, " ") {
			quoted[i] = "'" + a + "'"
		}
	}
	return quoted
}
