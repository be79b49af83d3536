package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

func (a commands) exportSandboxCommand() *cobra.Command {
	var file, snapshot string
	cmd := &cobra.Command{
		Use:   "export-sandbox SANDBOX [-o FILE]",
		Short: "Write a sandbox to an archive",
		Long: `Write a sandbox to an archive, from which 'atoll import-sandbox' creates it
again on this host or another: its files, and its settings without mounts,
workspaces and secrets; the import names what is missing. The sandbox may be
running.

Files can contain secrets: the archive is readable for this user only. A file
that exists is not overwritten.`,
		Example: `  atoll export-sandbox box                     to box.atoll
  atoll export-sandbox box -o /backup/box.atoll
  atoll export-sandbox box -o - | ssh other atoll import-sandbox -`,
		Args:              app.CheckArgCount(1, 1, "one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				file = args[0] + ".atoll"
			}
			if file == "-" && tty.IsTerminal(a.Out) {
				return fmt.Errorf("%w: an archive is not for a terminal: name a file with -o", atoll.ErrInvalid)
			}
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			rc, err := sb.ExportArchive(cmd.Context(), snapshot)
			if err != nil {
				return err
			}
			p := a.NewProgressBar()
			from := &countingReader{r: rc, report: p.Update, step: atoll.Progress{ID: args[0], Message: "exporting"}}
			if file == "-" {
				_, err = io.Copy(a.Out, from)
			} else {
				err = writeNewFile(file, from)
			}
			p.Finish()
			if err = errors.Join(err, rc.Close()); err != nil || file == "-" {
				return err
			}
			if a.JSON {
				return a.PrintJSON(exportedArchive{File: file, Bytes: from.step.Done, Sandbox: sb.ID()})
			}
			if a.Quiet {
				return nil
			}
			_, err = fmt.Fprintf(a.Out, "%s  %s\n", output.Clean(file), output.FormatBytes(from.step.Done))
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "`FILE` to write, - for stdout (default SANDBOX.atoll)")
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "snapshot to export, by name or id (default the files as they are now)")
	return cmd
}

// exportedArchive is what --json prints of an export.
type exportedArchive struct {
	File    string `json:"file"`
	Bytes   int64  `json:"bytes"`
	Sandbox string `json:"sandbox"`
}

// countingReader reports how much was read.
type countingReader struct {
	r      io.Reader
	report func(atoll.Progress)
	step   atoll.Progress
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.step.Done += int64(n)
	c.report(c.step)
	return n, err
}

// writeNewFile writes a file that appears when it is complete, readable for this user only.
func writeNewFile(name string, r io.Reader) (err error) {
	if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%w: %s: choose another name with -o", atoll.ErrExists, name))
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err := io.Copy(f, r); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), name); err != nil { // unlike a renaming, it replaces nothing
		if errors.Is(err, os.ErrExist) {
			return err
		}
		if err := os.Rename(f.Name(), name); err != nil {
			return err
		}
		return f.Close()
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (a commands) importSandboxCommand() *cobra.Command {
	var o client.ImportOptions
	cmd := &cobra.Command{
		Use:   "import-sandbox FILE|-",
		Short: "Create a sandbox from an archive",
		Long: `Create a sandbox from an archive of 'atoll export-sandbox', from a file or
stdin. Its name is printed on stdout. If the import fails, nothing is left.

The driver is that of the archive. Another one (--driver) gets only the files of
the working directory. An archive can't ask for mounts, secrets, labels of atoll
or the network of this host, whoever imports it.`,
		Example: `  atoll import-sandbox box.atoll
  atoll import-sandbox --name copy --driver docker box.atoll
  atoll import-sandbox - <box.atoll`,
		Args: app.CheckArgCount(1, 1, "the file of the archive"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var from io.Reader = a.In
			step := atoll.Progress{ID: "archive", Message: "importing"}
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
					step.Total = info.Size()
				}
				from = f
			} else if tty.IsTerminal(a.In) {
				return fmt.Errorf("%w: no archive: name a file, or send one to stdin", atoll.ErrInvalid)
			}
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			o.Driver = config.Get[string](a.Config.FlagsOnly(), "driver") // a default driver is for new sandboxes
			p := a.NewProgressBar()
			_, made, err := c.ImportArchive(cmd.Context(), &countingReader{r: from, report: p.Update, step: step}, o)
			p.Finish()
			if err != nil {
				return err
			}
			if len(made.Archive.LeftOut) > 0 {
				a.Progress("not in the archive: %s", strings.Join(made.Archive.LeftOut, ", "))
			}
			if made.Partial {
				a.Progress("only the files of %s were imported", made.Archive.Files.Dir)
			}
			if a.JSON {
				return a.PrintJSON(made)
			}
			_, err = fmt.Fprintln(a.Out, output.SandboxName(made.Info.Status))
			return err
		},
	}
	cmd.Flags().StringVar(&o.Name, "name", "", "`NAME` of the sandbox (default the name in the archive)")
	return cmd
}
