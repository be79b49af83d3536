//go:build !unix

package docker

import (
	"context"
	"net"

	"github.com/atoll-sandbox/atoll"
)

func startConn(context.Context, string, []string) (net.Conn, error) { return nil, atoll.ErrUnsupported }
