package docker_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/helper/helpertest"
	"github.com/atoll-sandbox/atoll/internal/musthave"
)

func TestMain(m *testing.M) {
	code := helpertest.Own(m) // leaks are looked for among processes that run them
	stopEngine()
	os.Exit(code)
}

// private is the engine of these tests, started by the first that needs it.
var private struct {
	once sync.Once
	dir  string
	host string
	err  error
}

// engine returns the address of a private engine.
func engine(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("dockerd"); err != nil || os.Getuid() != 0 {
		const missing = "dockerd (apt-get install docker.io busybox-static) and root to run it are missing"
		musthave.Skip(t, "docker", "%s", missing)
	}
	private.once.Do(func() {
		if private.dir, private.err = os.MkdirTemp("", "atoll-engine-"); private.err != nil {
			return
		}
		cmd := exec.Command("../../scripts/engine", "start", private.dir)
		cmd.Env = append(os.Environ(), "ENGINE_ARGS="+engineArgs, fmt.Sprintf("ENGINE_OWNER=%d", os.Getpid()))
		var log bytes.Buffer
		cmd.Stderr = &log
		var out []byte
		out, private.err = cmd.Output()
		_, private.host, _ = strings.Cut(strings.TrimSpace(string(out)), "=")
		if private.err != nil {
			private.host = log.String()
		}
	})
	if private.err != nil {
		t.Fatalf("starting a private engine: %v: %s", private.err, private.host)
	}
	return private.host
}

// engineArgs lets the engine be reached as a remote one, too, and know crun.
const engineArgs = "--add-runtime crun=/usr/bin/crun"

func stopEngine() {
	if private.dir == "" {
		return
	}
	if out, err := exec.Command("../../scripts/engine", "stop", private.dir).CombinedOutput(); err != nil {
		panic("stopping the engine: " + string(out))
	}
	if err := os.RemoveAll(private.dir); err != nil {
		panic(err)
	}
}

// local returns a driver of the private engine.
func local(t testing.TB) *docker.Driver {
	t.Helper()
	return &docker.Driver{Host: engine(t), Dir: t.TempDir()}
}

func TestDriver(t *testing.T) {
	t.Parallel() // beside TestRemote: both wait for the engine more than they work
	atolltest.Run(t, local(t))
}

func BenchmarkDocker(b *testing.B) { atolltest.Bench(b, local(b)) }
