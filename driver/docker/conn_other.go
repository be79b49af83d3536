//go:build !unix

package docker

import (
	"context"
	"net"

	"github.com/atoll-sandbox/atoll"
)

func startConn(context.Context, string, []string) (net.Conn, error) { return nil, atoll.ErrUnsupported }

// ownerOf returns the default user: files have no numeric owners on this system.
func ownerOf(string) (uid, gid int, err error) { return commandUser, commandUser, nil }
