package transfer

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fileDir makes files in a directory. An os.Root takes twice as many system calls for that, since it is
// for names with several elements, and since each of its files is offered to Go's poller.
type fileDir struct{ dir *os.File }

// open opens the directory of root, once.
func (d *fileDir) open(root *os.Root) (err error) {
	if d.dir == nil {
		d.dir, err = root.Open(".")
	}
	return err
}

func (d *fileDir) close() error {
	if d.dir == nil {
		return nil
	}
	return d.dir.Close()
}

// create creates a file. The name is a single element.
func (d *fileDir) create(name string) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(d.dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, tempMode)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if err != unix.EINTR { //nolint:errorlint // a system call's errno
			return nil, &os.PathError{Op: "create", Path: name, Err: err}
		}
	}
}

// setTime sets the access and modification times of a file; a zero time changes nothing.
func (d *fileDir) setTime(name string, t time.Time) error {
	if t.IsZero() {
		return nil
	}
	ts, err := unix.TimeToTimespec(t)
	if err == nil {
		err = unix.UtimesNanoAt(int(d.dir.Fd()), name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return &os.PathError{Op: "chtimes", Path: name, Err: err}
	}
	return nil
}

// rename renames a file, and replaces another.
func (d *fileDir) rename(from, to string) error {
	if err := unix.Renameat(int(d.dir.Fd()), from, int(d.dir.Fd()), to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
