package docker

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// openProcess opens the main process of a container. It looks the process up again afterwards: the
// first may have exited meanwhile, and another process may have its number.
func openProcess(look func() (container.InspectResponse, error)) (*os.File, int, error) {
	c, err := look()
	if err != nil {
		return nil, 0, err
	}
	pid := c.State.Pid
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: process %d of the container: %w", atoll.ErrUnavailable, pid, err)
	}
	f := os.NewFile(uintptr(fd), "process")
	now, err := look()
	if err == nil && (now.State.Pid != pid || now.State.StartedAt != c.State.StartedAt) {
		err = fmt.Errorf("%w: the container was restarted meanwhile", atoll.ErrState)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, pid, nil
}

// openMainProcess opens the main process of the sandbox's container.
func (s *Sandbox) openMainProcess(ctx context.Context) (*os.File, int, error) {
	name := s.currentContainer()
	return openProcess(func() (container.InspectResponse, error) { return s.e.inspectContainer(ctx, name) })
}
