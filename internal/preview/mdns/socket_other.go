//go:build !unix

package mdns

import (
	"fmt"
	"net/netip"

	"github.com/atoll-sandbox/atoll"
)

// socket is the link of an interface; it is not supported on this system.
type socket struct{}

func openSocket(string) (*socket, error) {
	return nil, fmt.Errorf("%w on this system", atoll.ErrUnsupported)
}

func (*socket) serve(*Responder)             {}
func (*socket) send([]byte, netip.AddrPort)  {}
func (*socket) listPrefixes() []netip.Prefix { return nil }
func (*socket) close()                       {}
