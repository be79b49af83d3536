package docker

import (
	"errors"
	"os"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/atoll-sandbox/atoll"
)

// TestOpenProcessOfChangedContainer checks that openProcess returns an error if the container was
// restarted or has exited between its two requests.
func TestOpenProcessOfChangedContainer(t *testing.T) {
	first := container.State{Pid: os.Getpid(), StartedAt: "1"}
	for name, c := range map[string]struct {
		then container.State
		want error
	}{
		"the same":      {first, nil},
		"another":       {container.State{Pid: os.Getppid(), StartedAt: "1"}, atoll.ErrState},
		"started again": {container.State{Pid: os.Getpid(), StartedAt: "2"}, atoll.ErrState},
		"ended":         {container.State{StartedAt: "1"}, atoll.ErrState},
	} {
		states := []container.State{first, c.then}
		f, pid, err := openProcess(func() (container.InspectResponse, error) {
			now := states[0]
			states = states[1:]
			return container.InspectResponse{State: &now}, nil
		})
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil && f != nil && pid == os.Getpid()) {
			t.Errorf("%s: %v, %d, %v", name, f, pid, err)
		}
		if f != nil {
			_ = f.Close() // opened only for the check
		}
	}
}
