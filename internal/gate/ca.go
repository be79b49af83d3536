package gate

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate/policy"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/whole"
)

// Where programs inside find what they are to trust, where a network is
// inspected.
const (
	CAFile    = "/run/atoll/ca.pem"    // the sandbox's authority alone
	RootsFile = "/run/atoll/roots.pem" // it, and those of the host
)

// CA returns the certificate of the authority of the sandbox whose gate has the
// directory dir, as PEM; it is made if there is none.
func CA(dir, id string) ([]byte, error) {
	both, err := authorityIn(dir, id)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(both)
	if block == nil {
		return nil, fmt.Errorf("the sandbox's authority in %s is broken", dir)
	}
	return pem.EncodeToMemory(block), nil
}

// authorityIn returns certificate and key of a directory, made if there are
// none.
func authorityIn(dir, id string) ([]byte, error) {
	path := filepath.Join(dir, caName)
	b, err := os.ReadFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if b, err = newAuthority(id); err != nil {
		return nil, err
	}
	if err = whole.Create(path, b, 0o600); errors.Is(err, fs.ErrExist) { // another was quicker
		return os.ReadFile(path)
	}
	return b, err
}

// bundles are where systems keep the certificates that they trust.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// Files returns what a driver places in a sandbox with a network, by path, to be
// readable by all: nothing, unless it is inspected.
func Files(dir, id string, n atoll.Network) (map[string][]byte, error) {
	if !n.Inspect {
		return map[string][]byte{}, nil
	}
	ca, err := CA(dir, id)
	if err != nil {
		return nil, err
	}
	roots := bytes.Clone(ca)
	for _, path := range bundles {
		if b, err := os.ReadFile(path); err == nil {
			roots = append(append(roots, b...), '\n')
			break
		}
	}
	return map[string][]byte{CAFile: ca, RootsFile: roots}, nil
}

// Env returns the environment that programs in a sandbox with a gate are given:
// where the proxy is, which tells a refusal in words that most programs show,
// and what to trust. It is empty where the network allows nothing.
func Env(n atoll.Network) []string {
	if !Needed(n) {
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

// ResolvConf is what /etc/resolv.conf of a sandbox with a gate holds: the guest
// answers wherever names are asked for.
const ResolvConf = "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n"

// HostName is the name under which a sandbox reaches the loopback addresses of
// the host, where a rule names it.
const HostName = policy.HostName
