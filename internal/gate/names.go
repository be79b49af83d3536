package gate

import (
	"container/list"
	"encoding/binary"
	"net/netip"
	"sync"
)

// synthetic is where the addresses lie that names get inside: a connection to
// one says which name was meant. Nothing outside has them (RFC 2544).
var synthetic = netip.MustParsePrefix("198.18.0.0/15")

// mostNames bounds how many names are remembered; the one that was not used for
// the longest time goes.
const mostNames = 16384

// names gives each name an address. The zero names is empty.
type names struct {
	mu     sync.Mutex
	byName map[string]*list.Element // guarded by mu, as all below
	byAddr map[netip.Addr]*list.Element
	order  list.List // of *named, the newest first
	last   uint32
}

type named struct {
	name string
	addr netip.Addr
}

// address returns the address of a name.
func (n *names) address(name string) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.byName[name]; e != nil {
		n.order.MoveToFront(e)
		return e.Value.(*named).addr
	}
	if n.byName == nil {
		n.byName, n.byAddr = make(map[string]*list.Element), make(map[netip.Addr]*list.Element)
	}
	if n.order.Len() >= mostNames {
		old := n.order.Remove(n.order.Back()).(*named)
		delete(n.byName, old.name)
		delete(n.byAddr, old.addr)
	}
	one := &named{name, n.free()}
	e := n.order.PushFront(one)
	n.byName[name], n.byAddr[one.addr] = e, e
	return one.addr
}

// free returns the next address that is nobody's; it needs n.mu. There are more
// addresses than names.
func (n *names) free() netip.Addr {
	base := binary.BigEndian.Uint32(synthetic.Addr().AsSlice())
	size := uint32(1) << (32 - synthetic.Bits())
	for {
		if n.last++; n.last >= size-1 {
			n.last = 1
		}
		a := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, base+n.last)))
		if n.byAddr[a] == nil {
			return a
		}
	}
}

// name returns whose address it is.
func (n *names) name(a netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.byAddr[a]
	if e == nil {
		return "", false
	}
	n.order.MoveToFront(e)
	return e.Value.(*named).name, true
}
