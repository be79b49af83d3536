package fleet

import (
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// reservedLabel is a label by which servers recognize sandboxes that work on repositories of this host.
type reservedLabel struct{ prefix, name, value string }

// ReserveLabel reserves labels for callers with ScopeHost: those whose names begin with prefix, on sandboxes whose label name
// has the value. It must be called before the fleet is used.
func (f *Fleet) ReserveLabel(prefix, name, value string) {
	f.reserved = &reservedLabel{prefix, name, value}
}

// checkReservedLabels refuses labels that make a sandbox one of a repository of this host, or of another one, to callers
// without ScopeHost. before are the sandbox's labels until now.
func (a *Account) checkReservedLabels(op string, labels, before map[string]string) error {
	r := a.f.reserved
	if r == nil || labels[r.name] != r.value || a.caller.hasScope(atoll.ScopeHost) {
		return nil
	}
	for _, set := range []map[string]string{labels, before} {
		for name := range set {
			if strings.HasPrefix(name, r.prefix) && labels[name] != before[name] {
				a.startAudit(op, "", "label "+truncate(name, 100))(atoll.ErrDenied)
				return fmt.Errorf("%w: label %s of a sandbox that works on a repository of this host: that needs the scope %q", atoll.ErrDenied, name, atoll.ScopeHost)
			}
		}
	}
	return nil
}
