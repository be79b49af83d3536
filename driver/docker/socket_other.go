//go:build !linux

package docker

import (
	"context"
	"errors"
	"net"

	"github.com/atoll-sandbox/atoll"
)

const onLinux = false

var errNoSocket = errors.New("the guest does not listen: the container is starting, or was stopped, as by a restart of its engine")

// dialSocket returns an error: the engine runs on another kernel, whose sockets can't be reached.
func dialSocket(context.Context, string, string, string) (net.Conn, error) {
	return nil, atoll.ErrUnsupported
}

type watch struct{}

func watchSocket(string, string) (*watch, error) { return nil, atoll.ErrUnsupported }

func (*watch) next(context.Context) error { return atoll.ErrUnsupported }

func (*watch) close() {}
