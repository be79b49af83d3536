// Package kubernetes builds sandboxes as pods: atoll's guest is process 1 of the
// image that was asked for, and is reached by one tunnel, so that commands cost
// the cluster's API nothing. It installs nothing in the cluster.
package kubernetes

import (
	"errors"
	"fmt"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// What a sandbox is given where its Spec has 0.
const (
	DefaultRequestCPU    = 0.1
	DefaultRequestMemory = 512 << 20
	DefaultCPU           = 2.0
	DefaultMemory        = 1 << 30
)

// DefaultNamespace is where sandboxes are whose owner's app has no other.
const DefaultNamespace = "atoll"

// Target is a place for sandboxes: a namespace of a cluster. It is made, with
// its quota and its walls, when the first sandbox needs it.
type Target struct {
	Context   string `json:"context,omitempty"`   // of the kubeconfig; empty: the driver's
	Namespace string `json:"namespace,omitempty"` // empty: the driver's

	// Quota is the namespace's ResourceQuota: "pods": "20", "limits.cpu": "16".
	// It is applied to namespaces that atoll makes. nil: none.
	Quota map[string]string `json:"quota,omitempty"`
}

// Placement says how the guest gets into a pod.
type Placement string

// The placements.
const (
	PlaceAuto   Placement = ""       // Volume or Init where GuestImage is set, as the cluster can; else Copy, or None where that can't be
	PlaceImage  Placement = "image"  // it is in the image, at GuestPath
	PlaceVolume Placement = "volume" // GuestImage is a volume of the pod: Kubernetes 1.35 and containerd 2 on
	PlaceInit   Placement = "init"   // an init container of GuestImage copies it
	PlaceCopy   Placement = "copy"   // it is sent in when the pod runs, whose image needs a shell
	PlaceNone   Placement = "none"   // there is no guest: commands and files go through the cluster's API
)

// Driver builds sandboxes in pods. The zero Driver finds the cluster as kubectl
// does, or, in a pod, the cluster that it is of. Its fields are not changed once
// it is used.
type Driver struct {
	Kubeconfig string // path; empty: $KUBECONFIG, ~/.kube/config, or the pod's own service account
	Context    string // of the kubeconfig; empty: its current one
	Namespace  string // empty: DefaultNamespace

	// Apps has the places of owners' apps. An app that is not in it gets the
	// driver's namespace; with Apart, one of its own, NAMESPACE-APP.
	Apps  map[string]Target
	Apart bool
	Quota map[string]string // of the namespaces that atoll makes for the others

	Placement  Placement
	GuestImage string // image that has atoll-guest at GuestPath
	GuestPath  string // absolute; empty: "/atoll-guest"

	StorageClass string // of Spec.Pod's StorageClass, where that is empty; empty: "none"
	Direct       bool   // the guest is reached at its pod's address, with mutual TLS: atoll runs in the cluster
	Privileged   bool   // image users are kept as they are, root too; else sandboxes satisfy Pod Security's "restricted"

	// Dir is where this host's side of sandboxes is kept: gates, and the identity
	// of the fleet. Empty: "kubernetes" in atoll's home.
	Dir string

	// Key is the file of the host's key, which guests know: Ed25519 as PKCS #8 in
	// PEM. Hosts that share a fleet have the same. Empty: "host.key" in Dir, made
	// at its first use.
	Key string

	// Home names the fleet that sandboxes belong to, in a label: those of others
	// are not listed. Empty: the identity in Dir.
	Home string

	// Helpers finds atoll-guest, for PlaceCopy.
	Helpers helper.Finder

	mu      sync.Mutex
	targets map[place]*target // guarded by mu
}

var (
	_ atoll.Driver  = (*Driver)(nil)
	_ atoll.Sandbox = (*Sandbox)(nil)
	_ atoll.Sandbox = (*Plain)(nil)
)

// Name returns "kubernetes".
func (d *Driver) Name() string { return "kubernetes" }

// isolation is the word for this wall, where no RuntimeClass makes it another.
const isolation = "container"

// unavailable makes an error match ErrUnavailable.
func unavailable(err error) error {
	if err == nil || errors.Is(err, atoll.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
}
