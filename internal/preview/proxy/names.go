package proxy

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Local is the domain that browsers resolve to their own host without DNS,
// and treat as secure.
const Local = "localhost"

// Names converts between host names and sandboxes.
type Names struct {
	// Domains are the suffixes of names: "localhost", "sandbox.example.com". New
	// names use the first one. Empty means [Local] alone.
	Domains []string
}

// Name is a parsed host name.
type Name struct {
	Project string
	Port    int    // 0: the main one
	Domain  string // the one of Names that it ends in
}

// effectiveDomains returns the domains, at least one.
func (n Names) effectiveDomains() []string {
	if len(n.Domains) == 0 {
		return []string{Local}
	}
	return n.Domains
}

// Check returns an error for an invalid domain.
func (n Names) Check() error {
	for _, d := range n.Domains {
		labels := strings.Split(d, ".")
		ok := len(d) <= 253-64
		for _, l := range labels {
			ok = ok && isLabel(l)
		}
		if !ok {
			return fmt.Errorf("%w: domain %q: must be lower-case labels with dots, such as sandbox.example.com", atoll.ErrInvalid, d)
		}
		if net.ParseIP(d) != nil || isDigits(labels[len(labels)-1]) {
			return fmt.Errorf("%w: domain %q: there can be no names below an IP address", atoll.ErrInvalid, d)
		}
	}
	return nil
}

// Parse parses the value of a Host header. It reports false for everything that is
// not a name of a sandbox: addresses, other domains, deeper names.
func (n Names) Parse(host string) (Name, bool) {
	if h, port, ok := strings.Cut(host, ":"); ok {
		if !isPort(port) {
			return Name{}, false
		}
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, d := range n.effectiveDomains() {
		label, ok := strings.CutSuffix(host, "."+d)
		if !ok || !isLabel(label) {
			continue
		}
		name := parseLabel(label)
		name.Domain = d
		return name, name.Project != ""
	}
	return Name{}, false
}

// parseLabel parses PROJECT or PORT-PROJECT. A label that begins with digits and a dash
// always has a port, whatever projects exist: so a project's name never hides
// another project's port.
func parseLabel(label string) Name {
	digits, project, ok := strings.Cut(label, "-")
	if !ok || !isDigits(digits) {
		return Name{Project: label}
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || digits != strconv.FormatUint(port, 10) || !isLabel(project) {
		return Name{}
	}
	return Name{Project: project, Port: int(port)}
}

// HostName returns the host name of a port of a project; port 0 is the main one. A
// project whose name itself looks like PORT-PROJECT gets the prefix "0-".
// Names that can't be part of a host name are ErrInvalid: ids always can.
func (n Names) HostName(project string, port int) (string, error) {
	return n.hostInDomain(n.effectiveDomains()[0], project, port)
}

func (n Names) hostInDomain(domain, project string, port int) (string, error) {
	if port < 0 || port > 65535 {
		return "", fmt.Errorf("%w: port %d: must be 0 to 65535", atoll.ErrInvalid, port)
	}
	label := project
	if port != 0 || parseLabel(project).Project != project {
		label = strconv.Itoa(port) + "-" + project
	}
	if !isLabel(project) || !isLabel(label) {
		return "", fmt.Errorf("%w: %q can't be part of a host name: it must be 1 to 57 characters of a-z, 0-9 and '-'; use the sandbox's id", atoll.ErrInvalid, project)
	}
	return label + "." + domain, nil
}

// isLabel reports whether s is one label of a host name: lower case, and not an
// internationalized (xn--) one.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' || len(s) > 3 && s[2:4] == "--" {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil && isDigits(s)
}
