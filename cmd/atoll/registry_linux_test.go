package main

import (
	"io"
	"log"
	"net/http/httptest"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/rogpeppe/go-internal/testscript"
)

// startRegistry starts a registry on loopback with one image, app:1, of a root
// directory's archive, and puts its address into a variable:
// registry root.tar HOST.
func startRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: registry ARCHIVE VARIABLE")
	}
	layer, err := tarball.LayerFromFile(ts.MkAbs(args[0]))
	ts.Check(err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	ts.Check(err)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Config: v1.Config{Env: []string{"PATH=/bin", "OF_THE_IMAGE=yes"}}, RootFS: rootFS(ts, image),
	})
	ts.Check(err)
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	ts.Defer(srv.Close)
	host := strings.TrimPrefix(srv.URL, "http://")
	ref, err := name.ParseReference(host + "/app:1")
	ts.Check(err)
	ts.Check(remote.Write(ref, image))
	ts.Setenv(args[1], host)
}

// rootFS is what a configuration has to say of an image's layers.
func rootFS(ts *testscript.TestScript, image v1.Image) v1.RootFS {
	c, err := image.ConfigFile()
	ts.Check(err)
	return c.RootFS
}
