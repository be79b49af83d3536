//go:build linux

package escape

import (
	"os"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// each runs a test for every driver that can be tried here. What is missing of
// one is a failure where ATOLL_MUST names it.
func each(t *testing.T, test func(t *testing.T, p place)) {
	t.Helper()
	t.Run("namespace", func(t *testing.T) {
		d := &namespace.Driver{Dir: scratch(t)}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		if _, err := d.Probe(t.Context()); err != nil {
			testenv.Skip(t, "namespace", "%v", err)
		}
		test(t, place{driver: d})
	})
	t.Run("docker", func(t *testing.T) {
		d := &docker.Driver{Host: enginetest.Host(t), Dir: scratch(t)}
		if _, err := d.Probe(t.Context()); err != nil {
			testenv.Skip(t, "docker", "%v", err)
		}
		test(t, place{driver: d, weaker: map[string]string{
			"user-is-the-hosts": "an engine without userns-remap has no user namespaces for containers",
			"bomb-inotify":      "instances are counted for a user of the host, and no engine has a limit of them",
			"bomb-ptys":         "an engine has no limit of terminals; the kernel keeps a quarter of them for the host",
		}})
	})
	t.Run("microvm", func(t *testing.T) {
		if os.Getenv("ATOLL_MACHINE_KERNEL") == "" {
			testenv.Skip(t, "qemu", `no kernel for machines: eval "$(scripts/machine)"`)
		}
		d := &microvm.Driver{Dir: scratch(t), Image: escapeImage, Memory: 512 << 20, LeastMemory: 16 << 20, CPUs: 1}
		if _, err := d.Probe(t.Context()); err != nil {
			testenv.Skip(t, "qemu", "%v", err)
		}
		importImage(t, d)
		test(t, place{driver: d, apart: true, lacks: []string{"bomb-inodes"}, weaker: ofItsOwnKernel()})
	})
	if os.Getenv("ATOLL_CLUSTER_STATE") != "" { // TestCluster has begun this
		t.Run("kubernetes", func(t *testing.T) {
			d := &kubernetes.Driver{Kubeconfig: clustertest.Kubeconfig(t), Namespace: clustertest.Namespace(t, nil), Dir: scratch(t)}
			if _, err := d.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			test(t, place{driver: d, mortal: true, weaker: map[string]string{
				"proc-config":       "what of /proc is masked is the container runtime's affair, and most leave the kernel's configuration",
				"init-affinity":     "the guest of a pod without rights is of the same user as its commands",
				"init-priority":     "likewise",
				"net-interfaces":    "a pod has an interface; what it reaches is the NetworkPolicy's affair",
				"bomb-inotify":      "instances are counted for a user of the node, and no pod has a limit of them",
				"bomb-ptys":         "no pod has a limit of terminals; the kernel keeps a quarter of them for the host",
				"user-is-the-hosts": "a cluster's pods have user namespaces only where hostUsers is false, which not all nodes can",
			}})
		})
	}
}

// ofItsOwnKernel are the attacks that reach a machine's own kernel, and nothing
// of the host.
func ofItsOwnKernel() map[string]string {
	weaker := make(map[string]string)
	for _, name := range strings.Fields(`
		sys-firmware file-capability keyring-add keyring-request keyring-session bounding-set userns-root personality quota clock-set
		bpf userfaultfd io-uring modify-ldt vm-splice socket-netfilter socket-audit socket-uevent seccomp-is-on mount-setattr
		unshare-user clone3-user suid-open sgid-open suid-chmod sgid-chmod suid-fchmod suid-mknod suid-openat2 suid-tmpfile io-setup
		mqueue bomb-inotify bomb-ptys tty-inject tty-linux`) {
		weaker[name] = "what it reaches is the kernel of the machine, which is nobody else's"
	}
	return weaker
}

// kept holds what lives as long as this test binary.
var kept string

func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(kept, "place-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
