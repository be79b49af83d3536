package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/time/rate"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// Limits and constants of name resolution.
const (
	nameTTL        = 60  // seconds
	namesRate      = 500 // queries per second
	namesBurst     = 1000
	maxMessage     = 4096             // bytes of a query
	dnsIdleTimeout = 10 * time.Second // of a DNS connection
	maxReason      = 700              // bytes of a reason: two names of 253 and words
	edeBlocked     = 15               // Extended DNS Error "Blocked" (RFC 8914)
	edeOption      = 15
)

// resolver answers DNS queries by the rules. It forwards no query: an allowed name gets an address
// of synthetic and is resolved when it is dialled.
type resolver struct {
	rules func() *policy.Rules
	names *names
	limit *rate.Limiter
	note  func(host, kind string, v policy.Verdict)
}

// serveDNS serves one channel of DNS messages.
func (s *server) serveDNS(c net.Conn) {
	f := s.newFlow(c, "dns")
	if f == nil {
		return
	}
	defer f.closeFlow()
	for {
		_ = f.conn.SetReadDeadline(time.Now().Add(dnsIdleTimeout)) // a closed connection fails below
		var head [2]byte
		if _, err := io.ReadFull(f.conn, head[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint16(head[:])
		if n > maxMessage {
			return
		}
		q := make([]byte, n)
		if _, err := io.ReadFull(f.conn, q); err != nil {
			return
		}
		a := s.resolver.handleQuery(q)
		if a == nil {
			return
		}
		if _, err := f.conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...)); err != nil {
			return
		}
	}
}

// handleQuery returns the answer to a DNS message, or nil if it is not a query.
func (r *resolver) handleQuery(msg []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(msg)
	if err != nil || head.Response {
		return nil
	}
	b := dnsReply{id: head.ID, rd: head.RecursionDesired}
	q, err := p.Question()
	if _, more := p.Question(); err != nil || !errors.Is(more, dnsmessage.ErrSectionDone) || head.OpCode != 0 || head.Truncated {
		return b.pack(dnsmessage.RCodeFormatError)
	}
	b.question = &q
	b.edns = hasEDNS(&p)
	if !r.limit.Allow() {
		b.why = "too many queries"
		return b.pack(dnsmessage.RCodeRefused)
	}
	if q.Class != dnsmessage.ClassINET {
		b.why = "only the class IN is answered"
		return b.pack(dnsmessage.RCodeRefused)
	}
	host, err := policy.CanonicalHost(q.Name.String())
	if err != nil {
		b.why = "not a name of a host"
		return b.pack(dnsmessage.RCodeNameError)
	}
	if v := r.rules().Name(host); !v.Allowed {
		// Not REFUSED: some C libraries take that for a broken server and wait.
		b.why = v.Reason
		r.note(host, q.Type.String(), v)
		return b.pack(dnsmessage.RCodeNameError)
	}
	if q.Type == dnsmessage.TypeA {
		b.address = r.names.assignAddress(host).As4()
		b.found = true
	}
	return b.pack(dnsmessage.RCodeSuccess) // other types have no records
}

// hasEDNS reports whether a query supports EDNS, so that the answer can contain a reason.
func hasEDNS(p *dnsmessage.Parser) bool {
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false
	}
	for range 4 {
		h, err := p.AdditionalHeader()
		if err != nil {
			return false
		}
		if h.Type == dnsmessage.TypeOPT {
			return true
		}
		if p.SkipAdditional() != nil {
			return false
		}
	}
	return false
}

// dnsReply is the answer to one question.
type dnsReply struct {
	id       uint16
	rd       bool
	edns     bool
	question *dnsmessage.Question
	address  [4]byte
	found    bool
	why      string
}

func (a *dnsReply) pack(code dnsmessage.RCode) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{
		ID: a.id, Response: true, RecursionDesired: a.rd, RecursionAvailable: true, RCode: code,
	}}
	if a.question != nil {
		m.Questions = []dnsmessage.Question{*a.question}
	}
	if a.found {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: a.question.Name, Class: dnsmessage.ClassINET, TTL: nameTTL},
			Body:   &dnsmessage.AResource{A: a.address},
		}}
	}
	if a.edns {
		var h dnsmessage.ResourceHeader
		if h.SetEDNS0(maxMessage, code, false) == nil {
			opt := &dnsmessage.OPTResource{}
			if a.why != "" {
				why := a.why[:min(len(a.why), maxReason)]
				opt.Options = []dnsmessage.Option{{Code: edeOption, Data: append([]byte{0, edeBlocked}, why...)}}
			}
			m.Additionals = []dnsmessage.Resource{{Header: h, Body: opt}}
		}
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

// recordDeniedName records and reports a refused name.
func (s *server) recordDeniedName(host, kind string, v policy.Verdict) {
	s.recordRefusal(atoll.Connection{Protocol: "dns", Host: host, Method: kind, Rule: v.Rule, Reason: v.Reason, Suggestion: v.Suggestion}, nil)
}
