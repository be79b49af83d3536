package egress

import (
	"container/list"
	"encoding/binary"
	"net/netip"
	"sync"
)

// synthetic is the range of the addresses that names get inside. A connection to such an address
// identifies the name. The range does not exist on the internet (RFC 2544).
var synthetic = netip.MustParsePrefix("198.18.0.0/15")

// maxNames limits the number of remembered names. The least recently used one is dropped.
const maxNames = 16384

// names assigns an address to each name. The zero value is empty.
type names struct {
	mu     sync.Mutex
	byName map[string]*list.Element // guarded by mu, like the fields below
	byAddr map[netip.Addr]*list.Element
	order  list.List // of *named, most recently used first
	last   uint32
}

type named struct {
	name string
	addr netip.Addr
}

// assignAddress returns the address of a name.
func (n *names) assignAddress(name string) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.byName[name]; e != nil {
		n.order.MoveToFront(e)
		return e.Value.(*named).addr
	}
	if n.byName == nil {
		n.byName, n.byAddr = make(map[string]*list.Element), make(map[netip.Addr]*list.Element)
	}
	if n.order.Len() >= maxNames {
		old := n.order.Remove(n.order.Back()).(*named)
		delete(n.byName, old.name)
		delete(n.byAddr, old.addr)
	}
	one := &named{name, n.nextFree()}
	e := n.order.PushFront(one)
	n.byName[name], n.byAddr[one.addr] = e, e
	return one.addr
}

// nextFree returns the next unused address. The caller must hold n.mu. There are more addresses than
// names.
func (n *names) nextFree() netip.Addr {
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

// lookupName returns the name of an address.
func (n *names) lookupName(a netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.byAddr[a]
	if e == nil {
		return "", false
	}
	n.order.MoveToFront(e)
	return e.Value.(*named).name, true
}
