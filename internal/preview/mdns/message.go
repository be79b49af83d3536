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
	// maxMessage limits the bytes of a message, and perMessage the names in a sent one.
	maxMessage = 9000
	perMessage = 8
	// maxEntries limits the questions, and the records of a section, that are read.
	maxEntries = 256

	topBit   = 1 << 15 // of a class: cache flush, or a unicast answer wanted
	nsecType = dnsmessage.Type(47)
	anyType  = dnsmessage.TypeALL
)

// question is a question for addresses.
type question struct {
	name    string // lower case, with its last dot
	kind    dnsmessage.Type
	unicast bool // the answer may come to the asker alone
}

// record is an address record.
type record struct {
	name string
	addr netip.Addr
	ttl  uint32
}

// message is a received message.
type message struct {
	id           uint16
	response     bool
	rawQuestions []dnsmessage.Question // as they came
	questions    []question            // for addresses
	records      []record              // answers and additional ones
	authorities  []record
}

// errNotMDNS is returned for a message that is not valid multicast DNS.
var errNotMDNS = errors.New("not a multicast DNS message")

// parseMessage parses a message. It skips records of unknown types.
func parseMessage(b []byte) (*message, error) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil {
		return nil, err
	}
	if h.OpCode != 0 || h.RCode != 0 || len(b) > maxMessage {
		return nil, errNotMDNS
	}
	m := &message{id: h.ID, response: h.Response}
	for n := 0; ; n++ {
		q, err := p.Question()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			break
		}
		if err != nil || n == maxEntries {
			return nil, errNotMDNS
		}
		m.rawQuestions = append(m.rawQuestions, q)
		class := q.Class &^ topBit
		if (class == dnsmessage.ClassINET || class == dnsmessage.ClassANY) && (q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeAAAA || q.Type == anyType) {
			m.questions = append(m.questions, question{lowerName(q.Name), q.Type, q.Class&topBit != 0})
		}
	}
	if m.records, err = parseRecords(p.AnswerHeader, p.SkipAnswer, &p); err != nil {
		return nil, err
	}
	if m.authorities, err = parseRecords(p.AuthorityHeader, p.SkipAuthority, &p); err != nil {
		return nil, err
	}
	more, err := parseRecords(p.AdditionalHeader, p.SkipAdditional, &p)
	if err != nil {
		return nil, err
	}
	if m.response {
		m.records = append(m.records, more...)
	}
	return m, nil
}

// parseRecords parses the address records of a section.
func parseRecords(header func() (dnsmessage.ResourceHeader, error), skip func() error, p *dnsmessage.Parser) ([]record, error) {
	var list []record
	for n := 0; ; n++ {
		h, err := header()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return list, nil
		}
		if err != nil || n == maxEntries {
			return nil, errNotMDNS
		}
		rec := record{name: lowerName(h.Name), ttl: h.TTL}
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
			return nil, errNotMDNS
		}
		if rec.addr.IsValid() {
			list = append(list, rec)
		}
	}
}

func lowerName(n dnsmessage.Name) string { return strings.ToLower(n.String()) }

// isKnownToAsker reports whether the sender already has all records of the answer, for at
// least half of their lifetime.
func (m *message) isKnownToAsker(q question, have []netip.Prefix) bool {
	n := 0
	for _, a := range sortAddrs(have) {
		if !matchesType(q.kind, a) {
			continue
		}
		n++
		if !slices.ContainsFunc(m.records, func(r record) bool { return r.name == q.name && r.addr == a && r.ttl >= recordTTL/2 }) {
			return false
		}
	}
	return n > 0
}

func matchesType(kind dnsmessage.Type, a netip.Addr) bool {
	return kind == anyType || (kind == dnsmessage.TypeA) == a.Is4()
}

// sortAddrs returns the addresses of prefixes, sorted and without duplicates.
func sortAddrs(list []netip.Prefix) []netip.Addr {
	var out []netip.Addr
	for _, p := range list {
		out = append(out, p.Addr().Unmap().WithZone(""))
	}
	slices.SortFunc(out, compareAddrs)
	return slices.Compact(out)
}

