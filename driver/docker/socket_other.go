//go:build !linux

package docker

import (
	"context"
	"errors"
	"net"

	"github.com/atoll-sandbox/atoll"
)

const onLinux = false

var errNoSocket = errors.New("the guest does not listen")

// dialSocket: the engine's kernel is another, and its sockets are not here.
func dialSocket(context.Context, string, string, string) (net.Conn, error) {
	return nil, atoll.ErrUnsupported
}

type watch struct{}

func watchSocket(string, string) (*watch, error) { return nil, atoll.ErrUnsupported }

func (*watch) next(context.Context) error { return atoll.ErrUnsupported }

func (*watch) close() {}
