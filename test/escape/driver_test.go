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

// forEachDriver runs a test for every driver that works on this machine. One that does
// not work fails the test if ATOLL_MUST names it, and is skipped otherwise.
func forEachDriver(t *testing.T, test func(t *testing.T, p testDriver)) {
	t.Helper()
	t.Run("namespace", func(t *testing.T) {
		d := &namespace.Driver{Dir: makeTempDir(t)}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		if _, err := d.Probe(t.Context()); err != nil {
			testenv.Skip(t, "namespace", "%v", err)
		}
		test(t, testDriver{driver: d})
	})
	t.Run("docker", func(t *testing.T) {
		d := &docker.Driver{Host: enginetest.Host(t), Dir: makeTempDir(t)}
		if _, err := d.Probe(t.Context()); err != nil {
			testenv.Skip(t, "docker", "%v", err)
		}
		test(t, testDriver{driver: d, exceptions: dockerExceptions()})
	})
	t.Run("microvm", func(t *testing.T) {
		if os.Getenv("ATOLL_MACHINE_KERNEL") == "" {
			testenv.Skip(t, "qemu", `no kernel for machines: eval "$(scripts/machine)"`)
		}
		d := &microvm.Driver{Dir: makeTempDir(t), Image: escapeImage, Memory: 512 << 20, MinMemory: 16 << 20, CPUs: 1}
		if _, err := d.Probe(t.Context()); err != nil {
			testenv.Skip(t, "qemu", "%v", err)
		}
		importImage(t, d)
		test(t, testDriver{driver: d, ownKernel: true, missingLimits: []string{"bomb-inodes"}, exceptions: listOwnKernelAttacks()})
	})
	if os.Getenv("ATOLL_CLUSTER_STATE") != "" { // set by TestCluster
		t.Run("kubernetes", func(t *testing.T) {
			d := &kubernetes.Driver{Kubeconfig: clustertest.Kubeconfig(t), Namespace: clustertest.Namespace(t, nil), Dir: makeTempDir(t)}
			if _, err := d.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			test(t, testDriver{driver: d, diesOfMemoryLimit: true, exceptions: map[string]string{
				"proc-config":       "the container runtime masks files in /proc, and most leave the kernel's configuration",
				"init-affinity":     "the guest agent of an unprivileged pod has the same user as its commands",
				"init-priority":     "likewise",
				"net-interfaces":    "a pod has an interface; the NetworkPolicy limits its connections",
				"bomb-inotify":      "instances are counted for a user of the node, and no pod has a limit of them",
				"bomb-ptys":         "no pod has a limit of terminals; the kernel keeps a quarter of them for the host",
				"user-is-the-hosts": "a cluster's pods have user namespaces only where hostUsers is false, which not all nodes can",
			}})
		})
	}
}

// dockerExceptions returns the attacks that an engine's containers allow.
func dockerExceptions() map[string]string {
	return map[string]string{
		"user-is-the-hosts": "an engine without userns-remap has no user namespaces for containers",
		"bomb-inotify":      "instances are counted for a user of the host, and no engine has a limit of them",
		"bomb-ptys":         "an engine has no limit of terminals; the kernel keeps a quarter of them for the host",
	}
}

// listOwnKernelAttacks returns the attacks that reach only the VM's own kernel and
// nothing of the host.
func listOwnKernelAttacks() map[string]string {
	weaker := make(map[string]string)
	for _, name := range strings.Fields(`
		sys-firmware file-capability keyring-add keyring-request keyring-session bounding-set userns-root personality quota clock-set
		bpf userfaultfd io-uring modify-ldt vm-splice socket-netfilter socket-audit socket-uevent seccomp-is-on mount-setattr
		unshare-user clone3-user suid-open sgid-open suid-chmod sgid-chmod suid-fchmod suid-mknod suid-openat2 suid-tmpfile io-setup
		mqueue bomb-inotify bomb-ptys tty-inject tty-linux`) {
		weaker[name] = "it reaches only the VM's own kernel"
	}
	return weaker
}

// tempRoot is a directory that is removed when this test binary exits.
var tempRoot string

func makeTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(tempRoot, "place-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