// compareAddrs compares addresses in the order of RFC 6762, 8.2: A before AAAA, then by their bytes.
func compareAddrs(a, b netip.Addr) int {
	if a.Is4() != b.Is4() {
		if a.Is4() {
			return -1
		}
		return 1
	}
	return bytes.Compare(a.AsSlice(), b.AsSlice())
}

// winsTie reports whether a's records are greater than b's.
func winsTie(a, b []netip.Addr) bool {
	slices.SortFunc(a, compareAddrs)
	for i := range min(len(a), len(b)) {
		if c := compareAddrs(a[i], b[i]); c != 0 {
			return c > 0
		}
	}
	return cmp.Compare(len(a), len(b)) > 0
}

// outgoing is a message to send.
type outgoing struct {
	dnsmessage.Message
	answers int
}

func newMessage(response bool) *outgoing {
	return &outgoing{Message: dnsmessage.Message{Header: dnsmessage.Header{Response: response, Authoritative: response}}}
}

// newLegacy returns the response to a plain DNS client, which repeats the
// question.
func newLegacy(m *message) *outgoing {
	d := newMessage(true)
	d.ID = m.id
	d.Questions = m.rawQuestions[:min(len(m.rawQuestions), perMessage)]
	return d
}

// packBytes returns the bytes of the message; nil if it is too long.
func (d *outgoing) packBytes() []byte {
	b, err := d.Pack()
	if err != nil || len(b) > maxMessage {
		return nil
	}
	return b
}

// addProbe adds a probe for a name with the proposed addresses. It requests a multicast
// response: a unicast one would reach any program on this host that shares
// the port, such as Avahi.
func (d *outgoing) addProbe(name string, have []netip.Prefix) {
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return
	}
	d.Questions = append(d.Questions, dnsmessage.Question{Name: n, Type: anyType, Class: dnsmessage.ClassINET})
	for _, a := range sortAddrs(have) {
		d.Authorities = append(d.Authorities, newAddressRecord(n, a, recordTTL, false))
	}
}

// addAnswer adds the addresses of a name that match a kind, or a negative answer if there
// are none, and the other addresses as additional records. unique makes receivers
// drop other cached records of the name.
func (d *outgoing) addAnswer(name string, have []netip.Prefix, kind dnsmessage.Type, ttl uint32, unique bool) {
	n, err := dnsmessage.NewName(name)
	if err != nil || d.answers >= maxEntries {
		return
	}
	before := len(d.Answers)
	v4, v6 := false, false
	for _, a := range sortAddrs(have) {
		v4, v6 = v4 || a.Is4(), v6 || a.Is6()
		if matchesType(kind, a) {
			d.Answers = append(d.Answers, newAddressRecord(n, a, ttl, unique))
		} else {
			d.Additionals = append(d.Additionals, newAddressRecord(n, a, ttl, unique))
		}
	}
	d.answers++
	if !unique || v4 && v6 || ttl == 0 {
		return // plain DNS knows no such NSEC
	}
	none := newNSECRecord(n, v4, v6, ttl)
	if len(d.Answers) == before {
		d.Answers = append(d.Answers, none)
	} else {
		d.Additionals = append(d.Additionals, none)
	}
}

func recordClass(unique bool) dnsmessage.Class {
	if unique {
		return dnsmessage.ClassINET | topBit
	}
	return dnsmessage.ClassINET
}

func newAddressRecord(n dnsmessage.Name, a netip.Addr, ttl uint32, unique bool) dnsmessage.Resource {
	r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: n, Class: recordClass(unique), TTL: ttl}}
	if a.Is4() {
		r.Header.Type, r.Body = dnsmessage.TypeA, &dnsmessage.AResource{A: a.As4()}
	} else {
		r.Header.Type, r.Body = dnsmessage.TypeAAAA, &dnsmessage.AAAAResource{AAAA: a.As16()}
	}
	return r
}

// newNSECRecord returns a record with the kinds of addresses that a name has; it has no others.
func newNSECRecord(n dnsmessage.Name, v4, v6 bool, ttl uint32) dnsmessage.Resource {
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
		Header: dnsmessage.ResourceHeader{Name: n, Type: nsecType, Class: recordClass(true), TTL: ttl},
		Body:   &dnsmessage.UnknownResource{Type: nsecType, Data: b},
	}
}
