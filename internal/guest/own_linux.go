package guest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// own gives the directory in which commands begin to who runs them, if an image
// has made it another's. What is in it stays whose it is. A path with a link in
// it is left alone: a command may have put it there.
func own(c *Config) error {
	if c.Dir == "" || !c.Switch {
		return nil
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, c.Dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil //nolint:nilerror // it is not there yet, or is none, or the kernel can't promise (before 5.6): who writes there is told
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written through it
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || int(st.Uid) == c.UID {
		return err
	}
	if err := unix.Fchownat(fd, "", c.UID, c.GID, unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("%s for user %d: %w", c.Dir, c.UID, err)
	}
	return nil
}
