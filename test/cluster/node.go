package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const pauseImage = "localhost/pause:1"

func containerdComponent(s stateDir) component {
	return component{
		name:  "containerd",
		args:  []string{helperPath("containerd"), "--config", s.joinPath("containerd.toml")},
		probe: newSocketProbe(s.containerdSocket()),
	}
}

func kubeletComponent(s stateDir, o options) component {
	return kubernetesComponent("kubelet", "kubelet", "http://127.0.0.1:10248/healthz", o, []string{
		"--config=" + s.joinPath("kubelet.json"), "--kubeconfig=" + s.kubeconfigPath("kubelet"),
		"--hostname-override=" + nodeName, "--node-ip=" + nodeAddress,
		"--root-dir=" + s.joinPath("kubelet"), "--cert-dir=" + s.joinPath("kubelet", "pki"),
	})
}

// writeNodeConfig writes the configuration files of containerd, CNI and the kubelet.
func writeNodeConfig(s stateDir, o options) error {
	runc, err := exec.LookPath("runc")
	if err != nil {
		return fmt.Errorf("runc: %w (Debian: apt-get install runc)", err)
	}
	plugins, err := findPluginDir()
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.joinPath("containerd.toml"), []byte(formatContainerdConfig(s, runc, plugins)), 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(s.joinPath("cni"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(s.joinPath("cni", "10-atoll.conflist"), []byte(formatCNIConfig(s)), 0o600); err != nil {
		return err
	}
	b, err := json.MarshalIndent(buildKubeletConfig(s, o), "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(s.joinPath("kubelet.json"), b, 0o600)
}

// findPluginDir returns the directory of the CNI plugins: Debian's, else one of the
// other common ones.
func findPluginDir() (string, error) {
	dirs := []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "ptp")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no CNI plugins (ptp, portmap, host-local) in %s (Debian: apt-get install containernetworking-plugins)", strings.Join(dirs, ", "))
}

// formatContainerdConfig returns containerd's configuration. It restricts the OOM
// score of pods to that of containerd, because lowering it needs CAP_SYS_RESOURCE.
func formatContainerdConfig(s stateDir, runc, plugins string) string {
	c := fmt.Sprintf(`version = 3
root = %q
state = "/run/containerd"
disabled_plugins = [
	"io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
	"io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.differ.v1.erofs",
	"io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing", "io.containerd.nri.v1.nri",
]
[grpc]
	address = %q
[plugins."io.containerd.cri.v1.images".pinned_images]
	sandbox = %q
[plugins."io.containerd.cri.v1.runtime"]
	restrict_oom_score_adj = true
	disable_apparmor = true
	tolerate_missing_hugetlb_controller = true
[plugins."io.containerd.cri.v1.runtime".cni]
	bin_dirs = [%q]
	conf_dir = %q
[plugins."io.containerd.grpc.v1.cri"]
	stream_server_address = "127.0.0.1"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
	runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
	BinaryName = %q
	SystemdCgroup = false
`, s.joinPath("containerd"), s.containerdSocket(), pauseImage, plugins, s.joinPath("cni"), runc)
	if hasGVisor() {
		c += `[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc]
	runtime_type = "io.containerd.runsc.v1"
`
	}
	return c
}

// hasGVisor reports whether pods can use the runtime class gvisor: runsc and its
// shim are in this program's directory or in $PATH.
func hasGVisor() bool {
	for _, name := range []string{"runsc", "containerd-shim-runsc-v1"} {
		_, here := os.Stat(helperPath(name))
		if _, err := exec.LookPath(name); err != nil && here != nil {
			return false
		}
	}
	return true
}

// formatCNIConfig returns the CNI configuration: each pod has a point-to-point link
// to the node, which routes. All traffic between pods so passes the node's iptables
// rules for services and policies, without settings for a bridge.
func formatCNIConfig(s stateDir) string {
	return fmt.Sprintf(`{
	"cniVersion": "1.0.0",
	"name": "atoll",
	"plugins": [
		{
			"type": "ptp",
			"ipMasq": true,
			"ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}
		},
		{"type": "portmap", "capabilities": {"portMappings": true}}
	]
}
`, s.joinPath("cni-addresses"), podNetwork)
}

func buildKubeletConfig(s stateDir, o options) map[string]any {
	return map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"address": "0.0.0.0", "port": 10250, "readOnlyPort": 0,
		"healthzBindAddress": "127.0.0.1", "healthzPort": 10248,
		"tlsCertFile": s.joinPath("pki", "node.crt"), "tlsPrivateKeyFile": s.joinPath("pki", "node.key"),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": s.joinPath("pki", "ca.crt")},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"cgroupDriver":  "cgroupfs", "cgroupRoot": "/" + s.cgroupName(), "failCgroupV1": false, "failSwapOn": false,
		"containerRuntimeEndpoint": "unix://" + s.containerdSocket(),
		"clusterDNS":               []string{"10.96.0.10"}, "clusterDomain": "cluster.local", "resolvConf": s.joinPath("resolv.conf"),
		"evictionHard":                parseThresholds(o.Eviction),
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"kubeAPIQPS": 500, "kubeAPIBurst": 1000, "eventRecordQPS": 0, "registryPullQPS": 0,
		"maxPods": 250, "podPidsLimit": 1024, "serializeImagePulls": false, "oomScoreAdj": 0,
		"podLogsDir": s.joinPath("pods"), "volumePluginDir": s.joinPath("volume-plugins"),
		"nodeLeaseDurationSeconds": 8, "nodeStatusUpdateFrequency": "4s", "nodeStatusReportFrequency": "4s",
	}
}

// parseThresholds parses eviction thresholds: "signal<value,…".
func parseThresholds(list string) map[string]string {
	m := make(map[string]string)
	for t := range strings.SplitSeq(list, ",") {
		if signal, value, ok := strings.Cut(strings.TrimSpace(t), "<"); ok {
			m[signal] = value
		}
	}
	return m
}
