package docker_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestRemote runs a share of the suite with an engine that can't see this host's files.
func TestRemote(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite, a second time")
	}
	t.Parallel()
	d := newDriver(t)
	d.Remote = true
	laws := atolltest.Laws()
	atolltest.RunLaws(t, d, testenv.Sample(t, laws, len(laws)/4, "ATOLL_LAWS")...)
}

// TestRemoteEngines uses every feature a little, over each kind of connection to an engine.
func TestRemoteEngines(t *testing.T) {
	for _, c := range []struct {
		name  string
		setUp func(t *testing.T, host string) *docker.Driver
	}{
		{"flag", func(t *testing.T, host string) *docker.Driver { return &docker.Driver{Host: host, Remote: true} }},
		{"tcp", func(t *testing.T, host string) *docker.Driver { return &docker.Driver{Host: startRelay(t, host)} }},
		{"DOCKER_HOST", func(t *testing.T, host string) *docker.Driver {
			t.Setenv("DOCKER_HOST", startRelay(t, host))
			return &docker.Driver{}
		}},
		{"context", func(t *testing.T, host string) *docker.Driver {
			setContext(t, startRelay(t, host))
			return &docker.Driver{}
		}},
		{"ssh", func(t *testing.T, host string) *docker.Driver {
			fakeSSH(t, host)
			return &docker.Driver{Host: "ssh://me@there:2222"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.setUp(t, enginetest.Host(t))
			d.Dir = t.TempDir()
			useEverything(t, d)
			checkNothingLeft(t, d.Dir)
		})
	}
}

// useEverything uses a driver's sandbox in many ways.
func useEverything(t *testing.T, d *docker.Driver) {
	t.Helper()
	ctx := t.Context()
	f, err := d.Probe(ctx)
	if err != nil {
		t.Fatalf("Probe: %v", err)
	}
	if f.Mounts || f.Egress {
		t.Errorf("a remote engine reports mounts or an egress proxy: %+v", f)
	}
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	defer func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	}()
	if got := runShell(t, sb, atoll.Cmd{Shell: "cat; id -u", Stdin: strings.NewReader("in ")}); got != "in 1000\n" {
		t.Errorf("got %q", got)
	}
	if got := runShell(t, sb, atoll.Cmd{Shell: "ls -la /.atoll || echo refused"}); !strings.Contains(got, "refused\n") {
		t.Errorf("the guest's directory is open: %q", got)
	}
	if err := atoll.WriteFile(ctx, sb, "/tmp/f", []byte("1"), 0o644); err != nil {
		t.Error(err)
	}
	if _, err := atoll.Snapshot(ctx, sb, "one"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(atoll.WriteFile(ctx, sb, "/tmp/f", []byte("2"), 0o644), atoll.Stop(ctx, sb), atoll.Start(ctx, sb)); err != nil {
		t.Error(err)
	}
	if b, err := atoll.ReadFile(ctx, sb, "/tmp/f"); string(b) != "2" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := atoll.Restore(ctx, sb, "one"); err != nil {
		t.Error(err)
	}
	if b, err := atoll.ReadFile(ctx, sb, "/tmp/f"); string(b) != "1" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	again, err := (&docker.Driver{Host: d.Host, Dir: d.Dir, Remote: d.Remote}).Open(ctx, sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, again, atoll.Cmd{Shell: "cat /tmp/f"}); got != "1" {
		t.Errorf("found again: %q", got)
	}
	_, err = d.Create(ctx, atoll.Spec{Mounts: []atoll.Mount{{Source: t.TempDir(), Target: "/x"}}})
	if !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("a mount: %v", err)
	}
}

func setContext(t *testing.T, host string) {
	t.Helper()
	dir := t.TempDir()
	sum := sha256.Sum256([]byte("far"))
	meta := filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]))
	err := errors.Join(os.MkdirAll(meta, 0o700),
		os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"currentContext":"far"}`), 0o600),
		os.WriteFile(filepath.Join(meta, "meta.json"), []byte(`{"Name":"far","Endpoints":{"docker":{"Host":"`+host+`"}}}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv("DOCKER_HOST", "")
}

