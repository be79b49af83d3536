package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/atoll-sandbox/atoll/internal/helper"
)

// buildImage publishes the container image of the server, for all architectures of Linux, as a tar
// file of an OCI layout, which skopeo, crane, podman and containerd read. It has atoll and its helpers
// in / and the certificates of the public authorities, as images/server has.
func (r *release) buildImage(ctx context.Context) error {
	var index v1.ImageIndex = empty.Index
	roots, err := runCommand(ctx, "deploy/release", []string{"GOFLAGS=-trimpath"}, "go", "run", "./roots")
	if err != nil {
		return err
	}
	rootsFile := filepath.Join(r.work, "ca-certificates.crt")
	if err := os.WriteFile(rootsFile, []byte(roots), 0o600); err != nil {
		return err
	}
	built := false
	for _, t := range r.targets {
		if !t.hasHelpers() {
			continue
		}
		image, err := r.serverImage(t, rootsFile)
		if err != nil {
			return err
		}
		index, built = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.os, Architecture: t.arch}}}), true
	}
	if !built {
		return nil
	}
	dir := filepath.Join(r.work, "image")
	named := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{
		Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version},
	}})
	if _, err := layout.Write(dir, named); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	var list []entry
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		list = append(list, entry{filepath.ToSlash(name), path, 0o644}) // in lexical order
		return err
	})
	if err != nil {
		return err
	}
	b, err := writeTar(list, r.time)
	if err != nil {
		return err
	}
	return r.writeArtifact("atoll_"+strings.TrimPrefix(r.version, "v")+"_image.oci.tar", b, 0o644)
}

// serverImage returns the image of one architecture.
func (r *release) serverImage(t target, roots string) (v1.Image, error) {
	list := []entry{{"etc/ssl/certs/ca-certificates.crt", roots, 0o644}}
	for _, name := range append([]string{"atoll"}, helper.Names...) {
		list = append(list, entry{name, filepath.Join(r.programDir(t), name), 0o755})
	}
	b, err := writeTar(list, r.time)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make release"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.os, t.arch, v1.Time{Time: r.time}
	config.Config = v1.Config{
		User: "65532:65532", Env: []string{"PATH=/"}, Entrypoint: []string{"/atoll"}, Cmd: []string{"serve"},
		Labels: map[string]string{"org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit},
	}
	return mutate.ConfigFile(image, config)
}
