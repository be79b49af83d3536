package mdns

import "strings"

// Reach is the set of names below local that a host's resolver can resolve.
type Reach int

// The values of Reach.
const (
	None      Reach = iota // no names
	TwoLabels              // those of two labels
	Resolved               // systemd-resolved is asked, which may ask the network
	AnyLabels              // those of any number of labels
)

// ParseReach returns what programs on a Linux host can resolve, from the contents of its
// /etc/nsswitch.conf and its /etc/mdns.allow; the latter is empty if the file is missing.
func ParseReach(nsswitch, allow string) Reach {
	wide := false // nss-mdns asks for all that the file allows
	for line := range strings.Lines(allow) {
		line, _, _ = strings.Cut(line, "#")
		switch strings.TrimSpace(line) {
		case ".local", ".local.", "*":
			wide = true
		}
	}
	reach := None
	for line := range strings.Lines(nsswitch) {
		line, _, _ = strings.Cut(line, "#")
		services, ok := strings.CutPrefix(strings.TrimSpace(line), "hosts:")
		if !ok {
			continue
		}
		for service := range strings.FieldsSeq(services) {
			switch service {
			case "resolve":
				reach = max(reach, Resolved)
			case "mdns_minimal", "mdns4_minimal", "mdns6_minimal":
				reach = max(reach, TwoLabels)
			case "mdns", "mdns4", "mdns6":
				reach = max(reach, TwoLabels)
				if wide {
					reach = AnyLabels
				}
			}
		}
	}
	return reach
}
