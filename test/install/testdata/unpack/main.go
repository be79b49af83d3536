// Command unpack writes the files of an image for one architecture: unpack OCI-TAR DIRECTORY ARCH.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "unpack:", err)
		os.Exit(1)
	}
}

func run(archive, root, arch string) error {
	dir := root + ".oci"
	for _, d := range []string{dir, root, filepath.Join(root, "tmp"), filepath.Join(root, "proc")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky); err != nil {
		return err
	}
	if err := exec.Command("tar", "-xf", archive, "-C", dir).Run(); err != nil {
		return err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return err
	}
	images, err := index.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		return err
	}
	list, err = images.IndexManifest()
	if err != nil {
		return err
	}
	for _, m := range list.Manifests {
		if m.Platform == nil || m.Platform.Architecture != arch {
			continue
		}
		image, err := images.Image(m.Digest)
		if err != nil {
			return err
		}
		files := mutate.Extract(image)
		defer files.Close()
		cmd := exec.Command("tar", "-x", "-C", root)
		cmd.Stdin, cmd.Stderr = files, os.Stderr
		return cmd.Run()
	}
	return fmt.Errorf("there is no image for %s", arch)
}
