package vminit

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var testMessage = dhcpMessage{kind: dhcpRequest, id: 7, mac: net.HardwareAddr{2, 0, 0, 0, 0, 1}}

// reply returns a server's reply.
func reply(id uint32, address [4]byte, options ...byte) []byte {
	b := make([]byte, dhcpHead)
	b[0] = 2
	binary.BigEndian.PutUint32(b[4:], id)
	copy(b[16:], address[:])
	copy(b[28:], testMessage.mac)
	return append(binary.BigEndian.AppendUint32(b, dhcpCookie), options...)
}

func TestAnswers(t *testing.T) {
	full := reply(7, [4]byte{10, 1, 2, 3}, optKind, 1, dhcpAck, 0, optMask, 4, 255, 255, 0, 0, optRouter, 8, 10, 1, 0, 1, 10, 1, 0, 2,
		optNames, 16, 10, 1, 0, 3, 0, 0, 0, 0, 10, 1, 0, 4, 10, 1, 0, 5, optServer, 4, 10, 1, 0, 9, optLength, 4, 0, 0, 14, 16, optEnd, 1, 2, 3)
	kind, l, err := parseAnswer(full, testMessage)
	if err != nil || kind != dhcpAck {
		t.Fatal(kind, err)
	}
	if l.address != netip.MustParsePrefix("10.1.2.3/16") || l.router.String() != "10.1.0.1" || len(l.names) != 3 || l.server.String() != "10.1.0.9" || l.length != time.Hour {
		t.Errorf("%+v", l)
	}
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"Short":        {full[:200], "for others"},
		"OtherID":      {reply(8, [4]byte{10, 1, 2, 3}, optKind, 1, dhcpAck, optEnd), "for others"},
		"OtherAddress": {append(append([]byte{}, full[:28]...), make([]byte, 300)...), "for others"},
		"Truncated":    {reply(7, [4]byte{10, 1, 2, 3}, optKind, 1, dhcpAck, optNames, 200, 1), "within an option"},
		"Nothing":      {reply(7, [4]byte{}, optKind, 1, dhcpAck, optEnd), "0.0.0.0"},
		"Loopback":     {reply(7, [4]byte{127, 0, 0, 1}, optKind, 1, dhcpAck, optEnd), "127.0.0.1"},
		"Multicast":    {reply(7, [4]byte{224, 0, 0, 1}, optKind, 1, dhcpAck, optEnd), "224.0.0.1"},
	} {
		if _, _, err := parseAnswer(c.b, testMessage); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", name, err, c.want)
		}
	}
	if _, l, err := parseAnswer(reply(7, [4]byte{10, 1, 2, 3}, optKind, 1, dhcpAck, optLength, 4, 0, 0, 0, 0, optMask, 4, 255, 0, 255, 0), testMessage); err != nil || l.length != shortestLease || l.address.Bits() != 24 {
		t.Errorf("a lease of no time with no mask: %+v, %v", l, err)
	}
	if kind, _, err := parseAnswer(reply(7, [4]byte{}, optKind, 1, dhcpNak), testMessage); err != nil || kind != dhcpNak {
		t.Errorf("%d, %v", kind, err)
	}
	if _, _, err := parseAnswer(testMessage.encode(), testMessage); !errors.Is(err, errNotOurs) {
		t.Errorf("our own question: %v", err)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(reply(7, [4]byte{10, 1, 2, 3}, optKind, 1, dhcpAck, optMask, 4, 255, 255, 0, 0, optEnd))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, l, err := parseAnswer(b, testMessage)
		if err == nil && l.address.IsValid() && (l.address.Bits() < 1 || l.length < shortestLease || len(l.names) > maxServers) {
			t.Errorf("%+v", l)
		}
	})
}
