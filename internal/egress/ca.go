package egress

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
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// Paths inside an inspected sandbox of the certificates that programs are to trust.
const (
	CAFile    = "/run/atoll/ca.pem"    // the sandbox's authority only
	RootsFile = "/run/atoll/roots.pem" // the sandbox's authority and those of the host
)

// CA returns the certificate of the sandbox's authority as PEM. dir is the directory of the proxy. A
// missing authority is created.
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

// authorityIn returns the certificate and key in a directory. Missing ones are created.
func authorityIn(dir, id string) ([]byte, error) {
	path := filepath.Join(dir, caName)
	b, err := os.ReadFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if b, err = newAuthority(id); err != nil {
		return nil, err
	}
	if err = atomicfile.Create(path, b, 0o600); errors.Is(err, fs.ErrExist) { // another process has created it meanwhile
		return os.ReadFile(path)
	}
	return b, err
}

// bundles are the paths where systems store the certificates that they trust.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// Files returns the files that a driver places in a sandbox with this network, by path, readable for
// everyone. Without inspection there are none.
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
