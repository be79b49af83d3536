//go:build linux || darwin

package project

import "golang.org/x/sys/unix"

// free is how many bytes whoever asks may write to the file system of a directory.
func free(dir string) (int64, error) {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	return int64(s.Bavail) * int64(s.Bsize), err
}
