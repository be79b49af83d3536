package replicas

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	docker "github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/leaktest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// endTime is how long what belongs to a killed server may take to end.
const endTime = time.Minute

// checkNothingLeft kills the servers, and checks that neither the driver nor the host has anything of a sandbox left: all were
// destroyed.
func checkNothingLeft(ctx context.Context, t *testing.T, driver, place string, replicas []*replica) {
	t.Helper()
	for _, r := range replicas {
		r.kill()
	}
	for _, pair := range replicas[0].env {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	d := newDriver(replicas[0].home)
	list, err := d.List(ctx)
	must(t, err)
	for _, st := range list {
		t.Errorf("the driver still has %s, which is %s", st.ID, st.State)
	}
	if driver == "kubernetes" {
		return // pods are what it lists
	}
	if driver == "docker" {
		checkEngineEmpty(ctx, t)
	}
	ending, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	var pids []int
	if !testenv.Poll(ending, func() bool { pids = leaktest.Processes(t, place); return len(pids) == 0 }) {
		for _, pid := range pids {
			t.Errorf("a process is left: %s", describeProcess(pid))
		}
	}
	entries, err := os.ReadDir(place)
	must(t, err)
	for _, e := range entries {
		if atoll.CheckID(e.Name()) == nil || strings.HasPrefix(e.Name(), ".gone-") {
			t.Errorf("the directory of sandbox %s is left", e.Name())
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, place+"/") {
			t.Errorf("a mount is left: %s", line)
		}
	}
}

// describeProcess returns the pid and the arguments of a process.
func describeProcess(pid int) string {
	line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")) // it may have exited
	return fmt.Sprint(pid, " ", strings.ReplaceAll(string(line), "\x00", " "))
}

// checkEngineEmpty checks that an engine has neither containers nor images of sandboxes.
func checkEngineEmpty(ctx context.Context, t *testing.T) {
	t.Helper()
	c, err := docker.New(docker.WithHost(os.Getenv(engineVar)))
	must(t, err)
	defer c.Close()
	containers, err := c.ContainerList(ctx, docker.ContainerListOptions{All: true, Filters: make(docker.Filters).Add("label", "atoll.home")})
	must(t, err)
	for _, o := range containers.Items {
		t.Errorf("container %v is left: %s", o.Names, o.Status)
	}
	images, err := c.ImageList(ctx, docker.ImageListOptions{All: true, Filters: make(docker.Filters).Add("label", "atoll.home")})
	must(t, err)
	for _, i := range images.Items {
		t.Errorf("image %v is left", i.RepoTags)
	}
}
