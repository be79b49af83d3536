package docker_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/atoll-sandbox/atoll"
)

// newTestImage returns an image with a shell.
func newTestImage(t *testing.T) v1.Image {
	t.Helper()
	root := makeRootFS(t, map[string]string{"bin/sh": "/bin/busybox"}).Bytes()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(root)), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", "amd64"
	if image, err = mutate.ConfigFile(image, file); err != nil {
		t.Fatal(err)
	}
	return image
}

// makeDockerArchive returns the test image in the format of `docker save`, with a name.
func makeDockerArchive(t *testing.T, ref string) []byte {
	t.Helper()
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := tarball.Write(tag, newTestImage(t), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// makeOCILayout returns an image as an OCI layout in a tar stream.
func makeOCILayout(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(newTestImage(t)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "./" + rel, Mode: 0o644, Size: int64(len(content))})
		_, werr := w.Write(content)
		return errors.Join(err, werr)
	})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func compress(t *testing.T, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

func TestImport(t *testing.T) {
	d := newDriver(t)
	root := makeRootFS(t, map[string]string{"bin/sh": "/bin/busybox"}).Bytes()
	busybox, err := engineClient(t).ImageInspect(t.Context(), "busybox:latest")
	if err != nil {
		t.Fatal(err)
	}
	for what, archive := range map[string][]byte{
		"root": root, "root.gz": compress(t, root), "save": makeDockerArchive(t, "busybox:latest"), "save.gz": compress(t, makeDockerArchive(t, "busybox:latest")), "oci": makeOCILayout(t), "oci.gz": compress(t, makeOCILayout(t)),
	} {
		ref := "atolltest/" + strings.ReplaceAll(what, ".", "-") + ":1"
		im, err := d.ImportImage(t.Context(), ref, bytes.NewReader(archive), nil)
		if err != nil || im.Layers != 1 || im.Ref != ref {
			t.Errorf("%s: %+v, %v", what, im, err)
			continue
		}
		sb := createTestSandbox(t, d, atoll.Spec{Image: ref})
		if got := runShell(t, sb, atoll.Cmd{Shell: "echo hi"}); got != "hi\n" {
			t.Errorf("%s: %q", what, got)
		}
		if err := errors.Join(sb.Destroy(t.Context()), d.RemoveImage(t.Context(), ref)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now, err := engineClient(t).ImageInspect(t.Context(), "busybox:latest"); err != nil || now.ID != busybox.ID {
		t.Errorf("an archive has taken another image's name: %v", err)
	}
}

func TestImportRefuses(t *testing.T) {
	d := newDriver(t)
	for what, archive := range map[string][]byte{
		"garbage": []byte(strings.Repeat("garbage ", 1000)), "half a gzip": compress(t, makeDockerArchive(t, "x:1"))[:1000], "half": makeDockerArchive(t, "x:1")[:5000],
		"no blobs": makeTar(t, map[string]string{"oci-layout": `{}`, "index.json": `{"manifests":[]}`}),
		"a loop":   makeTar(t, map[string]string{"oci-layout": `{}`, "index.json": `{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:` + strings.Repeat("0", 64) + `"}]}`}),
		"no image": makeTar(t, map[string]string{"manifest.json": `[]`}),
	} {
		im, err := d.ImportImage(t.Context(), "atolltest/bad:1", bytes.NewReader(archive), nil)
		if !errors.Is(err, atoll.ErrInvalid) && !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("%s: %+v, %v", what, im, err)
		}
	}
	if _, err := d.ImportImage(t.Context(), "Not A Name", bytes.NewReader(nil), nil); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
}

// makeTar returns small files as a tar stream.
func makeTar(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))})
		_, werr := io.WriteString(w, content)
		if err := errors.Join(err, werr); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBuild(t *testing.T) {
	d := newDriver(t)
	const ref = "atolltest/built:1"
	source := makeTar(t, map[string]string{"Dockerfile": "FROM busybox:latest\nARG WHO\nRUN echo built for $WHO > /made\n"})
	var said strings.Builder
	im, err := d.BuildImage(t.Context(), atoll.ImageBuild{Ref: ref, Args: map[string]string{"WHO": "you"}, Network: "none"}, bytes.NewReader(source), func(p atoll.Progress) {
		said.WriteString(p.Message + "\n")
	})
	if err != nil || im.Ref != ref || im.Layers != 2 || !strings.Contains(said.String(), "Step 3/3") {
		t.Fatalf("%+v, %v, %s", im, err, said.String())
	}
	sb := createTestSandbox(t, d, atoll.Spec{Image: ref})
	if got := runShell(t, sb, atoll.Cmd{Shell: "cat /made"}); got != "built for you\n" {
		t.Errorf("got %q", got)
	}
	if err := errors.Join(sb.Destroy(context.Background()), d.RemoveImage(t.Context(), ref)); err != nil {
		t.Error(err)
	}
	bad := makeTar(t, map[string]string{"Dockerfile": "FROM busybox:latest\nRUN echo why; exit 3\n"})
	said.Reset()
	_, err = d.BuildImage(t.Context(), atoll.ImageBuild{Ref: ref, Network: "none"}, bytes.NewReader(bad), func(p atoll.Progress) { said.WriteString(p.Message + "\n") })
	if err == nil || !strings.Contains(err.Error(), "3") || !strings.Contains(said.String(), "why") {
		t.Errorf("a build that fails: %v, %s", err, said.String())
	}
}
