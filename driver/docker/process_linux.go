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

// hold opens the main process of a container. It asks again once it has it: the
// first may have ended meanwhile, and its number be another's.
func hold(look func() (container.InspectResponse, error)) (*os.File, int, error) {
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
		err = fmt.Errorf("%w: the container was started anew meanwhile", atoll.ErrState)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, pid, nil
}

// held opens the main process of the sandbox's container.
func (s *Sandbox) held(ctx context.Context) (*os.File, int, error) {
	name := s.current()
	return hold(func() (container.InspectResponse, error) { return s.e.inspect(ctx, name) })
}
