package program

import (
	"path/filepath"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/shell/command"
	"github.com/atoll-sandbox/atoll/shell/command/python"
	"github.com/atoll-sandbox/atoll/shell/command/sqlite"
)

// Wiring returns what the commands use without importing it.
func Wiring() app.Wiring {
	return app.Wiring{
		NewDrivers: Drivers,
		NewInMemory: func(c *config.Config) atoll.Driver {
			return &virtual.Driver{LimitHeap: true, Commands: commands(), Upstream: upstreamProxy(c)}
		},
		NewRescuer: pairing.NewRescuer,
	}
}

// Drivers returns all drivers, configured by c. They keep their files in home, so that
// the next run of atoll finds them. No driver does anything before it is used. The first is the
// default; a project takes the first that runs real programs, so stronger isolation comes first.
func Drivers(c *config.Config, home string) []atoll.Driver {
	proxy := upstreamProxy(c)
	return []atoll.Driver{
		&virtual.Driver{Dir: filepath.Join(home, "sandboxes"), Commands: commands(), SealOthers: config.Get[bool](c, "virtual.seal"), Upstream: proxy},
		microvmDriver(c, home),
		&namespace.Driver{Dir: filepath.Join(home, "namespace"), ImageDir: filepath.Join(home, "images"), Upstream: proxy},
		&docker.Driver{Dir: filepath.Join(home, "docker"), Host: config.Get[string](c, "docker.host"), Upstream: proxy},
		kubernetesDriver(c, home),
	}
}

// commands returns the commands of virtual sandboxes that need more than this process: those of sealed ones are in atoll-worker.
func commands() []command.Command { return slices.Concat(sqlite.Commands(), python.Commands()) }

// upstreamProxy returns the proxy through which connections of sandboxes leave this host.
func upstreamProxy(c *config.Config) upstream.Config {
	return upstream.Config{Proxy: config.Get[string](c, "egress.proxy"), NoProxy: config.List[string](c, "egress.no_proxy")}
}

func microvmDriver(c *config.Config, home string) *microvm.Driver {
	return &microvm.Driver{
		Dir: filepath.Join(home, "microvm"), ImageDir: filepath.Join(home, "images"), Upstream: upstreamProxy(c),
		QEMU: config.Get[string](c, "microvm.qemu"), Kernel: config.Get[string](c, "microvm.kernel"), Modules: config.Get[string](c, "microvm.modules"),
		Accel: config.Get[string](c, "microvm.accel"), Type: config.Get[string](c, "microvm.type"),
		Bridge: config.Get[string](c, "microvm.bridge"), Roots: config.List[string](c, "microvm.roots"),
		NoTemplates: c.IsSet("microvm.templates") && !config.Get[bool](c, "microvm.templates"),
	}
}

func kubernetesDriver(c *config.Config, home string) *kubernetes.Driver {
	placement := kubernetes.Placement(config.Get[string](c, "kubernetes.placement"))
	if placement == "auto" {
		placement = kubernetes.PlaceAuto
	}
	apps := make(map[string]kubernetes.Target)
	for app, t := range config.Get[map[string]config.PodTarget](c, "kubernetes.apps") {
		apps[app] = kubernetes.Target{Context: t.Context, Namespace: t.Namespace, Quota: t.Quota}
	}
	return &kubernetes.Driver{
		Dir:        filepath.Join(home, "kubernetes"),
		Upstream:   upstreamProxy(c),
		Home:       config.Get[string](c, "kubernetes.home"),
		Kubeconfig: config.Get[string](c, "kubernetes.kubeconfig"), Context: config.Get[string](c, "kubernetes.context"),
		Namespace: config.Get[string](c, "kubernetes.namespace"), NamespacePerApp: config.Get[bool](c, "kubernetes.apart"),
		Apps: apps, Quota: config.Get[map[string]string](c, "kubernetes.quota"),
		Placement:  placement,
		GuestImage: config.Get[string](c, "kubernetes.guest_image"), GuestPath: config.Get[string](c, "kubernetes.guest_path"), Key: config.Get[string](c, "kubernetes.key"),
		StorageClass: config.Get[string](c, "kubernetes.storage_class"), RuntimeClass: config.Get[string](c, "kubernetes.runtime_class"),
		Direct: config.Get[bool](c, "kubernetes.direct"), Privileged: config.Get[bool](c, "kubernetes.privileged"),
	}
}
