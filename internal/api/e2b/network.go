package e2b

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// network is the network of a sandbox.
type network struct {
	AllowOut           []string          `json:"allowOut,omitempty"`
	DenyOut            []string          `json:"denyOut,omitempty"`
	Rules              map[string][]rule `json:"rules,omitempty"`
	EgressProxy        *map[string]any   `json:"egressProxy,omitempty"`
	AllowPublicTraffic *bool             `json:"allowPublicTraffic,omitempty"`
	MaskRequestHost    string            `json:"maskRequestHost,omitempty"`
	HTTPSPorts         []int             `json:"httpsPorts,omitempty"`
	AllowInternet      *bool             `json:"allow_internet_access,omitempty"` // of an update
}

// rule changes requests to a host.
type rule struct {
	Transform *struct {
		Headers map[string]string `json:"headers"`
	} `json:"transform,omitempty"`
}

// allTraffic is the target that stands for every address.
const allTraffic = "0.0.0.0/0"

// applyNetwork adds the network that a client asks for to a configuration. A sandbox reaches the public
// internet unless its client forbids it, if its driver can.
func (s *Server) applyNetwork(ctx context.Context, cfg *atoll.Config, n *network, internet *bool) error {
	if n == nil {
		n = &network{}
	}
	open := internet == nil || *internet
	rules, err := rulesOf(n, &open)
	if err != nil {
		return err
	}
	rules.Mode = atoll.NetworkNone
	if open {
		rules.Mode = atoll.NetworkNAT
		if internet == nil && !s.hasInternet(ctx, cfg.Driver) { // the client did not ask for it
			rules.Mode = atoll.NetworkNone
		}
	}
	cfg.Network = rules
	return nil
}

// hasInternet reports whether sandboxes of a driver can reach the internet; true if that is not known.
func (s *Server) hasInternet(ctx context.Context, driver string) bool {
	for _, d := range s.opts.Fleet.Drivers(ctx) {
		if d.Name == driver || driver == "" && d.Default {
			return d.Features == nil || slices.Contains(d.Features.Networks, atoll.NetworkNAT)
		}
	}
	return true
}

// rulesOf returns the rules of a network, without a mode. If all traffic is denied, open becomes false.
func rulesOf(n *network, open *bool) (atoll.Network, error) {
	var out atoll.Network
	switch {
	case n.EgressProxy != nil:
		return out, unsupportedError("network.egressProxy")
	case n.MaskRequestHost != "":
		return out, unsupportedError("network.maskRequestHost")
	case len(n.HTTPSPorts) > 0:
		return out, unsupportedError("network.httpsPorts")
	}
	for _, target := range n.DenyOut {
		if target == allTraffic || target == "::/0" {
			*open = false
			continue
		}
		t, err := targetOf("denyOut", target)
		if err != nil {
			return out, err
		}
		out.Deny = append(out.Deny, t)
	}
	for _, target := range n.AllowOut {
		if target == allTraffic || target == "::/0" {
			*open = true
			continue
		}
		t, err := targetOf("allowOut", target)
		if err != nil {
			return out, err
		}
		out.Allow = append(out.Allow, t)
	}
	for _, host := range slices.Sorted(maps.Keys(n.Rules)) {
		if _, err := targetOf("rules", host); err != nil {
			return out, err
		}
		for _, r := range n.Rules[host] {
			if r.Transform == nil {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(r.Transform.Headers)) {
				value := r.Transform.Headers[name]
				if strings.Contains(value, "${e2b.") {
					return out, unsupportedError("network.rules: the placeholder in header %q", shortenText(name))
				}
				out.Headers = append(out.Headers, atoll.Header{Host: host, Name: name, Value: value})
				out.Inspect = true
			}
		}
	}
	return out, nil
}

// targetOf checks a target of a rule: an address, a network, or a host name, also with a wildcard.
func targetOf(field, target string) (string, error) {
	host := target
	if h, _, err := net.SplitHostPort(target); err == nil {
		host = h
	}
	_, aerr := netip.ParseAddr(host)
	_, perr := netip.ParsePrefix(host)
	name := strings.TrimPrefix(host, "*.")
	if aerr != nil && perr != nil && (name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "") {
		return "", invalidError("network.%s %q: must be an address, a network or a host name", field, shortenText(target))
	}
	return target, nil
}

// networkOf describes the network of a sandbox; nil: no rules beyond its mode.
func networkOf(n *atoll.Network) *network {
	out := &network{AllowOut: slices.Clone(n.Allow), DenyOut: slices.Clone(n.Deny)}
	for _, h := range n.Headers {
		if out.Rules == nil {
			out.Rules = make(map[string][]rule)
		}
		r := rule{}
		r.Transform = &struct {
			Headers map[string]string `json:"headers"`
		}{map[string]string{h.Name: h.Value}}
		out.Rules[h.Host] = append(out.Rules[h.Host], r)
	}
	if n.Mode != atoll.NetworkNAT && n.Mode != atoll.NetworkOpen {
		out.DenyOut = append(out.DenyOut, allTraffic)
	}
	if len(out.AllowOut)+len(out.DenyOut)+len(out.Rules) == 0 {
		return nil
	}
	return out
}

// putNetwork replaces the rules of a sandbox.
func (s *Server) putNetwork(c *call) error {
	ctx := c.r.Context()
	sb, err := c.open(ctx)
	if err != nil {
		return err
	}
	var in network
	if err := c.readJSON(&in); err != nil {
		return err
	}
	now, err := sb.Network(ctx)
	if err != nil {
		return err
	}
	open := in.AllowInternet == nil && now.Mode == atoll.NetworkNAT || in.AllowInternet != nil && *in.AllowInternet
	next, err := rulesOf(&in, &open)
	if err != nil {
		return err
	}
	next.Mode, next.Rate, next.Bytes = atoll.NetworkNone, now.Rate, now.Bytes
	if open {
		next.Mode = atoll.NetworkNAT
	}
	return c.writeEmpty(sb.SetNetwork(ctx, next))
}
