//go:build !unix

package launch

import (
	"errors"
	"os"
	"os/exec"

	"github.com/atoll-sandbox/atoll/internal/helper"
)

// Replace runs the full program and exits with its status: processes of this system can't be
// replaced. It returns only if that fails; the error is atoll.ErrUnavailable if there is no full program.
func Replace(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	path, err := helper.Finder{}.FindFull()
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{Path: path, Args: append([]string{self}, args...), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return err
	}
	os.Exit(cmd.ProcessState.ExitCode())
	return nil
}
