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

func containerdComponent(s state) component {
	return component{
		name:  "containerd",
		args:  []string{beside("containerd"), "--config", s.path("containerd.toml")},
		probe: listening(s.containerd()),
	}
}

func kubeletComponent(s state, o options) component {
	return kubernetesComponent("kubelet", "kubelet", "http://127.0.0.1:10248/healthz", o, []string{
		"--config=" + s.path("kubelet.json"), "--kubeconfig=" + s.kubeconfig("kubelet"),
		"--hostname-override=" + nodeName, "--node-ip=" + nodeAddress,
		"--root-dir=" + s.path("kubelet"), "--cert-dir=" + s.path("kubelet", "pki"),
	})
}

// writeNode writes the configuration of what runs pods.
func writeNode(s state, o options) error {
	runc, err := exec.LookPath("runc")
	if err != nil {
		return fmt.Errorf("runc: %w (Debian: apt-get install runc)", err)
	}
	plugins, err := pluginDir()
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path("containerd.toml"), []byte(containerdConfig(s, runc, plugins)), 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(s.path("cni"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(s.path("cni", "10-atoll.conflist"), []byte(pluginConfig(s)), 0o600); err != nil {
		return err
	}
	b, err := json.MarshalIndent(kubeletConfig(s, o), "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(s.path("kubelet.json"), b, 0o600)
}

// pluginDir finds the CNI plugins: Debian's place first, then everybody's.
func pluginDir() (string, error) {
	dirs := []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "ptp")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no CNI plugins (ptp, portmap, host-local) in %s (Debian: apt-get install containernetworking-plugins)", strings.Join(dirs, ", "))
}

// containerdConfig: pods may not ask for an OOM score below ours, because
// machines without CAP_SYS_RESOURCE can't give them one.
func containerdConfig(s state, runc, plugins string) string {
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
`, s.path("containerd"), s.containerd(), pauseImage, plugins, s.path("cni"), runc)
	if hasGVisor() {
		c += `[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc]
	runtime_type = "io.containerd.runsc.v1"
`
	}
	return c
}

// hasGVisor says whether pods can ask for the runtime class gvisor: runsc and
// its shim are beside this program or in $PATH.
func hasGVisor() bool {
	for _, name := range []string{"runsc", "containerd-shim-runsc-v1"} {
		_, here := os.Stat(beside(name))
		if _, err := exec.LookPath(name); err != nil && here != nil {
			return false
		}
	}
	return true
}

// pluginConfig gives each pod a link of its own to the node, which routes:
// so everything between pods passes the node's tables, for services and
// policies alike, and no bridge has to be told to consult them.
func pluginConfig(s state) string {
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
`, s.path("cni-addresses"), podNetwork)
}

func kubeletConfig(s state, o options) map[string]any {
	return map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"address": "0.0.0.0", "port": 10250, "readOnlyPort": 0,
		"healthzBindAddress": "127.0.0.1", "healthzPort": 10248,
		"tlsCertFile": s.path("pki", "node.crt"), "tlsPrivateKeyFile": s.path("pki", "node.key"),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": s.path("pki", "ca.crt")},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"cgroupDriver":  "cgroupfs", "cgroupRoot": "/" + s.cgroup(), "failCgroupV1": false, "failSwapOn": false,
		"containerRuntimeEndpoint": "unix://" + s.containerd(),
		"clusterDNS":               []string{"10.96.0.10"}, "clusterDomain": "cluster.local", "resolvConf": s.path("resolv.conf"),
		"evictionHard":                thresholds(o.Eviction),
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"kubeAPIQPS": 500, "kubeAPIBurst": 1000, "eventRecordQPS": 0, "registryPullQPS": 0,
		"maxPods": 250, "podPidsLimit": 1024, "serializeImagePulls": false, "oomScoreAdj": 0,
		"podLogsDir": s.path("pods"), "volumePluginDir": s.path("volume-plugins"),
		"nodeLeaseDurationSeconds": 8, "nodeStatusUpdateFrequency": "4s", "nodeStatusReportFrequency": "4s",
	}
}

// thresholds reads "signal<value,…".
func thresholds(list string) map[string]string {
	m := make(map[string]string)
	for t := range strings.SplitSeq(list, ",") {
		if signal, value, ok := strings.Cut(strings.TrimSpace(t), "<"); ok {
			m[signal] = value
		}
	}
	return m
}
