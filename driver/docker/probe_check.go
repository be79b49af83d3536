package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
)

var _ atoll.Checker = (*Driver)(nil)

// Checks checks the engine and its features.
func (d *Driver) Checks(ctx context.Context) []atoll.Check {
	helper := d.Helpers.Check("atoll-guest", true, "nothing can be started in a sandbox")
	reach := atoll.Check{Name: "engine", Needed: true}
	e, err := d.openEngine(ctx)
	if err == nil {
		_, err = e.api.Ping(ctx, client.PingOptions{})
		err = e.markError(err)
	}
	if err != nil {
		reach.Detail, reach.Fix = err.Error(), "install and start Docker (docker.io, docker-ce) or Podman's socket, join its group, or name it: $DOCKER_HOST, docker.host in atoll.yaml"
		return []atoll.Check{helper, reach}
	}
	reach.OK, reach.Detail = true, fmt.Sprintf("%s %s at %s", e.productName(), e.info.ServerVersion, e.host)
	filter := atoll.Check{Name: "seccomp of the engine", OK: e.hasSecurityOption("seccomp"), Detail: "the engine filters system calls, and the guest those of commands"}
	if !filter.OK {
		filter.Detail, filter.Fix = "commands are filtered by the guest alone", "an engine built with seccomp"
	}
	disk := atoll.Check{Name: "limit of disk", OK: e.limitsDisk(), Detail: "storage driver " + e.info.Driver}
	if !disk.OK {
		disk.Detail, disk.Fix = "storage driver "+e.info.Driver+" has none", "overlay2 on xfs mounted with pquota, btrfs or zfs"
	}
	users := atoll.Check{Name: "users of its own", OK: e.hasSecurityOption("rootless") || e.hasSecurityOption("userns"), Detail: "root inside has no rights on this host"}
	if !users.OK {
		users.Detail, users.Fix = "root inside, where it is asked for, is root on mounted directories", "userns-remap in daemon.json, or a rootless engine"
	}
	isolation := atoll.Check{Name: "stronger isolation", Detail: "--runtime " + strings.Join(e.extraRuntimes(), ", ")}
	isolation.OK = slices.ContainsFunc(e.extraRuntimes(), func(r string) bool { return strings.HasPrefix(r, "runsc") || strings.HasPrefix(r, "kata") })
	if !isolation.OK {
		isolation.Detail, isolation.Fix = "it has neither runsc (gVisor) nor kata", "install one and add it to runtimes in daemon.json"
	}
	return []atoll.Check{helper, reach, filter, disk, users, isolation}
}
