package docker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
)

func TestKillAtEveryStep(t *testing.T) {
	host := enginetest.Host(t)
	t.Setenv("ATOLL_ENGINE", host) // for the processes that are killed
	atolltest.KillAtEveryStep(t, 4, func(_ testing.TB, dir string) atoll.Driver { return &docker.Driver{Host: host, Dir: dir} })
	checkEngineIsEmpty(t)
}

// pausedFile is created in the driver's directory when a sandbox was paused.
const pausedFile = "paused"

// TestKilledThaw kills processes in whose paused sandbox a command passes its deadline, for which it is thawed for a
// moment. It is paused afterwards.
func TestKilledThaw(t *testing.T) {
	host := enginetest.Host(t)
	t.Setenv("ATOLL_ENGINE", host) // for the processes that are killed
	open := func(t *testing.T, ctx context.Context, dir string) atoll.Sandbox {
		d := &docker.Driver{Host: host, Dir: dir}
		list, err := d.List(ctx)
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		sb, err := d.Open(ctx, list[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		return sb
	}
	atolltest.KillSteps(t, atolltest.Steps{
		PerAct: 8,
		Prepare: func(t *testing.T, dir string) {
			if _, err := (&docker.Driver{Host: host, Dir: dir}).Create(t.Context(), atoll.Spec{}); err != nil {
				t.Fatal(err)
			}
		},
		Do: func(ctx context.Context, dir string) error {
			sb := open(t, ctx, dir)
			started, exited := make(chan struct{}), make(chan error, 1)
			go func() {
				_, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo; exec sleep 100", Stdout: &closeOnWrite{c: started}, Timeout: time.Second})
				exited <- err
			}()
			<-started
			if err := atoll.Pause(ctx, sb); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, pausedFile), nil, 0o600); err != nil {
				return err
			}
			if err := <-exited; !errors.Is(err, atoll.ErrTimeout) {
				return fmt.Errorf("the command past its deadline: %w", err)
			}
			return nil
		},
		Check: func(t *testing.T, dir string, completed bool) {
			sb := open(t, t.Context(), dir)
			st, err := sb.Status(t.Context())
			_, paused := os.Stat(filepath.Join(dir, pausedFile))
			if err != nil || st.State != atoll.Paused && (completed || paused == nil) {
				t.Errorf("the sandbox is %s, %v", st.State, err)
			}
			if st.State == atoll.Paused {
				err = atoll.Resume(t.Context(), sb)
			}
			if _, execErr := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}}); err != nil || execErr != nil {
				t.Errorf("it does not answer: %v, %v", err, execErr)
			}
			if err := sb.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		},
	})
	checkEngineIsEmpty(t)
}

// closeOnWrite closes a channel when it is written to for the first time.
type closeOnWrite struct {
	c    chan struct{}
	once sync.Once
}

func (w *closeOnWrite) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.c) })
	return len(b), nil
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