// fakeSSH puts an ssh into $PATH that runs remote commands on this host.
func fakeSSH(t *testing.T, host string) {
	t.Helper()
	bin := t.TempDir()
	const text = `#!/bin/sh
[ "$*" = "-o ConnectTimeout=30 -T -l me -p 2222 -- there docker system dial-stdio" ] || exit 9
DOCKER_HOST=%s exec docker system dial-stdio
`
	if err := os.WriteFile(filepath.Join(bin, "ssh"), fmt.Appendf(nil, text, host), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("DOCKER_HOST", "")
}

func TestProbeReportsMissing(t *testing.T) {
	dir := t.TempDir()
	for host, want := range map[string]string{
		"unix://" + dir + "/none.sock":         "does not exist; install one",
		"unix://" + staleSocket(t):             "is not running: start it",
		"tcp://127.0.0.1:1":                    "does not answer",
		"gopher://x":                           "gopher",
		"unix://" + filepath.Join(dir, "/nul"): "install",
	} {
		_, err := (&docker.Driver{Host: host, Dir: dir}).Probe(t.Context())
		if !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// startRegistry starts a registry on loopback and returns the name of an image in it.
func startRegistry(t *testing.T) (ref string) {
	t.Helper()
	srv := httptest.NewServer(registry.New())
	t.Cleanup(srv.Close)
	image, err := random.Image(4<<20, 3)
	if err != nil {
		t.Fatal(err)
	}
	root := makeRootFS(t, map[string]string{"bin/sh": "/bin/busybox", "bin/busybox": "/bin/busybox"}).Bytes()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(root))), nil })
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if image, err = mutate.AppendLayers(empty.Image, append([]v1.Layer{layer}, layers...)...); err != nil {
		t.Fatal(err)
	}
	image, err = mutate.Config(image, v1.Config{User: "4242", Env: []string{"OF_THE_IMAGE=yes", "BOTH=image", "PATH=/bin"}, Volumes: nil})
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file.OS, file.Architecture = "linux", "amd64"
	if image, err = mutate.ConfigFile(image, file); err != nil {
		t.Fatal(err)
	}
	ref = strings.TrimPrefix(srv.URL, "http://") + "/atolltest/image:1"
	tag, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestPull(t *testing.T) {
	d, ref := newDriver(t), startRegistry(t)
	t.Cleanup(func() {
		if err := d.RemoveImage(context.Background(), ref); err != nil {
			t.Error(err)
		}
	})
	layers := make(map[string]bool)
	var done int64
	im, err := d.PullImage(t.Context(), ref, func(p atoll.Progress) {
		if p.Total > 0 {
			layers[p.ID] = true
			done = max(done, p.Done)
		}
	})
	if err != nil || im.Layers != 4 || im.Size < 12<<20 || im.Ref != ref {
		t.Errorf("%+v, %v", im, err)
	}
	if len(layers) == 0 || done == 0 {
		t.Errorf("progress of %d layers, %d bytes", len(layers), done)
	}
	list, err := d.Images(t.Context())
	found := false
	for _, i := range list {
		found = found || i.Ref == ref && i.Digest == im.Digest
	}
	if err != nil || !found {
		t.Errorf("%+v, %v", list, err)
	}
	sb := createTestSandbox(t, d, atoll.Spec{Image: ref, Env: []string{"BOTH=spec"}})
	if got := runShell(t, sb, atoll.Cmd{Shell: "busybox id -u; echo $OF_THE_IMAGE $BOTH"}); got != "4242\nyes spec\n" {
		t.Errorf("the image's user and environment: %q", got)
	}
}

// TestCreatePulls checks that Create pulls a missing image.
func TestCreatePulls(t *testing.T) {
	d, ref := newDriver(t), startRegistry(t)
	sb := createTestSandbox(t, d, atoll.Spec{Image: ref})
	if got := runShell(t, sb, atoll.Cmd{Shell: "echo hi"}); got != "hi\n" {
		t.Errorf("got %q", got)
	}
	if err := errors.Join(sb.Destroy(t.Context()), d.RemoveImage(t.Context(), ref)); err != nil {
		t.Error(err)
	}
	_, err := d.PullImage(t.Context(), strings.TrimSuffix(ref, ":1")+":none", nil)
	if !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("pulling what is not there: %v", err)
	}
	if err := d.RemoveImage(t.Context(), ref); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("removing what is not there: %v", err)
	}
}
