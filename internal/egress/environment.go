package egress

import (
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// Env returns the environment of programs in a sandbox with an egress proxy: the address of the
// proxy, whose refusals most programs show, and the certificates to trust. It is empty if the network
// allows nothing.
func Env(n atoll.Network) []string {
	if !IsNeeded(n) {
		return nil
	}
	const proxy = "http://" + guest.ProxyAddress
	var env []string
	for _, one := range [][2]string{
		{"http_proxy", proxy}, {"https_proxy", proxy}, {"all_proxy", proxy}, {"no_proxy", "localhost,127.0.0.1,::1"},
	} {
		env = append(env, one[0]+"="+one[1], strings.ToUpper(one[0])+"="+one[1])
	}
	if n.Inspect {
		for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "PIP_CERT", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO"} {
			env = append(env, name+"="+RootsFile)
		}
		env = append(env, "NODE_EXTRA_CA_CERTS="+CAFile, "DENO_CERT="+CAFile)
	}
	return env
}

// ResolvConf is the content of /etc/resolv.conf in a sandbox with an egress proxy. The guest answers
// DNS queries to any address.
const ResolvConf = "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n"

// HostName is the name of the host's loopback addresses inside a sandbox, if a rule allows it.
const HostName = policy.HostName
