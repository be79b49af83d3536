package atoll

import "context"

// Checker is a Driver that can explain what it finds on this machine.
type Checker interface {
	// Checks looks at everything that the driver uses, also when Probe fails.
	Checks(ctx context.Context) []Check
}

// Check is one thing that a driver needs, or could use.
type Check struct {
	Name   string `json:"name"`             // "user namespaces", "limit of memory"…
	OK     bool   `json:"ok"`               //
	Needed bool   `json:"needed,omitempty"` // without it the driver can't work at all
	Detail string `json:"detail,omitempty"` // what was found
	Fix    string `json:"fix,omitempty"`    // how to get it
}
