package guest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// chownDir changes the owner of the working directory to the user of commands if an image gave it
// to another. Its content keeps its owners. A path with a symbolic link is left alone, since
// a command may have created the link.
func chownDir(c *Config) error {
	if c.Dir == "" || !c.CanSwitchUser {
		return nil
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, c.Dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil //nolint:nilerr // it is missing, or is no directory, or the kernel has no openat2 (before 5.6): commands that write there get an error
	}
	defer unix.Close(fd) //nolint:errcheck // not written to
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || int(st.Uid) == c.UID {
		return err
	}
	if err := unix.Fchownat(fd, "", c.UID, c.GID, unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("%s for user %d: %w", c.Dir, c.UID, err)
	}
	return nil
}
