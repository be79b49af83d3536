package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Format is a configuration format that [Export] writes.
type Format string

// The formats.
const (
	Caddyfile Format = "caddyfile"
	Nginx     Format = "nginx"
)

// Upstream is the address of the proxy as a web server in front reaches it: "127.0.0.1:7080",
// or "/run/atoll/proxy.sock".
type Upstream string

// Check returns an error if the upstream is invalid, or could be misread as something
// else in a configuration.
func (u Upstream) Check() error {
	s := string(u)
	if strings.HasPrefix(s, "/") {
		for i := range len(s) {
			if c := s[i]; !isLabel(strings.ToLower(s[i:i+1])) && !strings.ContainsRune("/._-", rune(c)) {
				return fmt.Errorf("%w: upstream %q: the path of a socket may have only letters, digits, '/', '.', '_' and '-'", atoll.ErrInvalid, s)
			}
		}
		if path.Clean(s) != s || len(s) > 107 {
			return fmt.Errorf("%w: upstream %q: must be a clean path of at most 107 bytes", atoll.ErrInvalid, s)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || !isPort(port) || port == "0" {
		return fmt.Errorf("%w: upstream %q: must be HOST:PORT or the path of a socket", atoll.ErrInvalid, s)
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Zone() == "" {
		return nil
	}
	for l := range strings.SplitSeq(host, ".") {
		if !isLabel(l) {
			return fmt.Errorf("%w: upstream %q: %q is neither an address nor a host name", atoll.ErrInvalid, s, host)
		}
	}
	return nil
}

// CaddyAddress returns the upstream in Caddy's notation.
func (u Upstream) CaddyAddress() string {
	if strings.HasPrefix(string(u), "/") {
		return "unix/" + string(u)
	}
	return string(u)
}

func (u Upstream) nginxURL() string {
	if strings.HasPrefix(string(u), "/") {
		return "http://unix:" + string(u)
	}
	return "http://" + string(u)
}

// Export returns the configuration of a web server that forwards all names below
// the domains to the proxy, which must then have Front set. It omits names below
// localhost, which need no web server in front.
func Export(f Format, n Names, u Upstream) (string, error) {
	if err := u.Check(); err != nil {
		return "", err
	}
	if err := n.Check(); err != nil {
		return "", err
	}
	var wild []string
	for _, d := range n.effectiveDomains() {
		if d != Local {
			wild = append(wild, "*."+d)
		}
	}
	if len(wild) == 0 {
		return "", fmt.Errorf("%w: names below localhost need no web server: use a domain of your own, with a wildcard record that points to this host", atoll.ErrInvalid)
	}
	switch f {
	case Caddyfile:
		return exportCaddyfile(wild, u), nil
	case Nginx:
		return exportNginx(wild, u), nil
	}
	return "", fmt.Errorf("%w: format %q: must be %s or %s", atoll.ErrInvalid, f, Caddyfile, Nginx)
}

func exportCaddyfile(wild []string, u Upstream) string {
	return `# Names of atoll's sandboxes. A wildcard needs a certificate by DNS challenge
# (a plugin of your provider), or "tls internal", or "tls CERT KEY".
` + strings.Join(wild, ", ") + ` {
	reverse_proxy ` + u.CaddyAddress() + ` {
		flush_interval -1
	}
}
`
}

func exportNginx(wild []string, u Upstream) string {
	return `# Names of atoll's sandboxes, for the http block. Add the certificate of the
# wildcard: listen 443 ssl; ssl_certificate …; ssl_certificate_key …;
map $http_upgrade $atoll_connection {
	default upgrade;
	'' '';
}
server {
	listen 80;
	server_name ` + strings.Join(wild, " ") + `;
	client_max_body_size 0;
	location / {
		proxy_pass ` + u.nginxURL() + `;
		proxy_http_version 1.1;
		proxy_set_header Host $http_host;
		proxy_set_header Upgrade $http_upgrade;
		proxy_set_header Connection $atoll_connection;
		proxy_set_header X-Forwarded-For $remote_addr;
		proxy_set_header X-Forwarded-Proto $scheme;
		proxy_buffering off;
		proxy_request_buffering off;
		proxy_max_temp_file_size 0;
		proxy_read_timeout 1d;
		proxy_send_timeout 1d;
	}
}
`
}
