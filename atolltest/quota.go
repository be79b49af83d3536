package atolltest

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

var quotaLaws = []law{
	{"LimitsAreAppliedOrRefused", limitsAreAppliedOrRefused},
	{"FullDiskIsQuota", fullDiskIsQuota},
	{"ForkBombIsContained", forkBombIsContained},
	{"MemoryBombIsContained", memoryBombIsContained},
	{"NoNetworkByDefault", noNetworkByDefault},
	{"NetworkModesAreAppliedOrRefused", networkModesAreAppliedOrRefused},
}

func limitsAreAppliedOrRefused(e *env) {
	spec := e.spec()
	spec.Limits.CPU = 0.5
	if e.features.CPULimit {
		e.create(spec)
	} else {
		e.refuses(spec, "a CPU limit")
	}
	spec = e.spec()
	spec.Runtime = "atolltest-no-such-runtime"
	sb, err := e.driver.Create(e.ctx(), spec)
	if err == nil {
		e.Error("Create with an unknown runtime succeeded")
		_ = sb.Destroy(e.ctx()) // the failure is reported
	}
}

// fullDiskIsQuota fills a disk of 4 MB from inside and from outside.
func fullDiskIsQuota(e *env) {
	spec := e.spec()
	spec.Limits.Disk = 4 << 20
	if e.lacks {
		e.refuses(spec, "a disk limit")
		return
	}
	sb := e.create(spec)
	ctx := e.ctx()
	if err := atoll.WriteFile(ctx, sb, "/tmp/old", []byte("old"), 0o644); err != nil {
		e.Fatalf("WriteFile: %v", err)
	}
	big := bytes.Repeat([]byte("x"), 5<<20)
	e.want(atoll.WriteFile(ctx, sb, "/tmp/old", big, 0o644), atoll.ErrQuota, "WriteFile over the limit")
	e.want(sb.Import(ctx, "/tmp", e.archive(file("old", string(big)))), atoll.ErrQuota, "Import over the limit")
	eq(e, "the old content", e.sh(sb, "cat /tmp/old"), "old")
	exit := e.exec(sb, atoll.Cmd{Shell: "yes | head -c 6000000 > /tmp/fill"})
	if len(exit.Stderr) == 0 {
		e.Error("filling the disk from inside gives no message")
	}
	size, err := strconv.Atoi(strings.TrimSpace(e.sh(sb, "wc -c < /tmp/fill")))
	if err != nil || size > 4<<20 {
		e.Errorf("%d bytes went onto a disk of 4 MB (%v)", size, err)
	}
	e.sh(sb, "rm /tmp/fill; echo new > /tmp/new")
	eq(e, "room again", e.sh(sb, "cat /tmp/new"), "new\n")
}

func forkBombIsContained(e *env) {
	spec := e.spec()
	spec.Limits.PIDs = 64
	if e.lacks {
		e.refuses(spec, "a limit of processes")
		return
	}
	sb := e.create(spec)
	e.soon("a fork bomb", func() {
		exit, err := sb.Exec(e.ctx(), atoll.Cmd{Shell: "bomb() { bomb | bomb & }; bomb; sleep 1; echo over", Timeout: 5e9, MaxOutput: 1 << 20})
		if err != nil {
			e.want(err, atoll.ErrTimeout, "Exec")
		}
		_ = exit // how it ends is the system's affair; that it ends is the law
	})
	eq(e, "afterwards", e.sh(sb, "echo works"), "works\n")
}

func memoryBombIsContained(e *env) {
	spec := e.spec()
	spec.Limits.Memory = 64 << 20
	if e.lacks {
		e.refuses(spec, "a limit of memory")
		return
	}
	sb := e.create(spec)
	e.soon("a memory bomb", func() {
		exit, err := sb.Exec(e.ctx(), atoll.Cmd{Shell: `x=0123456789abcdef; while :; do x="$x$x"; done`, Timeout: 60e9})
		if err == nil && exit.Code == 0 {
			e.Error("a memory bomb ended with status 0")
		}
	})
	eq(e, "afterwards", e.sh(sb, "echo works"), "works\n")
}

// noNetworkByDefault asks for an address of the documentation's range, which
// nothing answers and no packet reaches from a sandbox without a network.
func noNetworkByDefault(e *env) {
	sb := e.sandbox()
	exit := e.exec(sb, atoll.Cmd{Shell: "command -v curl >/dev/null || exit 7; curl -s --max-time 5 http://192.0.2.1/", Timeout: 30e9})
	if exit.Code == 0 {
		e.Error("a request left a sandbox that has no network")
	}
}

func networkModesAreAppliedOrRefused(e *env) {
	can := make(map[atoll.NetworkMode]bool)
	for _, m := range e.features.Networks {
		can[m] = true
	}
	if !can[atoll.NetworkNone] {
		e.Error("Features.Networks does not have none")
	}
	for _, m := range []atoll.NetworkMode{atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkBridge, atoll.NetworkOpen} {
		spec := e.spec()
		spec.Network.Mode = m
		if can[m] {
			e.create(spec)
		} else {
			e.refuses(spec, "network mode "+string(m))
		}
	}
}
