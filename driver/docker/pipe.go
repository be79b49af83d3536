package docker

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
)

// connectThroughEngine connects to the guest through the engine: a process in the container joins its
// standard streams to the guest's socket. It costs two requests to the engine; commands then cost
// none.
func (s *Sandbox) connectThroughEngine(ctx context.Context) (net.Conn, error) {
	x, err := s.e.api.ExecCreate(ctx, s.currentContainer(), client.ExecCreateOptions{
		User: "0:0", Cmd: []string{guestFile, "pipe", s.e.socketPath()}, WorkingDir: "/", AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return nil, s.e.contextError(ctx, err)
	}
	r, err := s.e.api.ExecAttach(ctx, x.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, s.e.contextError(ctx, err)
	}
	return &pipeConn{Conn: r.Conn, r: r.Reader}, nil
}

// pipeConn is the connection to an attached process: it writes plain bytes and reads frames.
type pipeConn struct {
	net.Conn
	r    io.Reader
	left uint32 // bytes of the frame that is being read
}

// The frames of an attached process.
const (
	frameHead   = 8
	frameStdout = 1
	frameStderr = 2
	maxWords    = 2000 // bytes of an error's text
)

// Read returns what the process writes to its standard output. Bytes on its standard error are the
// reason why it ends, and returned as an error.
func (c *pipeConn) Read(p []byte) (int, error) {
	for c.left == 0 {
		var head [frameHead]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil {
			return 0, err
		}
		n := binary.BigEndian.Uint32(head[4:])
		switch head[0] {
		case frameStdout:
			c.left = n
		case frameStderr:
			words, err := io.ReadAll(io.LimitReader(c.r, int64(min(n, maxWords))))
			if err != nil {
				return 0, err
			}
			return 0, fmt.Errorf("%w: %s", atoll.ErrUnavailable, oneLine(string(words)))
		default:
			return 0, fmt.Errorf("%w: the engine's stream has a frame of kind %d", atoll.ErrUnavailable, head[0])
		}
	}
	if len(p) > int(c.left) {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	c.left -= uint32(n)
	return n, err
}
