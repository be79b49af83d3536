package kubernetes

import (
	"net/netip"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/atoll-sandbox/atoll"
)

// TestInternetRuleHasPublicAddressesOnly checks that pods with the public internet reach neither special addresses nor the API of
// the cluster, which may have a public one.
func TestInternetRuleHasPublicAddressesOnly(t *testing.T) {
	rule := (&target{config: &rest.Config{Host: "https://8.8.4.4:6443"}}).internetRule()
	allowed := func(a netip.Addr) bool {
		for _, to := range rule.To {
			if !netip.MustParsePrefix(to.IPBlock.CIDR).Contains(a) {
				continue
			}
			for _, except := range to.IPBlock.Except {
				if netip.MustParsePrefix(except).Contains(a) {
					return false
				}
			}
			return true
		}
		return false
	}
	for _, text := range []string{
		"8.8.4.4", "10.1.2.3", "100.64.0.1", "127.0.0.1", "168.63.129.16", "169.254.169.254", "172.16.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1",
		"192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "255.255.255.255", "::1", "::10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1",
		"100::1", "2001:db8::1", "2002:a00:1::", "fc00::1", "fe80::1", "fec0::1", "ff02::1",
	} {
		if a := netip.MustParseAddr(text); allowed(a) || atoll.PublicAddress(a) && text != "8.8.4.4" {
			t.Errorf("%s may be reached", text)
		}
	}
	for _, text := range []string{"8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"} {
		if !allowed(netip.MustParseAddr(text)) {
			t.Errorf("%s can't be reached", text)
		}
	}
}
