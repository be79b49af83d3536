package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// Paths of the guest in a container. Only root can read its directory.
const (
	guestDir       = "/.atoll"
	guestFile      = guestDir + "/guest"
	socketDir      = guestDir + "/run"
	socketName     = "guest.sock"
	guestConfigVar = "ATOLL_GUEST"
)

// commandUser is the default user of commands.
const commandUser = 1000

// guestCaps are the capabilities of the guest: it starts commands as other users, changes the owners
// of files and ends commands. Commands have none.
var guestCaps = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "SETPCAP", "KILL"}

// plan is the plan of a container.
type plan struct {
	id      string
	spec    atoll.Spec
	created time.Time
	image   string // name or id
	guest   guest.Config
	dir     string            // of the sandbox on this host
	program string            // the guest, on this host
	files   map[string]string // files of this host that are mounted, by their path inside

	first     bool                            // the sandbox is created with this container
	makeImage func(ctx context.Context) error // makes image; nil: it exists
}

// containerConfig returns the configuration of a container for the engine.
func (d *Driver) containerConfig(e *engine, p *plan) (*container.Config, *container.HostConfig, error) {
	env, err := json.Marshal(&p.guest)
	if err != nil {
		return nil, nil, err
	}
	l, err := sandboxLabels(e.home, p.id, &p.spec, p.created)
	if err != nil {
		return nil, nil, err
	}
	l[labelFirst] = "" // an image may have another value
	if p.first {
		l[labelFirst] = "1"
	}

	config := &container.Config{
		Hostname:    p.id,
		User:        "0:0",
		Image:       p.image,
		Entrypoint:  []string{guestFile, "serve", e.socketPath()},
		Cmd:         []string{},
		Env:         []string{guestConfigVar + "=" + string(env)},
		WorkingDir:  "/",
		Labels:      l,
		StopSignal:  "SIGKILL",
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	host := d.hostConfig(e, &p.spec)
	if e.hasSecurityOption("seccomp") {
		profile, err := seccompOption()
		if err != nil {
			return nil, nil, err
		}
		host.SecurityOpt = append(host.SecurityOpt, profile...)
	}
	host.Mounts = e.bindMounts(p)
	return config, host, nil
}

// socketPath returns the path inside of the socket that the guest listens on.
func (e *engine) socketPath() string {
	if e.reachesSockets() {
		return path.Join(socketDir, socketName)
	}
	return path.Join(guestDir, socketName)
}

// hostConfig returns the isolation and the limits of a container.
func (d *Driver) hostConfig(e *engine, spec *atoll.Spec) *container.HostConfig {
	no := false
	host := &container.HostConfig{
		NetworkMode:    "none",
		CapDrop:        []string{"ALL"},
		CapAdd:         guestCaps,
		SecurityOpt:    []string{"no-new-privileges"},
		CgroupnsMode:   container.CgroupnsModePrivate,
		IpcMode:        container.IPCModePrivate,
		MaskedPaths:    maskedPaths(e.info.NCPU),
		ReadonlyPaths:  []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		Init:           &no,
		ReadonlyRootfs: d.ReadOnly,
		Tmpfs:          map[string]string{},
		Runtime:        spec.Runtime,
		Resources:      e.resourceLimits(spec),
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		LogConfig:      container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "64k", "max-file": "1"}},
	}
	if !e.remote {
		host.Tmpfs[guestDir] = "rw,nosuid,nodev,noexec,size=64k,mode=700"
	}
	if d.ReadOnly {
		host.Tmpfs["/tmp"] = "rw,nosuid,nodev,exec,mode=1777"
		host.Tmpfs["/run"] = "rw,nosuid,nodev,mode=755"
		if dir := path.Clean(spec.Dir); dir != "/" && !slices.ContainsFunc(spec.Mounts, func(m atoll.Mount) bool { return m.Target == dir || strings.HasPrefix(dir, m.Target+"/") }) {
			host.Tmpfs[dir] = "rw,nosuid,nodev,exec,mode=1777"
		}
	}
	if e.reachesSockets() {
		host.DNS = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})} // the guest resolves names; the host's servers stay hidden
	}
	if n := spec.Limits.Disk; n > 0 {
		host.StorageOpt = map[string]string{"size": strconv.FormatInt(n, 10)}
	}
	return host
}

// maskedPaths returns the files that reveal the host's kernel and hardware: those that engines mask by
// default, since this list replaces theirs, and more.
func maskedPaths(cpus int) []string {
	list := []string{"/sys/devices/virtual/powercap", "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing"}
	for _, name := range []string{
		"acpi", "asound", "cmdline", "config.gz", "diskstats", "driver", "dynamic_debug", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg", "latency_stats",
		"modules", "partitions", "sched_debug", "scsi", "slabinfo", "softirqs", "swaps", "sys/kernel/random/boot_id", "timer_list", "timer_stats", "vmallocinfo",
	} {
		list = append(list, "/proc/"+name)
	}
	for cpu := range cpus {
		list = append(list, fmt.Sprintf("/sys/devices/system/cpu/cpu%d/thermal_throttle", cpu))
	}
	return list
}

