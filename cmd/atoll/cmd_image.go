package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) imageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "image", Aliases: []string{"images"},
		Short: "Root file systems that sandboxes are made of",
		Long: `Root file systems that sandboxes are made of. Each driver keeps its own; without
--driver it is the first that keeps images. All but ls need the scope admin.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.imageLs(), a.imagePull(), a.imageImport(), a.imageBuild(), a.imageRm())
	return cmd
}

// imageDriver is the driver whose images are meant; empty: whoever has some.
func (a *app) imageDriver() string { return a.driverName }

// completeImages offers the images that are there.
func (a *app) completeImages() cobra.CompletionFunc {
	return a.offer(-1, func(ctx context.Context) ([]string, error) {
		c, err := a.client(ctx)
		if err != nil {
			return nil, err
		}
		list, err := c.Images(ctx, a.imageDriver())
		var refs []string
		for _, i := range list {
			refs = append(refs, i.Ref)
		}
		return refs, err
	})
}

func (a *app) imageLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List images",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Images(cmd.Context(), a.imageDriver())
			if err != nil {
				return err
			}
			if a.json {
				return a.print(some(list))
			}
			if len(list) == 0 {
				a.progress("no images; 'atoll image pull' gets one from its registry, 'atoll image import' makes one of an archive")
				return nil
			}
			rows := [][]string{{"IMAGE", "DRIVER", "DIGEST", "PLATFORM", "LAYERS", "SIZE", "CREATED"}}
			for _, i := range list {
				rows = append(rows, []string{i.Ref, i.Driver, shortDigest(i.Digest), dash(i.Platform), strconv.Itoa(i.Layers), bytesText(i.Size), ago(i.Created)})
			}
			return a.table(rows)
		},
	}
}

// shortDigest is as much of a digest as people compare.
func shortDigest(d string) string {
	d = strings.TrimPrefix(d, "sha256:")
	return d[:min(12, len(d))]
}

func (a *app) imagePull() *cobra.Command {
	return &cobra.Command{
		Use:     "pull REF...",
		Short:   "Get images from their registries",
		Example: "  atoll image pull debian:12\n  atoll image pull --driver docker ghcr.io/team/app@sha256:...",
		Args:    needArgs(1, -1, "images"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			for _, ref := range args {
				p := a.newParts()
				image, err := c.PullImage(cmd.Context(), a.imageDriver(), ref, p.step)
				p.end()
				if err != nil {
					return err
				}
				if err := a.showImage(image); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// showImage says what an image is.
func (a *app) showImage(i atoll.Image) error {
	if a.json {
		return a.printLine(i)
	}
	_, err := fmt.Fprintf(a.out, "%s  %s\n", plain(i.Ref), plain(shortDigest(i.Digest)))
	return err
}

func (a *app) imageImport() *cobra.Command {
	return &cobra.Command{
		Use:   "import REF [FILE]",
		Short: "Make an image of an archive, or of stdin",
		Long: `Make an image of an archive, or of stdin: what 'docker save' writes, an OCI layout
as tar, or the files of a root directory.`,
		Example: "  docker save app:1 | atoll image import app:1\n  atoll image import base rootfs.tar",
		Args:    needArgs(1, 2, "a name and perhaps a file"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var from io.Reader = a.in
			if len(args) == 2 && args[1] != "-" {
				f, err := os.Open(args[1])
				if err != nil {
					return err
				}
				defer f.Close()
				from = f
			} else if isTerminal(a.in) {
				return fmt.Errorf("%w: no archive: name a file, or send one to stdin", atoll.ErrInvalid)
			}
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			p := a.newParts()
			image, err := c.ImportImage(cmd.Context(), a.imageDriver(), args[0], from, p.step)
			p.end()
			if err != nil {
				return err
			}
			return a.showImage(image)
		},
	}
}

func (a *app) imageBuild() *cobra.Command {
	var b atoll.ImageBuild
	var args []string
	cmd := &cobra.Command{
		Use:   "build -t REF [DIRECTORY]",
		Short: "Build an image from a Dockerfile and the files beside it",
		Example: `  atoll image build --driver docker -t base images/base
  atoll image build -t app --build-arg VERSION=2 .`,
		Args: needArgs(0, 1, "at most one directory"),
		RunE: func(cmd *cobra.Command, dirs []string) (err error) {
			if b.Ref == "" {
				return fmt.Errorf("%w: name the image with -t", atoll.ErrInvalid)
			}
			if b.Args, err = buildArgs(args); err != nil {
				return err
			}
			dir := "."
			if len(dirs) == 1 {
				dir = dirs[0]
			}
			tar, err := packContext(cmd.Context(), dir)
			if err != nil {
				return err
			}
			c, err := a.client(cmd.Context())
			if err != nil {
				return finish(err, tar)
			}
			p := a.newParts()
			image, err := c.BuildImage(cmd.Context(), a.imageDriver(), b, tar, p.step)
			p.end()
			if err = finish(err, tar); err != nil {
				return err
			}
			return a.showImage(image)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&b.Ref, "tag", "t", "", "`REF` that it gets")
	fl.StringVarP(&b.Dockerfile, "file", "f", "", "`PATH` of the Dockerfile in the directory (default Dockerfile)")
	fl.StringArrayVar(&args, "build-arg", nil, "argument of the build, `NAME=VALUE`, or NAME to take it from here (repeatable)")
	fl.StringVar(&b.Network, "build-network", "", "`NETWORK` of the builder, such as none or host (default its own)")
	return cmd
}

// buildArgs reads NAME=VALUE, or NAME of this environment.
func buildArgs(texts []string) (map[string]string, error) {
	list, err := environment(texts, nil, "--build-arg")
	if err != nil || len(list) == 0 {
		return nil, err
	}
	m := make(map[string]string, len(list))
	for _, e := range list {
		k, v, _ := strings.Cut(e, "=")
		m[k] = v
	}
	return m, nil
}

func (a *app) imageRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm REF...", Aliases: []string{"remove"},
		Short:             "Remove images that no sandbox uses",
		Args:              needArgs(1, -1, "images"),
		ValidArgsFunction: a.completeImages(),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			for _, ref := range args {
				if err := c.RemoveImage(cmd.Context(), a.imageDriver(), ref); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
