//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/driver/namespace"
)

func namespaceRows(ctx context.Context, o options) (rows []row) {
	d := &namespace.Driver{Dir: filepath.Join(o.scratch, "namespace")}
	defer func() {
		if err := d.Close(); err != nil {
			rows = append(rows, row{what: d.Name(), err: err})
		}
	}()
	if _, err := d.Probe(ctx); err != nil {
		return reportMissing(d, err)
	}
	return measureDriver(ctx, d, o, o.n, o.crowd)
}

// microvmRows measures VMs of 256 MiB: forked from a template, and booted.
func microvmRows(ctx context.Context, o options) []row {
	d := &microvm.Driver{Dir: filepath.Join(o.scratch, "mv"), Image: "bench/busybox:1", Memory: 256 << 20, MinMemory: 64 << 20, CPUs: 1}
	if _, err := d.Probe(ctx); err != nil {
		return reportMissing(d, err)
	}
	archive, err := exec.CommandContext(ctx, "tar", "-c", "-C", o.rootfs, ".").Output()
	if err == nil {
		_, err = d.ImportImage(ctx, d.Image, bytes.NewReader(archive), nil)
	}
	if err == nil {
		err = d.PrepareTemplate(ctx, atoll.Spec{})
	}
	if err != nil {
		return []row{{what: d.Name(), err: err}}
	}
	cold := &microvm.Driver{Dir: d.Dir, Image: d.Image, Memory: d.Memory, MinMemory: d.MinMemory, CPUs: 1, NoTemplates: true}
	n := max(5, o.n/8)
	rows := []row{measureRounds("create + first output", "atoll microvm, without a template", n, func() (time.Duration, error) {
		start := time.Now()
		sb, err := cold.Create(ctx, atoll.Spec{})
		if err != nil {
			return 0, err
		}
		at, err := runEcho(ctx, sb)
		return at.Sub(start), errors.Join(err, sb.Destroy(ctx))
	})}
	o.big, o.files = min(o.big, 128<<20), min(o.files, 2000)
	return append(rows, measureDriver(ctx, d, o, n, max(10, o.crowd/10))...)
}

func dockerRows(ctx context.Context, o options) []row {
	if !o.docker {
		fmt.Fprintln(os.Stderr, "bench/isolation: docker is left out: -docker with $DOCKER_HOST measures it")
		return nil
	}
	n := max(5, o.n/8)
	args := []string{"run", "--rm", "--network", "none", "busybox:latest", "echo", "hi"}
	rows := []row{measureRounds("create + first output", "docker run", n, timeCommand("", "docker", args...))}
	rows = append(rows, dockerExec(n))
	d := &docker.Driver{Dir: filepath.Join(o.scratch, "docker")}
	if _, err := d.Probe(ctx); err != nil {
		return append(rows, reportMissing(d, err)...)
	}
	return append(rows, measureDriver(ctx, d, o, n, max(5, o.crowd/10))...)
}

// dockerExec measures the engine's own exec.
func dockerExec(n int) row {
	const part, what, name = "exec in a running one", "docker exec", "atoll-bench"
	if _, err := timeCommand("", "docker", "run", "-d", "--name", name, "--network", "none", "busybox:latest", "sleep", "1000")(); err != nil {
		return row{part: part, what: what, err: err}
	}
	r := measureRounds(part, what, n, timeCommand("", "docker", "exec", name, "echo", "hi"))
	_, err := timeCommand("", "docker", "rm", "-f", name)()
	r.err = errors.Join(r.err, err)
	return r
}
