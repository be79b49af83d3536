package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll/driver/docker"
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
		return missing(d, err)
	}
	return suite(ctx, d, o, o.n, o.crowd)
}

func dockerRows(ctx context.Context, o options) []row {
	if !o.docker {
		fmt.Fprintln(os.Stderr, "bench/walls: docker is left out: -docker with $DOCKER_HOST measures it")
		return nil
	}
	n := max(5, o.n/8)
	args := []string{"run", "--rm", "--network", "none", "busybox:latest", "echo", "hi"}
	rows := []row{measure("create + first output", "docker run", n, command("", "docker", args...))}
	rows = append(rows, dockerExec(n))
	d := &docker.Driver{Dir: filepath.Join(o.scratch, "docker")}
	if _, err := d.Probe(ctx); err != nil {
		return append(rows, missing(d, err)...)
	}
	return append(rows, suite(ctx, d, o, n, max(5, o.crowd/10))...)
}

// dockerExec measures the engine's own exec.
func dockerExec(n int) row {
	const part, what, name = "exec in a running one", "docker exec", "atoll-bench"
	if _, err := command("", "docker", "run", "-d", "--name", name, "--network", "none", "busybox:latest", "sleep", "1000")(); err != nil {
		return row{part: part, what: what, err: err}
	}
	r := measure(part, what, n, command("", "docker", "exec", name, "echo", "hi"))
	_, err := command("", "docker", "rm", "-f", name)()
	r.err = errors.Join(r.err, err)
	return r
}
