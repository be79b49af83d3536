// Package namespace builds sandboxes of Linux namespaces: real programs on the host's kernel, with
// a root file system, users, processes and a network of their own, and without a daemon. They
// outlive the process that created them.
package namespace

import (
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// Driver builds namespace sandboxes. Its fields must not change once it is used.
type Driver struct {
	// Dir is a directory of the host for the sandboxes. Processes may share it. It must not be
	// empty.
	Dir string

	// ImageDir is the directory of the images; drivers may share it. Empty: a directory in Dir.
	ImageDir string

	// HostDirs lists directories of the host that sandboxes without an image see too, read-only and at
	// the same path, such as /opt. They always see /usr without /usr/local/etc, and the files of
	// /etc that programs need.
	HostDirs []string

	// Helpers finds atoll-guest and atoll-egress.
	Helpers helper.Finder

	// Upstream is the HTTP proxy through which connections leave the host. Its zero value is that of
	// the environment of this process.
	Upstream upstream.Config

	host host // state on this host

	mu sync.Mutex // guards the fields of host
}

// Name returns "namespace".
func (d *Driver) Name() string { return "namespace" }

// isolation names the isolation of this driver.
const isolation = "namespace"

var _ atoll.Driver = (*Driver)(nil)
