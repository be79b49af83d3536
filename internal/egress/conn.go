package egress

import (
	"errors"
	"net"
)

// errNoCloseWrite reports a connection whose halves can't be closed separately.
var errNoCloseWrite = errors.New("half of this connection can't be closed")

func closeWrite(c net.Conn) error {
	h, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errNoCloseWrite
	}
	return h.CloseWrite()
}

// abortConn resets a connection, so that the other end sees an error instead of a normal end.
func abortConn(c net.Conn) {
	switch c := c.(type) {
	case interface{ Reset() error }:
		_ = c.Reset() // fails if it is closed already
	case *net.TCPConn:
		_ = c.SetLinger(0) // likewise
	}
	_ = c.Close() // likewise
}
