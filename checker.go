package atoll

import "context"

// Checker is a Driver that can report what it needs and what it finds on this machine.
type Checker interface {
	// Checks examines everything that the driver uses. It works also when Probe fails.
	Checks(ctx context.Context) []Check
}

// Check is the result of examining one requirement of a driver.
type Check struct {
	Name   string `json:"name"`             // "user namespaces", "memory limit"…
	OK     bool   `json:"ok"`               //
	Needed bool   `json:"needed,omitempty"` // the driver can't work without it
	Detail string `json:"detail,omitempty"` // what was found
	Fix    string `json:"fix,omitempty"`    // how to get it
}
