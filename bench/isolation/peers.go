//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// measurePeers measures other tools that run one program in isolation.
func measurePeers(ctx context.Context, o options) []row {
	const part = "create + first output"
	var rows []row
	add := func(what, program string, n int, f func() (timedRun, error)) {
		if _, err := exec.LookPath(program); err != nil {
			fmt.Fprintf(os.Stderr, "bench/isolation: %s is not installed: %s is left out\n", program, what)
			return
		}
		if ctx.Err() != nil {
			return
		}
		do, err := f()
		if err != nil {
			rows = append(rows, row{part: part, what: what, err: err})
			return
		}
		rows = append(rows, measureRounds(part, what, n, do))
	}
	add("bubblewrap --unshare-all, host root", "bwrap", o.n, func() (timedRun, error) {
		return timeCommand("", "bwrap", bwrapArgs()...), nil
	})
	add("bubblewrap --unshare-all, busybox", "bwrap", o.n, func() (timedRun, error) {
		return timeCommand("", "bwrap", "--unshare-all", "--ro-bind", o.rootfs, "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "/bin/echo", "hi"), nil
	})
	for _, runtime := range []string{"runc", "crun", "runsc"} {
		add(runtime+" run", runtime, max(5, o.n/4), func() (timedRun, error) { return prepareBundle(o, runtime) })
	}
	if o.peers != "" {
		cli := filepath.Join(o.peers, "node_modules", ".bin", "srt")
		if _, err := os.Stat(cli); err == nil {
			rows = append(rows, measureRounds(part, "sandbox-runtime (srt)", max(3, o.n/8), timeCommand(o.scratch, cli, o.rootfs+"/bin/echo hi")))
		}
	}
	return rows
}

// bwrapArgs returns arguments of bubblewrap for echo with the host's own root.
func bwrapArgs() []string {
	return []string{"--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "/bin/echo", "hi"}
}

// measurePeerCrowd measures bubblewrap eight times at once.
func measurePeerCrowd(_ context.Context, o options) []row {
	if _, err := exec.LookPath("bwrap"); err != nil {
		return nil // measurePeers has said so
	}
	run := timeCommand("", "bwrap", bwrapArgs()...)
	return []row{crowdRow("bubblewrap --unshare-all, host root", o.crowd, func() error {
		_, err := run()
		return err
	})}
}

// prepareBundle creates an OCI bundle of the root file system and returns a
// timedRun of it.
func prepareBundle(o options, runtime string) (timedRun, error) {
	dir := filepath.Join(o.scratch, runtime)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	tool := "runc"
	if _, err := exec.LookPath(tool); err != nil {
		tool = runtime
	}
	if out, err := exec.Command(tool, "spec", "--bundle", dir).CombinedOutput(); err != nil { //nolint:noctx // ends by itself
		return nil, fmt.Errorf("%s spec: %w: %s", tool, err, out)
	}
	name := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var spec map[string]any
	if err := json.Unmarshal(b, &spec); err != nil {
		return nil, err
	}
	spec["root"] = map[string]any{"path": o.rootfs, "readonly": true}
	process, _ := spec["process"].(map[string]any)
	process["terminal"], process["args"] = false, []string{"/bin/echo", "hi"}
	if b, err = json.Marshal(spec); err == nil {
		err = os.WriteFile(name, b, 0o600)
	}
	if err != nil {
		return nil, err
	}
	args := []string{"--root", filepath.Join(dir, "state")}
	if runtime == "runsc" {
		args = append(args, "--network=none", "--ignore-cgroups")
	}
	i := 0
	return func() (time.Duration, error) {
		i++
		return timeCommand("", runtime, append(args, "run", "--bundle", dir, fmt.Sprintf("bench-%d", i))...)()
	}, nil
}
