package guest

import (
	"bytes"
	"flag"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write redirect_rules.bin")

// TestRedirectRules compares the file with the rules.
func TestRedirectRules(t *testing.T) {
	const name = "redirect_rules.bin"
	want := buildRedirectRules(t)
	if *update {
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from the rules of this test (%v): run it with -update", name, err)
	}
}

// TestRedirectBatch checks which messages are sent.
func TestRedirectBatch(t *testing.T) {
	for _, again := range []bool{false, true} {
		batch, acknowledged, err := redirectBatch(again)
		if err != nil {
			t.Fatal(err)
		}
		var removes, last int
		for at := 0; at < len(batch); {
			m, err := nextMessage(batch[at:])
			if err != nil {
				t.Fatal(err)
			}
			h := parseNetlinkHeader(m)
			if h.Type == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_DELTABLE {
				removes++
			}
			if h.Seq == acknowledged {
				last = at
			}
			at += len(m)
		}
		if want := map[bool]int{false: 0, true: 1}[again]; removes != want {
			t.Errorf("again %v: %d messages remove the table, want %d", again, removes, want)
		}
		end, err := nextMessage(batch[last:])
		if err != nil {
			t.Fatal(err)
		}
		if h := parseNetlinkHeader(batch[last+len(end):]); h.Type != unix.NFNL_MSG_BATCH_END {
			t.Errorf("the acknowledged message is followed by one of type %#x, want the end of the batch", h.Type)
		}
	}
}

// TestNetlinkErrors parses replies that the kernel would not send.
func TestNetlinkErrors(t *testing.T) {
	for name, b := range map[string][]byte{
		"Short":     {1, 2, 3},
		"TooLong":   netlinkMessage(unix.NLMSG_ERROR, 0, 1, nil)[:15],
		"NoCode":    netlinkMessage(unix.NLMSG_ERROR, 0, 1, nil),
		"Announced": {255, 255, 255, 255, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0},
	} {
		if done, err := parseAcknowledgements(b, 1); done || err == nil {
			t.Errorf("%s: %v, %v, want an error", name, done, err)
		}
	}
}

// buildRedirectRules returns the transaction as the library builds it.
func buildRedirectRules(t *testing.T) []byte {
	t.Helper()
	var sent []netlink.Message
	c, err := nftables.New(nftables.WithTestDial(func(list []netlink.Message) ([]netlink.Message, error) {
		sent = append(sent, list...)
		return nil, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	table := &nftables.Table{Name: "atoll", Family: nftables.TableFamilyINet}
	c.DelTable(table) // in the same transaction; redirectBatch leaves it out if there is none
	c.CreateTable(table)
	nat := c.AddChain(&nftables.Chain{
		Name: "out", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest,
	})
	add := func(chain *nftables.Chain, parts ...[]expr.Any) {
		r := &nftables.Rule{Table: table, Chain: chain}
		for _, p := range parts {
			r.Exprs = append(r.Exprs, p...)
		}
		c.AddRule(r)
	}
	accept := []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	own4 := matchPrefix(netip.MustParsePrefix("127.0.0.0/8"))
	own6 := matchPrefix(netip.MustParsePrefix("::1/128"))
	add(nat, matchProtocol(unix.IPPROTO_UDP), matchPort(53), redirectTo(dnsPort))
	add(nat, matchProtocol(unix.IPPROTO_TCP), matchPort(53), redirectTo(dnsPort))
	add(nat, own4, accept)
	add(nat, own6, accept)
	add(nat, matchProtocol(unix.IPPROTO_TCP), redirectTo(redirectPort))
	filter := c.AddChain(&nftables.Chain{
		Name: "rest", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter,
	})
	add(filter, own4, accept)
	add(filter, own6, accept)
	add(filter, matchProtocol(unix.IPPROTO_TCP), accept)
	add(filter, matchProtocol(unix.IPPROTO_UDP), accept)
	add(filter, matchEchoRequest(unix.NFPROTO_IPV4, unix.IPPROTO_ICMP, 8), []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}})
	add(filter, matchEchoRequest(unix.NFPROTO_IPV6, unix.IPPROTO_ICMPV6, 128), []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}})
	_ = c.Flush() // nothing acknowledges the messages here
	var b []byte
	for i := range sent {
		m := &sent[i]
		m.Header.Sequence, m.Header.PID = uint32(i+1), 0
		m.Header.Flags &^= netlink.Acknowledge | netlink.Echo // errors are reported in any case
		if i == len(sent)-2 {
			m.Header.Flags |= netlink.Acknowledge
		}
		m.Header.Length = uint32(unix.NLMSG_HDRLEN + len(m.Data))
		data, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, data...)
	}
	return b
}

func matchProtocol(n byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{n}}}
}

// matchPort matches the destination port.
func matchPort(n uint16) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(n)},
	}
}

func redirectTo(to uint16) []expr.Any {
	return []expr.Any{&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(to)}, &expr.Redir{RegisterProtoMin: 1}}
}

// matchFamily matches the address family of the packet.
func matchFamily(n byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{n}}}
}

// matchPrefix matches the destination address.
func matchPrefix(p netip.Prefix) []expr.Any {
	fam, offset, size := byte(unix.NFPROTO_IPV4), uint32(16), 4
	if p.Addr().Is6() {
		fam, offset, size = unix.NFPROTO_IPV6, 24, 16
	}
	return append(matchFamily(fam),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(size)},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(size), Mask: net.CIDRMask(p.Bits(), 8*size), Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()})
}

// matchEchoRequest matches an echo request, which any local address would answer.
func matchEchoRequest(fam, proto, kind byte) []expr.Any {
	return append(append(matchFamily(fam), matchProtocol(proto)...),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{kind}})
}
