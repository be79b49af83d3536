package guest

import (
	"errors"

	"golang.org/x/sys/unix"
)

// flushFile waits until the content of a file is on the disk, if the configuration asks for that.
func (s *Server) flushFile(fd int) error {
	if !s.Config.Durable {
		return nil
	}
	return flush(unix.Fsync, fd)
}

// flushDir waits until the entries of the current directory are on the disk, if the configuration asks for that.
func (w *walker) flushDir() error {
	if !w.s.Config.Durable {
		return nil
	}
	return w.flushCurrent(unix.Fsync)
}

// flushCurrent calls a system call for the current directory, which the walker's user need not be able to read.
func (w *walker) flushCurrent(call func(fd int) error) error {
	l, err := openDir(w.currentFD(), ".")
	if errors.Is(err, unix.EACCES) {
		unix.Sync()
		return nil
	}
	if err != nil {
		return err
	}
	defer l.close()
	return flush(call, l.fd)
}

// flush calls fsync or syncfs. A file system that has neither keeps nothing on a disk of this system.
func flush(call func(fd int) error, fd int) error {
	err := call(fd)
	for errors.Is(err, unix.EINTR) {
		err = call(fd)
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EROFS) {
		return nil
	}
	return err
}

// noteFileSystem remembers the file system of the current directory for flushFileSystems.
func (im *importer) noteFileSystem() {
	if dev := im.w.stack[len(im.w.stack)-1].dev; im.changed[dev] == "" && im.w.s.Config.Durable {
		if im.changed == nil {
			im.changed = make(map[uint64]string)
		}
		im.changed[dev] = im.dir
	}
}

// flushFileSystems waits until all that was imported is on the disk: once for each file system, which
// takes much less time than once for each file.
func (im *importer) flushFileSystems() error {
	for _, dir := range im.changed {
		if _, err := im.w.walkTo(dir, asDirectory); err != nil {
			unix.Sync() // another process has moved it
			continue
		}
		if err := im.w.flushCurrent(unix.Syncfs); err != nil {
			return err
		}
	}
	return nil
}
