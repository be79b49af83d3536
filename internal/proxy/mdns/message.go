package mdns

import (
	"bytes"
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	port = 5353
	// maxMessage bounds a message, and perMessage the names told in one of ours.
	maxMessage = 9000
	perMessage = 8
	// maxEntries bounds the questions, and the records, that are read of one.
	maxEntries = 256

	topBit   = 1 << 15 // of a class: cache flush, or a unicast answer wanted
	nsecType = dnsmessage.Type(47)
	anyType  = dnsmessage.TypeALL
)

// question is one that a message asks.
type question struct {
	name    string // lower case, with its last dot
	kind    dnsmessage.Type
	unicast bool // the answer may come to the asker alone
}

// record is an address that a message tells.
type record struct {
	name string
	addr netip.Addr
	ttl  uint32
}

// message is what was read of one.
type message struct {
	id          uint16
	response    bool
	asked       []dnsmessage.Question // as they came
	questions   []question            // for addresses
	records     []record              // answers and additional ones
	authorities []record
}

// errMessage is of what is no message that concerns us.
var errMessage = errors.New("not a message of multicast DNS")

// parse reads a message. What it does not know of it, it leaves out.
func parse(b []byte) (*message, error) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil {
		return nil, err
	}
	if h.OpCode != 0 || h.RCode != 0 || len(b) > maxMessage {
		return nil, errMessage
	}
	m := &message{id: h.ID, response: h.Response}
	for n := 0; ; n++ {
		q, err := p.Question()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			break
		}
		if err != nil || n == maxEntries {
			return nil, errMessage
		}
		m.asked = append(m.asked, q)
		class := q.Class &^ topBit
		if (class == dnsmessage.ClassINET || class == dnsmessage.ClassANY) && (q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeAAAA || q.Type == anyType) {
			m.questions = append(m.questions, question{lower(q.Name), q.Type, q.Class&topBit != 0})
		}
	}
	if m.records, err = records(p.AnswerHeader, p.SkipAnswer, &p); err != nil {
		return nil, err
	}
	if m.authorities, err = records(p.AuthorityHeader, p.SkipAuthority, &p); err != nil {
		return nil, err
	}
	more, err := records(p.AdditionalHeader, p.SkipAdditional, &p)
	if err != nil {
		return nil, err
	}
	if m.response {
		m.records = append(m.records, more...)
	}
	return m, nil
}

// records reads the addresses of a section.
func records(header func() (dnsmessage.ResourceHeader, error), skip func() error, p *dnsmessage.Parser) ([]record, error) {
	var list []record
	for n := 0; ; n++ {
		h, err := header()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return list, nil
		}
		if err != nil || n == maxEntries {
			return nil, errMessage
		}
		rec := record{name: lower(h.Name), ttl: h.TTL}
		switch {
		case h.Class&^topBit != dnsmessage.ClassINET:
			err = skip()
		case h.Type == dnsmessage.TypeA:
			var a dnsmessage.AResource
			if a, err = p.AResource(); err == nil {
				rec.addr = netip.AddrFrom4(a.A)
			}
		case h.Type == dnsmessage.TypeAAAA:
			var a dnsmessage.AAAAResource
			if a, err = p.AAAAResource(); err == nil {
				rec.addr = netip.AddrFrom16(a.AAAA)
			}
		default:
			err = skip()
		}
		if err != nil {
			return nil, errMessage
		}
		if rec.addr.IsValid() {
			list = append(list, rec)
		}
	}
}

func lower(n dnsmessage.Name) string { return strings.ToLower(n.String()) }

// known reports whether the asker has all that would be answered, for at least
// half of its life.
func (m *message) known(q question, have []netip.Prefix) bool {
	n := 0
	for _, a := range addrs(have) {
		if !fits(q.kind, a) {
			continue
		}
		n++
		if !slices.ContainsFunc(m.records, func(r record) bool { return r.name == q.name && r.addr == a && r.ttl >= lifetime/2 }) {
			return false
		}
	}
	return n > 0
}

func fits(kind dnsmessage.Type, a netip.Addr) bool {
	return kind == anyType || (kind == dnsmessage.TypeA) == a.Is4()
}

// addrs are the addresses of prefixes, in their order.
func addrs(list []netip.Prefix) []netip.Addr {
	var out []netip.Addr
	for _, p := range list {
		out = append(out, p.Addr().Unmap().WithZone(""))
	}
	slices.SortFunc(out, order)
	return slices.Compact(out)
}

