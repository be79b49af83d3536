//go:build !unix

package mdns

import (
	"fmt"
	"net/netip"

	"github.com/atoll-sandbox/atoll"
)

// socket is the link that an interface would be.
type socket struct{}

func listen(string) (*socket, error) {
	return nil, fmt.Errorf("%w on this system", atoll.ErrUnsupported)
}

func (*socket) serve(*Responder)            {}
func (*socket) send([]byte, netip.AddrPort) {}
func (*socket) addresses() []netip.Prefix   { return nil }
func (*socket) close()                      {}