// resourceLimits returns the limits of a spec: 0 is this driver's default, a negative one is none.
func (e *engine) resourceLimits(spec *atoll.Spec) container.Resources {
	var r container.Resources
	l := spec.Limits
	if cpu := l.CPU; cpu >= 0 {
		if cpu == 0 {
			cpu = min(DefaultCPU, float64(max(e.info.NCPU, 1)))
		}
		r.NanoCPUs = int64(cpu * 1e9)
	}
	if memory := orDefault(l.Memory, DefaultMemory); memory > 0 {
		r.Memory, r.MemorySwap = memory, memory // both: memory is not swapped
	}
	if pids := int64(orDefault(l.PIDs, DefaultPIDs)); pids > 0 {
		pids += guestPIDs
		r.PidsLimit = &pids
	}
	if l.FileSize > 0 {
		r.Ulimits = append(r.Ulimits, &container.Ulimit{Name: "fsize", Soft: l.FileSize, Hard: l.FileSize})
	}
	r.Ulimits = append(r.Ulimits, &container.Ulimit{Name: "core"})
	// Kernel resources that all processes of the host share.
	r.Ulimits = append(r.Ulimits, &container.Ulimit{Name: "sigpending", Soft: 1024, Hard: 1024}, &container.Ulimit{Name: "msgqueue"},
		&container.Ulimit{Name: "memlock", Soft: 64 << 10, Hard: 64 << 10}, &container.Ulimit{Name: "nice"}, &container.Ulimit{Name: "rtprio"})
	if cpu := spec.Requests.CPU; cpu > 0 {
		r.CPUShares = max(2, int64(cpu*1024))
	}
	if memory := spec.Requests.Memory; memory > 0 && (r.Memory == 0 || memory <= r.Memory) {
		r.MemoryReservation = memory
	}
	return r
}

func orDefault[T int | int64](n, other T) T {
	if n == 0 {
		return other
	}
	return n
}

// bindMounts returns the mounts of the guest, of its socket's directory, and of the spec.
func (e *engine) bindMounts(p *plan) []mount.Mount {
	var list []mount.Mount
	bind := func(source, target string, ro bool) {
		list = append(list, mount.Mount{
			Type: mount.TypeBind, Source: source, Target: target, ReadOnly: ro,
			// A mount below a read-only directory would be writable.
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: ro},
		})
	}
	if !e.remote {
		bind(p.program, guestFile, true)
	}
	if e.reachesSockets() {
		bind(filepath.Join(p.dir, "run"), socketDir, false)
	}
	for _, inside := range slices.Sorted(maps.Keys(p.files)) {
		bind(p.files[inside], inside, true)
	}
	for _, m := range p.spec.Mounts {
		bind(m.Source, m.Target, m.ReadOnly)
	}
	return list
}

// reachesSockets reports whether the guest's socket can be connected to without the engine.
func (e *engine) reachesSockets() bool {
	return !e.remote && onLinux && (os.Geteuid() == 0 || e.hasSecurityOption("rootless"))
}

// commandIdentity returns the user and group of a sandbox's commands: the user of the spec, if it is
// a number; the image's user, if it is a number other than root; the owner of the first writable
// mount; or 1000.
//
// Mounts have the host's numbers. In a directory of root, user 1000 has the permissions of others: it
// can read and replace files that root creates there with 0644, but not edit them in place. Running
// as root because of a directory would be worse.
func commandIdentity(spec *atoll.Spec, imageUser string) (uid, gid int, err error) {
	if uid, gid, ok := numericUser(spec.User); ok {
		return uid, gid, nil
	}
	if spec.User == "root" {
		return 0, 0, nil
	}
	if uid, gid, ok := numericUser(imageUser); ok && uid != 0 {
		return uid, gid, nil
	}
	for _, m := range spec.Mounts {
		if m.ReadOnly {
			continue
		}
		uid, gid, err := ownerOf(m.Source)
		if err != nil {
			return 0, 0, fmt.Errorf("mount %s: %w", m.Source, err)
		}
		if uid != 0 {
			return uid, gid, nil
		}
		break
	}
	return commandUser, commandUser, nil
}

// numericUser parses "1000" and "1000:1000".
func numericUser(text string) (uid, gid int, ok bool) {
	user, group, both := strings.Cut(text, ":")
	uid, err := strconv.Atoi(user)
	if err != nil || uid < 0 || uid > maxID {
		return 0, 0, false
	}
	if !both {
		return uid, uid, true
	}
	gid, err = strconv.Atoi(group)
	return uid, gid, err == nil && gid >= 0 && gid <= maxID
}

const maxID = 1<<31 - 1

// joinEnv joins environments; the last value of a name wins.
func joinEnv(lists ...[]string) []string {
	at := make(map[string]string)
	for _, list := range lists {
		for _, e := range list {
			k, v, _ := strings.Cut(e, "=")
			at[k] = v
		}
	}
	env := make([]string, 0, len(at))
	for _, k := range slices.Sorted(maps.Keys(at)) {
		env = append(env, k+"="+at[k])
	}
	return env
}
