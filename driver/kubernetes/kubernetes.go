// Package kubernetes builds sandboxes as pods. atoll's guest agent is process 1 in the image that was
// asked for, and is reached through one tunnel, so that commands cost no request to the cluster's API.
// It installs nothing in the cluster.
package kubernetes

import (
	"errors"
	"fmt"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// The requests and limits of a sandbox where its Spec has 0.
const (
	DefaultRequestCPU    = 0.1
	DefaultRequestMemory = 512 << 20
	DefaultCPU           = 2.0
	DefaultMemory        = 1 << 30
)

// DefaultNamespace is the namespace of sandboxes whose owner's app has no other.
const DefaultNamespace = "atoll"

// Target is a namespace of a cluster for sandboxes. It is created, with its quota and its network
// policies, when the first sandbox needs it.
type Target struct {
	Context   string `json:"context,omitempty"`   // of the kubeconfig; empty: the driver's
	Namespace string `json:"namespace,omitempty"` // empty: the driver's

	// Quota is the namespace's ResourceQuota: "pods": "20", "limits.cpu": "16". It applies to
	// namespaces that atoll creates. nil: none.
	Quota map[string]string `json:"quota,omitempty"`
}

// Placement is a way to get the guest into a pod.
type Placement string

// The placements.
const (
	PlaceAuto   Placement = ""       // with a GuestImage: Volume, or Init if the cluster can't; without one: Copy, or None if there is no guest
	PlaceImage  Placement = "image"  // the image has it at GuestPath
	PlaceVolume Placement = "volume" // GuestImage is a volume of the pod: needs Kubernetes 1.35 and containerd 2
	PlaceInit   Placement = "init"   // an init container of GuestImage copies it
	PlaceCopy   Placement = "copy"   // it is sent to the running pod, whose image needs a shell
	PlaceNone   Placement = "none"   // there is no guest: commands and files go through the cluster's API
)

// Driver builds sandboxes in pods. The zero Driver finds the cluster as kubectl does or, in a pod, uses
// the pod's cluster. Its fields must not change once it is used.
type Driver struct {
	Kubeconfig string // path; empty: $KUBECONFIG, ~/.kube/config, or the pod's own service account
	Context    string // of the kubeconfig; empty: its current one
	Namespace  string // empty: DefaultNamespace

	// Apps are the targets of owners' apps. An app without one gets the driver's namespace or, with
	// Apart, one of its own, NAMESPACE-APP.
	Apps            map[string]Target
	NamespacePerApp bool
	Quota           map[string]string // of the other namespaces that atoll creates

	Placement  Placement
	GuestImage string // image that has atoll-guest at GuestPath
	GuestPath  string // absolute; empty: "/atoll-guest"

	StorageClass string // default of Spec.Pod.StorageClass; empty: "none"
	RuntimeClass string // default of Spec.Runtime; empty: the cluster's own runtime
	Direct       bool   // the guest is reached at its pod's address, with mutual TLS: atoll runs in the cluster
	Privileged   bool   // keep the users of images, also root; otherwise sandboxes satisfy Pod Security's "restricted"

	// Dir is the directory of this driver on this host: egress proxies, and the identity of the fleet.
	// Empty: "kubernetes" in atoll's home.
	Dir string

	// Key is the file of the host's key, which guests trust: Ed25519 as PKCS #8 in PEM. Hosts that
	// share a fleet have the same. Empty: "host.key" in Dir, created at its first use.
	Key string

	// Home names the fleet that sandboxes belong to, in a label: sandboxes of other fleets are not
	// listed. Empty: the identity in Dir.
	Home string

	// Helpers finds atoll-guest, for PlaceCopy.
	Helpers helper.Finder

	// Upstream is the HTTP proxy through which connections leave the host. Its zero value is that of
	// the environment of this process.
	Upstream upstream.Config

	mu      sync.Mutex
	targets map[place]*target // guarded by mu
}

var (
	_ atoll.SharedDriver = (*Driver)(nil)
	_ atoll.OwnerOpener  = (*Driver)(nil)
	_ atoll.StateWatcher = (*Driver)(nil)
	_ atoll.Sandbox      = (*Sandbox)(nil)
	_ atoll.Sandbox      = (*PlainSandbox)(nil)
)

// Name returns "kubernetes".
func (d *Driver) Name() string { return "kubernetes" }

// Shared returns true: every server that reaches the cluster can open its sandboxes.
func (d *Driver) Shared() bool { return true }

// isolation names the isolation of pods without a RuntimeClass.
const isolation = "container"

// markUnavailable makes an error match atoll.ErrUnavailable.
func markUnavailable(err error) error {
	if err == nil || errors.Is(err, atoll.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
}
