package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/guest/sshd"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

func (a commands) configSSHCommand() *cobra.Command {
	var remove, dry bool
	var file string
	cmd := &cobra.Command{
		Use:   "config-ssh",
		Short: "Configure ssh to reach sandboxes as NAME.atoll",
		Long: `Configure ssh to reach sandboxes as NAME.atoll: write a block at the beginning
of ~/.ssh/config. scp, rsync and editors use it, too. Running it again replaces
the block; --remove removes it.`,
		Example: `  atoll config-ssh
  scp -r src box.atoll:
  code --remote ssh-remote+box.atoll /workspace`,
		Args: app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				home, err := os.UserHomeDir()
				if err != nil {
					return fmt.Errorf("no home directory: say which file with --file (%w)", err)
				}
				file = filepath.Join(home, ".ssh", "config")
			}
			block := ""
			if !remove {
				var err error
				if block, err = a.sshBlock(cmd); err != nil {
					return err
				}
			}
			return a.configSSH(file, block, dry)
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "take the lines out again")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what the file would be, and change nothing")
	cmd.Flags().StringVar(&file, "file", "", "`FILE` to change (default ~/.ssh/config)")
	return cmd
}

// configSSH makes a file of ssh's configuration have a block, or none.
func (a commands) configSSH(file, block string, dry bool) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := withBlock(string(old), block)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if dry {
		_, err := fmt.Fprint(a.Out, text)
		return err
	}
	if text == string(old) {
		a.Progress("atoll: %s is as it should be", file)
		return nil
	}
	if err := replaceConfig(file, []byte(text)); err != nil {
		return err
	}
	if block == "" {
		a.Progress("atoll: took the lines of atoll out of %s", file)
	} else {
		a.Progress("atoll: 'ssh NAME%s' leads to sandboxes now (%s)", sshd.Domain, file)
	}
	return nil
}

// The marks between which the lines are.
const (
	sshBegin = "# BEGIN atoll: written by 'atoll config-ssh'; 'atoll config-ssh --remove' takes it out"
	sshEnd   = "# END atoll"
)

// sshBlock returns the block of ~/.ssh/config for all sandboxes, with its marks.
func (a commands) sshBlock(c *cobra.Command) (string, error) {
	if err := a.CheckHome(); err != nil {
		return "", err
	}
	if s := a.Config.Settings["home"]; strings.HasPrefix(s.Origin, "$") { // ssh may be started without it
		if err := c.Flags().Set("home", a.Home); err != nil {
			return "", err
		}
	}
	proxy, err := a.proxyCommand(c, "%h")
	if err != nil {
		return "", err
	}
	dir := a.SSHKeys().Dir
	if strings.ContainsAny(dir+proxy, "\"\n\r") {
		return "", fmt.Errorf("%w: ssh's configuration can't name a path with quotes or line breaks: %s", atoll.ErrInvalid, dir)
	}
	of := func(name string) string {
		return `"` + strings.ReplaceAll(dir, "%", "%%") + "/%h/" + name + `"`
	}
	lines := []string{
		sshBegin,
		"Host *" + sshd.Domain,
		"    User " + sshd.DefaultUser,
		"    ProxyCommand " + proxy,
		"    IdentityFile " + of("key"),
		"    UserKnownHostsFile " + of("known_hosts"),
	}
	for _, o := range sshOptions {
		lines = append(lines, "    "+strings.Replace(o, "=", " ", 1))
	}
	// What follows was for all hosts, and stays so.
	return strings.Join(append(lines, "Host *", sshEnd), "\n") + "\n", nil
}

var errMarks = fmt.Errorf("%w: the marks of atoll don't match: remove the lines from %q to %q by hand", atoll.ErrInvalid, "# BEGIN atoll", sshEnd)

// withBlock returns a configuration with a block at its beginning in place of
// any that is there; an empty block: with none. All else stays, to the byte.
func withBlock(text, block string) (string, error) {
	var rest strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		mark := strings.TrimSpace(line)
		begins, ends := strings.HasPrefix(mark, "# BEGIN atoll"), mark == sshEnd
		if begins && inside || ends && !inside {
			return "", errMarks
		}
		if !inside && !begins {
			rest.WriteString(line)
		}
		inside = (inside || begins) && !ends
	}
	if inside {
		return "", errMarks
	}
	return block + rest.String(), nil
}

// replaceConfig replaces a file in one step, through a link that it may be. It
// keeps its mode; a new one is this user's alone.
func replaceConfig(file string, data []byte) error {
	if to, err := filepath.EvalSymlinks(file); err == nil {
		file = to
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	return atomicfile.Replace(file, data, mode)
}
