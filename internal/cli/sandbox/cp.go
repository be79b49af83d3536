package sandbox

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/transfer"
)

func (a commands) cpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cp SOURCE DEST",
		Short: "Copy files between sandboxes and this machine",
		Long: `Copy a file or directory. A path in a sandbox is written SANDBOX:/PATH; '-' is
a tar stream on stdin or stdout. If DEST is an existing directory or ends with
'/', the copy is placed in it; otherwise DEST is the name of the copy.

Modes, times and links are kept. Files are never written outside DEST, whatever
links the sandbox contains. For workspaces see 'atoll workspace cp'.`,
		Example: `  atoll cp ./src box:/work          a directory into a sandbox
  atoll cp box:/work/out.txt .       a file out of it
  tar c . | atoll cp - box:/work     a stream into a directory
  atoll cp box:/work - | tar t       a stream out of it`,
		Args:              app.CheckArgCount(2, 2, "a source and a destination"),
		ValidArgsFunction: a.completePaths(),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := transfer.CopyBetween(cmd.Context(), a.App, "sandbox", args, func(ctx context.Context, name string) (transfer.FileTree, error) {
				sb, err := a.OpenSandbox(ctx, name)
				if err != nil {
					return nil, err
				}
				return sandboxTree{sb}, nil
			})
			if err != nil || args[1] == "-" {
				return err
			}
			return a.PrintChange(app.Change{Action: "copied", Kind: "file", Name: args[1]})
		},
	}
}

// completePaths offers local files, sandboxes, and the files of the sandbox before a
// colon.
func (a commands) completePaths() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		name, at, remote := strings.Cut(word, ":")
		if len(args) > 1 || a.Configure(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var list []fs.FileInfo
		prefix := ""
		if remote {
			sb, err := a.OpenSandbox(cmd.Context(), name)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			dir, _ := path.Split(at)
			if list, err = atoll.ReadDir(cmd.Context(), sb, cmp.Or(dir, ".")); err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			prefix = name + ":" + dir
		} else {
			dir, _ := filepath.Split(word)
			entries, err := os.ReadDir(cmp.Or(dir, "."))
			for _, e := range entries {
				if info, ierr := e.Info(); err == nil && ierr == nil {
					list = append(list, info)
				}
			}
			prefix = dir
		}
		var words []string
		for _, f := range list {
			w := prefix + f.Name()
			if f.IsDir() {
				w += "/"
			}
			words = append(words, w)
		}
		if all, err := a.ListSandboxes(cmd.Context(), client.Filter{}); !remote && err == nil {
			for _, i := range all {
				words = append(words, output.SandboxName(i.Status)+":")
			}
		}
		words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, word) })
		return words, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
}

// sandboxTree is a sandbox whose files can be looked at, whatever its driver.
type sandboxTree struct{ atoll.Sandbox }

func (t sandboxTree) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	return atoll.Stat(ctx, t.Sandbox, name)
}
