//go:build unix

package launch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// Replace replaces this process with the full program. It returns only if that fails; the error is
// atoll.ErrUnavailable if there is no full program.
func Replace(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argv := append([]string{self}, args...) // by its path the full program finds atoll: see helper.Executable
	path, err := helper.Finder{}.FindFull()
	if err == nil {
		err = fmt.Errorf("%s: %w", path, syscall.Exec(path, argv, os.Environ()))
	}
	f, lerr := helper.LoadFull()
	if lerr != nil {
		if errors.Is(err, atoll.ErrUnavailable) {
			return err
		}
		return errors.Join(err, lerr)
	}
	defer f.Close()
	return errors.Join(err, syscall.Exec("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), argv, os.Environ()))
}
