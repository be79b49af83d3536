package api

import (
	"net/http"
	"net/netip"
	"testing"
)

func TestClientNetwork(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::1/128")}
	for name, c := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"NoProxy":               {peer: "203.0.113.7:1234", want: "203.0.113.7/32"},
		"StrangerForwards":      {peer: "203.0.113.7:1234", forwarded: []string{"198.51.100.1"}, want: "203.0.113.7/32"},
		"Proxy":                 {peer: "10.1.2.3:1", forwarded: []string{"198.51.100.1"}, want: "198.51.100.1/32"},
		"ProxyWithoutHeader":    {peer: "10.1.2.3:1", want: "10.1.2.3/32"},
		"TwoProxies":            {peer: "10.1.2.3:1", forwarded: []string{"198.51.100.1, 10.9.9.9"}, want: "198.51.100.1/32"},
		"TwoHeaders":            {peer: "10.1.2.3:1", forwarded: []string{"198.51.100.1", "10.9.9.9"}, want: "198.51.100.1/32"},
		"ClientWroteMore":       {peer: "10.1.2.3:1", forwarded: []string{"192.0.2.1, 198.51.100.1"}, want: "198.51.100.1/32"},
		"ClientClaimsToBeProxy": {peer: "10.1.2.3:1", forwarded: []string{"192.0.2.1, 10.0.0.1, 198.51.100.1"}, want: "198.51.100.1/32"},
		"NoAddress":             {peer: "10.1.2.3:1", forwarded: []string{"198.51.100.1, unknown"}, want: "10.1.2.3/32"},
		"NoAddressOfSecond":     {peer: "10.1.2.3:1", forwarded: []string{"secret, 10.9.9.9"}, want: "10.9.9.9/32"},
		"Port":                  {peer: "10.1.2.3:1", forwarded: []string{"198.51.100.1:55"}, want: "198.51.100.1/32"},
		"IPv6":                  {peer: "[2001:db8:1:2:3::4]:1", want: "2001:db8:1:2::/64"},
		"IPv6ByProxy":           {peer: "[fd00::1]:1", forwarded: []string{"2001:db8:1:2:3::4"}, want: "2001:db8:1:2::/64"},
		"IPv6ByProxyAndPort":    {peer: "[fd00::1]:1", forwarded: []string{"[2001:db8:1:2:3::4]:99"}, want: "2001:db8:1:2::/64"},
		"NeighborOfProxy":       {peer: "[fd00::2]:1", forwarded: []string{"198.51.100.1"}, want: "fd00::/64"},
		"Mapped":                {peer: "[::ffff:10.1.2.3]:1", forwarded: []string{"::ffff:198.51.100.1"}, want: "198.51.100.1/32"},
		"Socket":                {peer: "@", forwarded: []string{"198.51.100.1"}, want: "invalid Prefix"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}}
			if got := clientNetwork(r, trusted).String(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
