//go:build linux || darwin

package project

import "golang.org/x/sys/unix"

// freeBytes returns the number of bytes that this user can write to the file system of a directory.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	return int64(s.Bavail) * int64(s.Bsize), err
}