// order is that of RFC 6762, 8.2: A before AAAA, then by their bytes.
func order(a, b netip.Addr) int {
	if a.Is4() != b.Is4() {
		if a.Is4() {
			return -1
		}
		return 1
	}
	return bytes.Compare(a.AsSlice(), b.AsSlice())
}

// later reports whether a's records come after b's.
func later(a, b []netip.Addr) bool {
	slices.SortFunc(a, order)
	for i := range min(len(a), len(b)) {
		if c := order(a[i], b[i]); c != 0 {
			return c > 0
		}
	}
	return cmp.Compare(len(a), len(b)) > 0
}

// draft is a message of ours.
type draft struct {
	dnsmessage.Message
	answers int
}

func newMessage(response bool) *draft {
	return &draft{Message: dnsmessage.Message{Header: dnsmessage.Header{Response: response, Authoritative: response}}}
}

// newLegacy is the answer to one that speaks plain DNS, who wants to see his
// question again.
func newLegacy(m *message) *draft {
	d := newMessage(true)
	d.ID = m.id
	d.Questions = m.asked[:min(len(m.asked), perMessage)]
	return d
}

// pack returns the bytes of a message, of which none is too long to be one.
func (d *draft) pack() []byte {
	b, err := d.Pack()
	if err != nil || len(b) > maxMessage {
		return nil
	}
	return b
}

// probe asks who has a name, and tells who wants it. The answer is to come to
// all: one to us alone would go to whichever program on this machine the port is
// shared with, such as Avahi.
func (d *draft) probe(name string, have []netip.Prefix) {
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return
	}
	d.Questions = append(d.Questions, dnsmessage.Question{Name: n, Type: anyType, Class: dnsmessage.ClassINET})
	for _, a := range addrs(have) {
		d.Authorities = append(d.Authorities, resource(n, a, lifetime, false))
	}
}

// answer tells the addresses of a name that are of a kind; where there are none,
// that there are none; and in addition what else there is. Unique says that what
// others have kept of the name is to be forgotten.
func (d *draft) answer(name string, have []netip.Prefix, kind dnsmessage.Type, ttl uint32, unique bool) {
	n, err := dnsmessage.NewName(name)
	if err != nil || d.answers >= maxEntries {
		return
	}
	before := len(d.Answers)
	v4, v6 := false, false
	for _, a := range addrs(have) {
		v4, v6 = v4 || a.Is4(), v6 || a.Is6()
		if fits(kind, a) {
			d.Answers = append(d.Answers, resource(n, a, ttl, unique))
		} else {
			d.Additionals = append(d.Additionals, resource(n, a, ttl, unique))
		}
	}
	d.answers++
	if !unique || v4 && v6 || ttl == 0 {
		return // plain DNS knows no such NSEC
	}
	none := nsec(n, v4, v6, ttl)
	if len(d.Answers) == before {
		d.Answers = append(d.Answers, none)
	} else {
		d.Additionals = append(d.Additionals, none)
	}
}

func class(unique bool) dnsmessage.Class {
	if unique {
		return dnsmessage.ClassINET | topBit
	}
	return dnsmessage.ClassINET
}

func resource(n dnsmessage.Name, a netip.Addr, ttl uint32, unique bool) dnsmessage.Resource {
	r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: n, Class: class(unique), TTL: ttl}}
	if a.Is4() {
		r.Header.Type, r.Body = dnsmessage.TypeA, &dnsmessage.AResource{A: a.As4()}
	} else {
		r.Header.Type, r.Body = dnsmessage.TypeAAAA, &dnsmessage.AAAAResource{AAAA: a.As16()}
	}
	return r
}

// nsec says which kinds of addresses a name has, and that it has no others.
func nsec(n dnsmessage.Name, v4, v6 bool, ttl uint32) dnsmessage.Resource {
	var b []byte
	for label := range strings.SplitSeq(strings.TrimSuffix(n.String(), "."), ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	bits := make([]byte, 4) // types 0 to 31
	if v4 {
		bits[dnsmessage.TypeA/8] |= 0x80 >> (dnsmessage.TypeA % 8)
	}
	if v6 {
		bits[dnsmessage.TypeAAAA/8] |= 0x80 >> (dnsmessage.TypeAAAA % 8)
	}
	bits = bytes.TrimRight(bits, "\x00")
	b = append(b, 0)
	if len(bits) > 0 {
		b = append(append(b, 0, byte(len(bits))), bits...)
	}
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: n, Type: nsecType, Class: class(true), TTL: ttl},
		Body:   &dnsmessage.UnknownResource{Type: nsecType, Data: b},
	}
}
