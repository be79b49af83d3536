package atoll_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func TestNetworkPrivate(t *testing.T) {
	for entry, private := range map[string]bool{
		"example.com": false, "*.example.com:443": false, "https://example.com/api/": false, "8.8.8.8": false, "8.8.8.8:53": false, "https://[2606:4700::1111]/x": false,
		"127.0.0.1": true, "127.0.0.1:80": true, "http://127.9.9.9:80/x": true, "10.1.2.3": true, "192.168.1.1:22": true, "169.254.169.254": true, "http://169.254.169.254/latest/": true,
		"100.64.0.1": true, "0.0.0.0": true, "::1": true, "[::1]": true, "[::1]:80": true, "http://[::1]:80/": true, "::ffff:127.0.0.1": true, "[::ffff:10.0.0.1]:80": true,
		"fe80::1%eth0": true, "[fe80::1%25eth0]:80": true, "fd00::1": true, "64:ff9b::7f00:1": true, "localhost": true, "LOCALHOST.:80": true, "a.localhost:80": true,
		"http://localhost:9/": true, "127.0.0.1.": true, "255.255.255.255": true, "224.0.0.1": true,
		"10.0.0.0/8": true, "10.0.0.0/8:80": true, "[fd00::/8]:80": true, "fd00::/8": true, "8.8.8.0/24": false, "0.0.0.0/0": true,
		"registry.corp=10.1.2.3": true, "registry.corp:443=10.1.2.3": true, "*.corp=10.0.0.0/8": true, "a.corp=fd00::/8": true, "a.corp=[::1]": true, "a.corp=8.8.8.8": false, "https://example.com/a=10.1.2.3": false,
		"GET http://127.0.0.1/x": true, "GET,HEAD https://example.com/": false, "168.63.129.16": true, "host.atoll.internal:80": true, "HTTP://HOST.atoll.internal.": true,
	} {
		n := atoll.Network{Allow: []string{"example.com", entry}}
		if got := n.PrivateRule() != ""; got != private {
			t.Errorf("%s: private is %v, want %v", entry, got, private)
		}
	}
	for mode, private := range map[atoll.NetworkMode]bool{"": false, atoll.NetworkNone: false, atoll.NetworkNAT: false, atoll.NetworkBridge: true, atoll.NetworkOpen: true} {
		n := atoll.Network{Mode: mode}
		if got := n.PrivateRule() != ""; got != private {
			t.Errorf("mode %q: private is %v, want %v", mode, got, private)
		}
	}
}
