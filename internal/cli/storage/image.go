package storage

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

func (a commands) imageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "image", Aliases: []string{"images"},
		Example: `  atoll image pull python:3.13-slim
  atoll image build -t tools .
  atoll image ls`,
		Short: "Manage images",
		Long: `Manage images. Each driver has its own; the default is the first driver with
images. All subcommands but ls need the scope operate.`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.imageLs(), a.imagePull(), a.imageImport(), a.imageBuild(), a.imageRm())
	return cmd
}

// imageDriver returns the driver whose images are meant; "" is the first driver with images.
func (a commands) imageDriver() string { return a.DriverName }

// completeImages offers the images that are there.
func (a commands) completeImages() cobra.CompletionFunc {
	return a.CompleteFrom(-1, func(ctx context.Context) ([]string, error) {
		c, err := a.Client(ctx)
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

func (a commands) imageLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Example: "  atoll image ls",
		Short:   "List images",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Images(cmd.Context(), a.imageDriver())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			if len(list) == 0 {
				a.Progress("no images; 'atoll image pull' gets one from its registry, 'atoll image import' makes one of an archive")
				return nil
			}
			rows := [][]string{{"IMAGE", "DRIVER", "DIGEST", "PLATFORM", "LAYERS", "SIZE", "CREATED"}}
			for _, i := range list {
				rows = append(rows, []string{i.Ref, i.Driver, shortDigest(i.Digest), output.DashIfEmpty(i.Platform), strconv.Itoa(i.Layers), output.FormatBytes(i.Size), output.FormatAgo(i.Created)})
			}
			return a.PrintTable(rows)
		},
	}
}

// shortDigest is as much of a digest as people compare.
func shortDigest(d string) string {
	d = strings.TrimPrefix(d, "sha256:")
	return d[:min(12, len(d))]
}

func (a commands) imagePull() *cobra.Command {
	return &cobra.Command{
		Use:     "pull REF...",
		Short:   "Pull images from their registries",
		Example: "  atoll image pull debian:12\n  atoll image pull --driver docker ghcr.io/team/app@sha256:...",
		Args:    app.CheckArgCount(1, -1, "images"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			for _, ref := range args {
				p := a.NewProgressBar()
				image, err := c.PullImage(cmd.Context(), a.imageDriver(), ref, p.Update)
				p.Finish()
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

// showImage prints an image.
func (a commands) showImage(i atoll.Image) error {
	if a.JSON {
		return a.PrintJSONLine(i)
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s\n", output.Clean(i.Ref), output.Clean(shortDigest(i.Digest)))
	return err
}

func (a commands) imageImport() *cobra.Command {
	return &cobra.Command{
		Use:   "import REF [FILE]",
		Short: "Import an image from an archive or stdin",
		Long: `Import an image from an archive or stdin: the output of 'docker save', an OCI
layout as tar, or the files of a root directory.`,
		Example: "  docker save app:1 | atoll image import app:1\n  atoll image import base rootfs.tar",
		Args:    app.CheckArgCount(1, 2, "a name and perhaps a file"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var from io.Reader = a.In
			if len(args) == 2 && args[1] != "-" {
				f, err := os.Open(args[1])
				if err != nil {
					return err
				}
				defer f.Close()
				from = f
			} else if tty.IsTerminal(a.In) {
				return fmt.Errorf("%w: no archive: name a file, or send one to stdin", atoll.ErrInvalid)
			}
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			p := a.NewProgressBar()
			image, err := c.ImportImage(cmd.Context(), a.imageDriver(), args[0], from, p.Update)
			p.Finish()
			if err != nil {
				return err
			}
			return a.showImage(image)
		},
	}
}

func (a commands) imageBuild() *cobra.Command {
	var b atoll.ImageBuild
	var args []string
	cmd := &cobra.Command{
		Use:   "build -t REF [DIRECTORY]",
		Short: "Build an image from a Dockerfile",
		Example: `  atoll image build --driver docker -t base images/base
  atoll image build -t app --build-arg VERSION=2 .`,
		Args: app.CheckArgCount(0, 1, "at most one directory"),
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
			c, err := a.Client(cmd.Context())
			if err != nil {
				return output.CloseAfter(err, tar)
			}
			p := a.NewProgressBar()
			image, err := c.BuildImage(cmd.Context(), a.imageDriver(), b, tar, p.Update)
			p.Finish()
			if err = output.CloseAfter(err, tar); err != nil {
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
	list, err := sandboxflag.ParseEnv(texts, nil, "--build-arg")
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

func (a commands) imageRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm REF...", Aliases: []string{"remove"},
		Example:           "  atoll image rm python:3.13-slim",
		Short:             "Remove unused images",
		Args:              app.CheckArgCount(1, -1, "images"),
		ValidArgsFunction: a.completeImages(),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client(cmd.Context())
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
