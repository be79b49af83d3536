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
	spec := e.newSpec()
	spec.Limits.CPU = 0.5
	if e.features.CPULimit {
		e.create(spec)
	} else {
		e.mustRefuse(spec, "a CPU limit")
	}
	spec = e.newSpec()
	spec.Runtime = "atolltest-no-such-runtime"
	sb, err := e.driver.Create(e.newContext(), spec)
	if err == nil {
		e.Error("Create with an unknown runtime succeeded")
		_ = sb.Destroy(e.newContext()) // the failure is reported above
	}
}

// fullDiskIsQuota fills a disk of 4 MB by commands and by file calls.
func fullDiskIsQuota(e *env) {
	spec := e.newSpec()
	spec.Limits.Disk = 4 << 20
	if e.lacks {
		e.mustRefuse(spec, "a disk limit")
		return
	}
	sb := e.create(spec)
	ctx := e.newContext()
	if err := atoll.WriteFile(ctx, sb, "/tmp/old", []byte("old"), 0o644); err != nil {
		e.Fatalf("WriteFile: %v", err)
	}
	big := bytes.Repeat([]byte("x"), 5<<20)
	e.wantError(atoll.WriteFile(ctx, sb, "/tmp/old", big, 0o644), atoll.ErrQuota, "WriteFile over the limit")
	e.wantError(sb.Import(ctx, "/tmp", e.packArchive(fileEntry("old", string(big)))), atoll.ErrQuota, "Import over the limit")
	wantEqual(e, "the old content", e.runShell(sb, "cat /tmp/old"), "old")
	exit := e.exec(sb, atoll.Cmd{Shell: "yes | head -c 6000000 > /tmp/fill"})
	if len(exit.Stderr) == 0 {
		e.Error("filling the disk from inside gives no message")
	}
	size, err := strconv.Atoi(strings.TrimSpace(e.runShell(sb, "wc -c < /tmp/fill")))
	if err != nil || size > 4<<20 {
		e.Errorf("a disk of 4 MB holds a file of %d bytes (%v)", size, err)
	}
	e.runShell(sb, "rm /tmp/fill; echo new > /tmp/new")
	wantEqual(e, "room again", e.runShell(sb, "cat /tmp/new"), "new\n")
}

func forkBombIsContained(e *env) {
	spec := e.newSpec()
	spec.Limits.PIDs = 64
	if e.lacks {
		e.mustRefuse(spec, "a limit of processes")
		return
	}
	sb := e.create(spec)
	e.mustFinish("a fork bomb", func() {
		exit, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: "bomb() { bomb | bomb & }; bomb; sleep 1; echo over", Timeout: 5e9, MaxOutput: 1 << 20})
		if err != nil {
			e.wantError(err, atoll.ErrTimeout, "Exec")
		}
		_ = exit // only that it ends counts
	})
	wantEqual(e, "afterwards", e.runShell(sb, "echo works"), "works\n")
}

func memoryBombIsContained(e *env) {
	spec := e.newSpec()
	spec.Limits.Memory = 64 << 20
	if e.lacks {
		e.mustRefuse(spec, "a limit of memory")
		return
	}
	sb := e.create(spec)
	e.mustFinish("a memory bomb", func() {
		exit, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: `x=0123456789abcdef; while :; do x="$x$x"; done`, Timeout: 60e9})
		if err == nil && exit.Code == 0 {
			e.Error("a memory bomb ended with status 0")
		}
	})
	wantEqual(e, "afterwards", e.runShell(sb, "echo works"), "works\n")
}

// noNetworkByDefault connects to an address of a documentation range, to which
// nothing answers and no packet of a sandbox without a network gets.
func noNetworkByDefault(e *env) {
	sb := e.newSandbox()
	exit := e.exec(sb, atoll.Cmd{Shell: "command -v curl >/dev/null || exit 7; curl -s --max-time 5 http://192.0.2.1/", Timeout: 30e9})
	if exit.Code == 0 {
		e.Error("a request succeeded in a sandbox without a network")
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
		spec := e.newSpec()
		spec.Network.Mode = m
		if can[m] {
			e.create(spec)
		} else {
			e.mustRefuse(spec, "network mode "+string(m))
		}
	}
}
