package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/guest/sshd"
)

// editor is a program that opens a directory of another machine with ssh.
type editor struct {
	program   string
	arguments func(host, dir string) []string
}

// editors are the known editors, the first that is installed is the default.
var editors = []editor{
	{"code", remoteArguments}, {"code-insiders", remoteArguments}, {"cursor", remoteArguments}, {"windsurf", remoteArguments}, {"codium", remoteArguments},
	{"zed", sshURL}, {"zeditor", sshURL},
}

// remoteArguments returns the arguments of VS Code and of the editors that are made from it. --remote would take a directory with
// the name of a workspace file for one.
func remoteArguments(host, dir string) []string {
	return []string{"--folder-uri", (&url.URL{Scheme: "vscode-remote", Host: "ssh-remote+" + host, Path: dir}).String()}
}

// sshURL returns the argument of Zed.
func sshURL(host, dir string) []string {
	return []string{(&url.URL{Scheme: "ssh", Host: host, Path: dir}).String()}
}

func (a commands) codeCommand() *cobra.Command {
	var name, dir, branch string
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "code [SANDBOX]",
		Short: "Open a sandbox in an editor",
		Long: `Open a directory of a sandbox in an editor of this machine: VS Code (with its
extension Remote - SSH), Cursor, Windsurf, VSCodium or Zed. The editor reaches
the sandbox with ssh, for which the block of 'atoll config-ssh' is written into
~/.ssh/config if it is not there. It uploads a server of its own, which needs
a driver that runs real programs.

An editor trusts the machine that it opens: a program in the sandbox that takes
over the editor's server can reach this machine. Open only sandboxes that you
would trust with that; 'atoll diff' and 'atoll review' show work without it.

The default SANDBOX is that of the project in this directory. The directory is
the project's working tree, that of --worktree, or the working directory of
the sandbox.`,
		Example: `  atoll code
  atoll code --worktree feature/login
  atoll code box --editor cursor --dir /workspace/web`,
		Args:              app.CheckArgCount(0, 1, "a sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir != "" && !path.IsAbs(dir) {
				return fmt.Errorf("%w: --dir %q: it is a path in the sandbox, from /", atoll.ErrInvalid, dir)
			}
			e, err := findEditor(cmp.Or(name, config.Get[string](a.Config, "editor")))
			if err != nil {
				return err
			}
			target, dir, err := a.codeTarget(cmd.Context(), args, branch, dir)
			if err != nil {
				return err
			}
			command := append([]string{e.program}, e.arguments(target.host, dir)...)
			if printOnly {
				return a.printCommand(command)
			}
			return a.startEditor(cmd, command)
		},
	}
	cmd.Flags().StringVar(&name, "editor", "", "`EDITOR`: code, code-insiders, cursor, windsurf, codium or zed (default: the first that is installed)")
	cmd.Flags().StringVar(&dir, "dir", "", "`PATH` in the sandbox")
	cmd.Flags().StringVar(&branch, "worktree", "", "open the working tree of a `BRANCH`")
	cmd.Flags().BoolVarP(&printOnly, "print", "p", false, "print the command of the editor, start nothing")
	cmd.MarkFlagsMutuallyExclusive("dir", "worktree")
	return cmd
}

// findEditor returns the editor with a name, which can be the path of its program, or the first that is installed.
func findEditor(name string) (editor, error) {
	var names []string
	for _, e := range editors {
		names = append(names, e.program)
		switch base := strings.TrimSuffix(filepath.Base(name), ".exe"); {
		case name == "":
			if found, err := exec.LookPath(e.program); err == nil {
				return editor{found, e.arguments}, nil
			}
		case base == e.program:
			found, err := exec.LookPath(name)
			if err != nil {
				return e, fmt.Errorf("%w: the editor %s: %w", atoll.ErrUnavailable, name, err)
			}
			return editor{found, e.arguments}, nil
		}
	}
	if name != "" {
		return editor{}, fmt.Errorf("%w: the editor %q is none of %s", atoll.ErrInvalid, name, strings.Join(names, ", "))
	}
	return editor{}, fmt.Errorf("%w: no editor is installed, or none is in $PATH: looked for %s; others that know ssh find the host SANDBOX%s after 'atoll config-ssh'", atoll.ErrUnavailable, strings.Join(names, ", "), sshd.Domain)
}

// codeTarget returns the sandbox for an editor, and the directory to open.
func (a commands) codeTarget(ctx context.Context, args []string, branch, dir string) (*sshTarget, string, error) {
	var sb *client.Sandbox
	var err error
	if len(args) > 0 {
		sb, err = a.OpenSandbox(ctx, args[0])
	} else {
		var w *pairing.Pair
		if w, err = pairing.Find(ctx, a.App, ""); err == nil {
			sb = w.Sandbox
		}
	}
	if err != nil {
		return nil, "", err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, "", err
	}
	name := output.SandboxName(info.Status)
	if !info.Features.Programs {
		return nil, "", &atoll.Error{Op: "code", ID: name, Err: fmt.Errorf("%w: an editor uploads a server, and the driver %s runs no programs; 'atoll drivers' lists those that do", atoll.ErrUnsupported, info.Driver)}
	}
	target, err := a.openSSH(ctx, info.ID, true)
	if err != nil {
		return nil, "", err
	}
	if branch != "" {
		in, err := pairing.CommandInWorktree(ctx, a.App, sb, branch, atoll.Cmd{})
		if err != nil {
			return nil, "", err
		}
		dir = in.Dir // git inside has named it
	}
	if dir = cmp.Or(dir, info.Config.Dir, atoll.DefaultDir); !path.IsAbs(dir) {
		return nil, "", fmt.Errorf("%w: the sandbox says that its directory is %q, which does not begin with /", atoll.ErrInvalid, dir)
	}
	return target, path.Clean(dir), nil
}

// printCommand prints a command for a shell, or its words as JSON.
func (a commands) printCommand(command []string) error {
	if a.JSON {
		return a.PrintJSON(map[string][]string{"command": command})
	}
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = shellWord(w)
	}
	_, err := fmt.Fprintln(a.Out, output.Clean(strings.Join(words, " ")))
	return err
}

// startEditor makes ssh find sandboxes and runs the program of an editor, which ends when its window is open.
func (a commands) startEditor(c *cobra.Command, command []string) error {
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("no home directory with the configuration of ssh: %w", err)
	}
	block, err := a.sshBlock(c)
	if err != nil {
		return err
	}
	file := filepath.Join(home, ".ssh", "config")
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), block) {
		if err := a.configSSH(file, block, false); err != nil {
			return err
		}
	}
	a.Progress("atoll: starting %s; it trusts the sandbox: what runs there may reach this machine through it", output.Clean(strings.Join(command, " ")))
	cmd := exec.CommandContext(c.Context(), command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = a.Err, a.Err
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", command[0], errors.Join(context.Cause(c.Context()), err))
	}
	return nil
}
