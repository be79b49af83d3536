// Package namespace builds sandboxes of Linux namespaces: real programs on the
// host's own kernel, with a root file system, users, processes and a network of
// their own, and without a daemon. They outlive the process that made them.
package namespace

import (
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// Driver builds namespace sandboxes. Its fields are not changed once it is used.
type Driver struct {
	// Dir is a directory of the host to keep sandboxes in. Processes may share
	// it. It must not be empty.
	Dir string

	// ImageDir is where images are kept; drivers may share it. Empty: beneath
	// Dir.
	ImageDir string

	// Show are directories of the host that sandboxes without an image see too,
	// read-only and at the same path, such as /opt. They see /usr without
	// /usr/local/etc, and of /etc what programs need.
	Show []string

	// Helpers finds atoll-guest and atoll-gate.
	Helpers helper.Finder

	host host // what is known of this machine, and its spawner

	mu sync.Mutex // guards what says so
}

// Name returns "namespace".
func (d *Driver) Name() string { return "namespace" }

// isolation is the word for this wall.
const isolation = "namespace"

var _ atoll.Driver = (*Driver)(nil)
