package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// component is one program of the cluster.
type component struct {
	name  string
	args  []string
	probe func(context.Context) error // returns nil when the component is ready
}

// listComponents returns all components of a cluster, in the order in which they start.
func listComponents(s stateDir, o options) []component {
	list := []component{
		etcdComponent(s), apiserverComponent(s, o), controllersComponent(s, o),
		kubernetesComponent("scheduler", "kube-scheduler", "https://127.0.0.1:10259/healthz", o, []string{
			"--kubeconfig=" + s.kubeconfigPath("scheduler"), "--leader-elect=false", "--bind-address=127.0.0.1",
			"--kube-api-qps=1000", "--kube-api-burst=2000",
		}),
	}
	if o.Node {
		list = append(list, proxyComponent(s, o), containerdComponent(s), kubeletComponent(s, o))
	}
	return append(list, agentSandboxComponent(s))
}

// kubernetesComponent returns a component that is part of this binary.
func kubernetesComponent(name, program, health string, o options, flags []string) component {
	args := append([]string{executablePath(), program, "--v=" + strconv.Itoa(o.Verbosity)}, flags...)
	return component{name: name, args: args, probe: newHealthProbe(health)}
}

func etcdComponent(s stateDir) component {
	return component{
		name:  "etcd",
		args:  []string{executablePath(), "etcd", s.joinPath("etcd")},
		probe: newHealthProbe("http://" + etcdAddress + "/health"),
	}
}

func apiserverComponent(s stateDir, o options) component {
	return kubernetesComponent("apiserver", "kube-apiserver", "https://127.0.0.1:6443/readyz", o, []string{
		"--etcd-servers=http://" + etcdAddress,
		"--bind-address=0.0.0.0", "--secure-port=6443", "--advertise-address=" + nodeAddress,
		"--tls-cert-file=" + s.joinPath("pki", "apiserver.crt"), "--tls-private-key-file=" + s.joinPath("pki", "apiserver.key"),
		"--client-ca-file=" + s.joinPath("pki", "ca.crt"),
		"--kubelet-certificate-authority=" + s.joinPath("pki", "ca.crt"),
		"--kubelet-client-certificate=" + s.joinPath("pki", "apiserver-kubelet.crt"),
		"--kubelet-client-key=" + s.joinPath("pki", "apiserver-kubelet.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + s.joinPath("pki", "accounts.key"),
		"--service-account-signing-key-file=" + s.joinPath("pki", "accounts.key"),
		"--service-cluster-ip-range=" + serviceNetwork,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true", "--profiling=false",
		"--shutdown-watch-termination-grace-period=1s", // without it, the shutdown waits for watches
	})
}

func controllersComponent(s stateDir, o options) component {
	return kubernetesComponent("controller-manager", "kube-controller-manager", "https://127.0.0.1:10257/healthz", o, []string{
		"--kubeconfig=" + s.kubeconfigPath("controller-manager"), "--leader-elect=false", "--bind-address=127.0.0.1",
		"--use-service-account-credentials", "--root-ca-file=" + s.joinPath("pki", "ca.crt"),
		"--service-account-private-key-file=" + s.joinPath("pki", "accounts.key"),
		"--kube-api-qps=1000", "--kube-api-burst=2000", // with the default of 20 the start takes 6 s longer
		"--node-monitor-grace-period=12s", "--node-monitor-period=2s",
		"--controllers=" + strings.Join(controllerNames(), ","),
	})
}

// controllerNames returns the controllers that the controller manager runs: the
// usual ones without those that need a cloud, certificates or metrics. Fewer
// controllers start faster.
func controllerNames() []string {
	return []string{
		"namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
		"root-ca-certificate-publisher-controller", "clusterrole-aggregation-controller",
		"node-lifecycle-controller", "taint-eviction-controller", "pod-garbage-collector-controller",
		"garbage-collector-controller", "disruption-controller", "resourcequota-controller",
		"persistentvolume-binder-controller", "persistentvolume-protection-controller",
		"persistentvolumeclaim-protection-controller", "ephemeral-volume-controller",
		"deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller",
		"job-controller", "cronjob-controller", "ttl-after-finished-controller",
		"endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller", "service-cidr-controller",
	}
}

func proxyComponent(s stateDir, o options) component {
	return kubernetesComponent("proxy", "kube-proxy", "http://127.0.0.1:10256/healthz", o, []string{
		"--kubeconfig=" + s.kubeconfigPath("proxy"), "--hostname-override=" + nodeName,
		"--proxy-mode=iptables", "--cluster-cidr=" + podNetwork, "--iptables-min-sync-period=100ms",
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
		"--healthz-bind-address=127.0.0.1:10256", "--metrics-bind-address=127.0.0.1:10249", "--oom-score-adj=0",
	})
}

// newHealthProbe returns a probe that requests a health endpoint. It does not verify
// certificates: nothing else can listen in the cluster's network namespace.
func newHealthProbe(url string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, resp.Status)
		}
		return nil
	}
}

// newSocketProbe returns a probe that connects to a unix socket.
func newSocketProbe(path string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", path)
		if err != nil {
			return err
		}
		return c.Close()
	}
}
