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

// Checks looks at the engine and at what it can do.
func (d *Driver) Checks(ctx context.Context) []atoll.Check {
	helper := atoll.Check{Name: "helper atoll-guest", Needed: true}
	if path, err := d.Helpers.Find("atoll-guest"); err != nil {
		helper.Detail, helper.Fix = "without it nothing can be started in a sandbox", "build atoll with `make build`, or put atoll-guest beside atoll or into $ATOLL_HELPERS"
	} else {
		helper.OK, helper.Detail = true, path
	}
	reach := atoll.Check{Name: "engine", Needed: true}
	e, err := d.engine(ctx)
	if err == nil {
		_, err = e.api.Ping(ctx, client.PingOptions{})
		err = e.explain(err)
	}
	if err != nil {
		reach.Detail, reach.Fix = err.Error(), "install and start Docker (docker.io, docker-ce) or Podman's socket, join its group, or name it: $DOCKER_HOST, docker.host in atoll.yaml"
		return []atoll.Check{helper, reach}
	}
	reach.OK, reach.Detail = true, fmt.Sprintf("%s %s at %s", e.kind(), e.info.ServerVersion, e.host)
	filter := atoll.Check{Name: "seccomp of the engine", OK: e.has("seccomp"), Detail: "the engine filters system calls, and the guest those of commands"}
	if !filter.OK {
		filter.Detail, filter.Fix = "commands are filtered by the guest alone", "an engine built with seccomp"
	}
	disk := atoll.Check{Name: "limit of disk", OK: e.limitsDisk(), Detail: "storage driver " + e.info.Driver}
	if !disk.OK {
		disk.Detail, disk.Fix = "storage driver "+e.info.Driver+" has none", "overlay2 on xfs mounted with pquota, btrfs or zfs"
	}
	users := atoll.Check{Name: "users of its own", OK: e.has("rootless") || e.has("userns"), Detail: "root inside is nobody here"}
	if !users.OK {
		users.Detail, users.Fix = "root inside, where it is asked for, is root on mounted directories", "userns-remap in daemon.json, or a rootless engine"
	}
	walls := atoll.Check{Name: "stronger walls", Detail: "--runtime " + strings.Join(e.runtimes(), ", ")}
	walls.OK = slices.ContainsFunc(e.runtimes(), func(r string) bool { return strings.HasPrefix(r, "runsc") || strings.HasPrefix(r, "kata") })
	if !walls.OK {
		walls.Detail, walls.Fix = "neither runsc (gVisor) nor kata is known to it", "install one and add it to runtimes in daemon.json"
	}
	return []atoll.Check{helper, reach, filter, disk, users, walls}
}
