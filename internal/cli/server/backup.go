package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/version"
	"github.com/atoll-sandbox/atoll/internal/fleet/backup"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

func (a commands) backupCommand() *cobra.Command {
	var running bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the state directory to an archive",
		Long: `Write the state directory of this machine to an archive (tar, gzip): registry,
workspaces, files of sandboxes, tokens, keys, logs of turns. It contains
secrets; only this user can read it. A file that exists is not overwritten. The
key that encrypts the registry (secrets.key_file) is never in it.

No server and no other command may use the directory: stop the server before.
Sandboxes of namespace and microvm must be stopped, or their files are copied
while they change (--running). Files of sandboxes elsewhere (docker, kubernetes)
and a PostgreSQL registry are not in the archive.`,
		Example: `  atoll serve --stop
  atoll backup /backup/atoll.tar.gz`,
		Args: app.CheckArgCount(1, 1, "the file of the archive"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkLocal("backup"); err != nil {
				return err
			}
			m, err := a.writeBackup(cmd.Context(), args[0], running)
			if err != nil {
				return err
			}
			if m.Encrypted {
				fmt.Fprintf(a.Err, "atoll: not in the archive: the key of the registry's secrets, %s: keep a copy elsewhere, without it they are lost\n", a.keySource())
			}
			return a.printBackup(fmt.Sprintf("%s was written to %s", a.Home, args[0]), m)
		},
	}
	cmd.Flags().BoolVar(&running, "running", false, "copy the files of sandboxes that run, too")
	return cmd
}

func (a commands) restoreBackupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore-backup FILE",
		Short: "Restore the state directory from an archive",
		Long: `Restore the state directory from an archive of 'atoll backup'. The directory
must be empty or missing, so that nothing is overwritten; it appears when the
archive was read completely. Use the path that it had, and run as the same user:
sandboxes of namespace and microvm need root's ownership of files.

The next start compares the registry with the sandboxes that exist.`,
		Example: `  atoll restore-backup /backup/atoll.tar.gz
  atoll restore-backup --home /srv/atoll /backup/atoll.tar.gz`,
		Args: app.CheckArgCount(1, 1, "the file of the archive"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkLocal("restore-backup"); err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			m, err := backup.Restore(cmd.Context(), f, a.Home)
			if err != nil {
				return a.ExplainWriteError(err)
			}
			if m.Encrypted {
				fmt.Fprintln(a.Err, "atoll: the secrets in the registry are encrypted: the next start needs the key that the server had (secrets.key_file or secrets.key_command)")
			}
			return a.printBackup(fmt.Sprintf("%s was restored from %s", a.Home, args[0]), m)
		},
	}
}

// keySource names what holds the key of the registry's secrets.
func (a commands) keySource() string {
	if file := a.KeyOptions().File; file != "" {
		return file
	}
	return "which secrets.key_command prints"
}

// checkLocal refuses a command for this machine if another server was chosen.
func (a commands) checkLocal(what string) error {
	if remote, err := a.IsRemote(); err != nil || !remote {
		return err
	}
	return fmt.Errorf("%w: %s is for this machine: leave --host and --context away", atoll.ErrInvalid, what)
}

// printBackup prints what an archive contains.
func (a commands) printBackup(done string, m backup.Manifest) error {
	for _, name := range m.Skipped {
		fmt.Fprintf(a.Err, "atoll: not in the archive, as it is on another file system: %s\n", name)
	}
	if a.JSON {
		return a.PrintJSON(m)
	}
	if a.Quiet {
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "%s: %d entries, %s\n", done, m.Entries, output.FormatBytes(m.Bytes))
	return err
}

// writeBackup writes the home, which no process uses, to a new file.
func (a commands) writeBackup(ctx context.Context, file string, running bool) (m backup.Manifest, err error) {
	if file, err = filepath.Abs(file); err != nil {
		return m, err
	}
	if rel, err := filepath.Rel(a.Home, file); err == nil && filepath.IsLocal(rel) {
		return m, fmt.Errorf("%w: %s is in the directory that it would contain: choose another place", atoll.ErrInvalid, file)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return m, errors.Join(err, fmt.Errorf("%w: %s: choose another name", atoll.ErrExists, file))
	}
	if _, err := os.Stat(a.Home); err != nil {
		return m, err
	}
	unlock, err := a.lockIdleHome(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := a.checkStopped(ctx, running); err != nil {
		return m, err
	}
	if !a.KeyOptions().IsSet() {
		encrypted, err := registry.IsEncrypted(ctx, a.Home)
		if err == nil && encrypted {
			err = fmt.Errorf("%w: the secrets in the registry are encrypted, and no key is set here: set secrets.key_file or secrets.key_command as for the server, so that a key file in %s is left out of the archive", atoll.ErrDenied, a.Home)
		}
		if err != nil {
			return m, err
		}
	}
	if config.Get[string](a.Config, "registry") != "" {
		fmt.Fprintln(a.Err, "atoll: not in the archive: the registry, a PostgreSQL database (use pg_dump)")
	}
	if dir := config.Get[string](a.Config, "shared"); dir != "" {
		fmt.Fprintf(a.Err, "atoll: not in the archive: workspaces, chats and turns, which are in %s\n", dir)
	}
	return a.writeArchive(ctx, file, running)
}

// lockIdleHome locks a home that no server and no other command uses.
func (a commands) lockIdleHome(ctx context.Context) (unlock func() error, err error) {
	other := fmt.Errorf("%w: a server runs for %s: stop it with 'atoll serve --stop'", atoll.ErrState, a.Home)
	now, cancel := context.WithTimeoutCause(ctx, 0, other)
	defer cancel()
	unlockServer, err := a.LockHome(now, "serve.lock")
	if err != nil {
		return nil, err
	}
	unlockRegistry, err := registry.LockExclusive(a.Home)
	if err != nil {
		return nil, errors.Join(err, unlockServer())
	}
	return func() error { return errors.Join(unlockRegistry(), unlockServer()) }, nil
}

// checkStopped refuses a home with sandboxes whose files programs may change now.
func (a commands) checkStopped(ctx context.Context, running bool) error {
	list, err := registry.ListRunning(ctx, a.Home, "namespace", "microvm")
	if err != nil || running || len(list) == 0 {
		return err
	}
	return fmt.Errorf("%w: sandboxes are running: %s: stop them, or copy their files while they change with --running", atoll.ErrState, strings.Join(list, " "))
}

// writeArchive writes the home to a file that appears when it is complete.
func (a commands) writeArchive(ctx context.Context, file string, running bool) (m backup.Manifest, err error) {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-") // readable for this user only
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if m, err = backup.Write(ctx, a.Home, backup.Options{
		Version: version.Build().Version, Changing: running, Encrypted: a.KeyOptions().IsSet(), KeyFile: a.KeyOptions().File,
	}, f); err != nil {
		return m, err
	}
	if err := f.Sync(); err != nil {
		return m, err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return m, err
	}
	return m, f.Close()
}
