//go:build !unix

package api

import "net"

// Inherited holds the sockets that a service manager has opened for this process; here there are none.
type Inherited struct{ Listeners []net.Listener }

// Inherit returns no sockets: service managers of this system pass none.
func Inherit(*TLSFiles) (*Inherited, error) { return &Inherited{}, nil }

// Environment returns nil.
func (*Inherited) Environment() ([]string, error) { return nil, nil }

// Close does nothing.
func (*Inherited) Close() error { return nil }
