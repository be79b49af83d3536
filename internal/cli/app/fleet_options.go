package app

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/webhook"
)

// defaultOwnerDisk is the quota of disk of an owner besides the local one, where quota.disk is not
// set: one owner does not fill the disk of the server by accident.
const defaultOwnerDisk = 20 << 30

// FleetOptions say what the fleet of this machine consists of.
func (a *App) FleetOptions(log *slog.Logger) fleet.Options {
	c := a.Config
	return fleet.Options{
		Home: a.Home, Shared: config.Get[string](c, "shared"), Registry: config.Get[string](c, "registry"), Drivers: a.Drivers(), Default: a.DefaultDriver(), Log: log, Rescue: a.rescueFunc(),
		Quota: atoll.Quota{
			Sandboxes: config.Get[int](c, "quota.sandboxes"), CPU: config.Get[float64](c, "quota.cpu"),
			Memory: config.Get[int64](c, "quota.memory"), Disk: config.Get[int64](c, "quota.disk"),
			Workspaces: config.Get[int](c, "quota.workspaces"), Processes: config.Get[int](c, "quota.processes"),
			Tokens: int64(config.Get[int](c, "quota.tokens")), Cost: config.Get[float64](c, "quota.cost"),
		},
		Issuer: a.IssuerOptions(), Keys: a.KeyOptions(), SecretProviders: a.SecretProviders(),
		Archive:   a.ArchiveOptions(),
		Webhooks:  webhook.Options{Allow: config.List[netip.Prefix](c, "webhooks.allow")},
		OwnerDisk: defaultOwnerDisk,
		Retention: fleet.Retention{
			Keep: config.Get[time.Duration](c, "retention.keep"), Cron: config.Get[string](c, "retention.cron"),
			Events: config.Get[time.Duration](c, "retention.events"), Audit: config.Get[time.Duration](c, "retention.audit"),
			Deliveries: config.Get[time.Duration](c, "retention.deliveries"), Tokens: config.Get[time.Duration](c, "retention.tokens"),
			Usage: config.Get[time.Duration](c, "retention.usage"),
		},
	}
}

// KeyOptions name what holds the keys that encrypt the secrets in the registry.
func (a *App) KeyOptions() keyring.Options {
	return keyring.Options{File: config.Get[string](a.Config, "secrets.key_file"), Command: config.List[string](a.Config, "secrets.key_command")}
}

// DefaultDriver returns the name of the driver of new sandboxes: the configured one, else the
// first that is registered.
func (a *App) DefaultDriver() string {
	if a.DriverName != "" {
		return a.DriverName
	}
	return a.FirstDriver()
}

// FirstDriver returns the name of the driver that is used where none is configured; empty: there
// is no driver.
func (a *App) FirstDriver() string {
	if len(a.Drivers()) == 0 {
		return ""
	}
	return a.Drivers()[0].Name()
}

// InMemory returns a driver that stands for d and keeps its sandboxes in memory, and whether
// there is one.
func (a *App) InMemory(d atoll.Driver) (atoll.Driver, bool) {
	m := a.NewInMemory(a.Config)
	return m, m.Name() == d.Name()
}
