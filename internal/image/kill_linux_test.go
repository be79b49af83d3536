package image

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
)

const killedRef = "killed:1"

// checkKilled checks that the image is whole or is not there, that the next process leaves nothing of the killed one, and that it
// can import the image.
func checkKilled(t *testing.T, dir string, exists bool, archive []byte) {
	t.Helper()
	s := &Store{Dir: dir}
	list, err := s.Images(t.Context())
	if err != nil || len(list) > 1 || exists && len(list) == 0 {
		t.Fatalf("images: %+v, %v", list, err)
	}
	for _, im := range list {
		root, err := s.Resolve(t.Context(), im.Ref)
		if err != nil || im.Digest == "" || im.Size == 0 || read(root, "etc/name") != "whole" {
			t.Errorf("half an image: %+v, %+v, %v", im, root, err)
		}
	}
	if err := s.RemoveUnfinished(); err != nil {
		t.Error(err)
	}
	for _, pattern := range []string{"parts/import-*", "parts/unpacking-*", "images/.*", "uses/.*"} {
		if left, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	}
	if _, err := s.ImportImage(t.Context(), killedRef, bytes.NewReader(archive), nil); err != nil {
		t.Errorf("the next import: %v", err)
	}
}

// TestKilledImport kills processes that import images.
func TestKilledImport(t *testing.T) {
	files := archive(t, dir("etc"), file("etc/name", "whole"), link("etc/link", "name"))
	atolltest.KillSteps(t, atolltest.Steps{
		PerAct: 20,
		Do: func(ctx context.Context, dir string) error {
			_, err := (&Store{Dir: dir}).ImportImage(ctx, killedRef, bytes.NewReader(files), nil)
			return err
		},
		Check: func(t *testing.T, dir string, completed bool) { checkKilled(t, dir, completed, files) },
	})
}

// TestKilledImportOfLayers is TestKilledImport with an archive of several layers.
func TestKilledImportOfLayers(t *testing.T) {
	tag, err := name.NewTag(killedRef)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := tarball.Write(tag, imageOf(t, archive(t, file("etc/name", "lower")), archive(t, file("etc/name", "whole"))), &b); err != nil {
		t.Fatal(err)
	}
	atolltest.KillSteps(t, atolltest.Steps{
		PerAct: 20,
		Do: func(ctx context.Context, dir string) error {
			_, err := (&Store{Dir: dir}).ImportImage(ctx, "", bytes.NewReader(b.Bytes()), nil)
			return err
		},
		Check: func(t *testing.T, dir string, completed bool) { checkKilled(t, dir, completed, b.Bytes()) },
	})
}

// TestKilledRemovalOfImage kills processes that remove an image: it is whole or is not there, and its layers are removed
// with the next garbage.
func TestKilledRemovalOfImage(t *testing.T) {
	files := archive(t, dir("etc"), file("etc/name", "whole"))
	atolltest.KillSteps(t, atolltest.Steps{
		PerAct: 20,
		Prepare: func(t *testing.T, dir string) {
			if _, err := (&Store{Dir: dir}).ImportImage(t.Context(), killedRef, bytes.NewReader(files), nil); err != nil {
				t.Fatal(err)
			}
		},
		Do: func(ctx context.Context, dir string) error { return (&Store{Dir: dir}).RemoveImage(ctx, killedRef) },
		Check: func(t *testing.T, dir string, completed bool) {
			s := &Store{Dir: dir}
			checkKilled(t, dir, false, files)
			if err := s.RemoveImage(t.Context(), killedRef); err != nil && !errors.Is(err, atoll.ErrNotFound) {
				t.Error(err)
			}
			if left, err := os.ReadDir(filepath.Join(dir, layersDir)); err != nil || len(left) > 0 {
				t.Errorf("layers that are left: %v, %v", left, err)
			}
		},
	})
}
