//go:build linux || darwin

package diskreserve

import "golang.org/x/sys/unix"

// diskSpace returns the bytes that this user can write to the disk of a directory, and the size of
// the disk.
func diskSpace(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	err = unix.Statfs(dir, &s)
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), err
}
