package docker_test

import (
	"testing"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
)

func TestKillAtEveryStep(t *testing.T) {
	host := enginetest.Host(t)
	t.Setenv("ATOLL_ENGINE", host) // for the processes that are killed
	atolltest.KillAtEveryStep(t, 8, func(_ testing.TB, dir string) atoll.Driver { return &docker.Driver{Host: host, Dir: dir} })
	checkEngineIsEmpty(t)
}

// checkEngineIsEmpty checks that the engine has no container or image of a sandbox.
func checkEngineIsEmpty(t *testing.T) {
	t.Helper()
	c := engineClient(t)
	containers, err := c.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range containers.Items {
		t.Errorf("left is the container %v, %s", one.Names, one.State)
	}
	for _, id := range listSandboxImages(t, c) {
		t.Errorf("left is the image %s", id)
	}
}
