//go:build unix

package docker

import (
	"io/fs"
	"os"
	"syscall"
)

// ownerOf returns the owner of a file.
func ownerOf(path string) (uid, gid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fs.ErrInvalid
	}
	return int(st.Uid), int(st.Gid), nil
}
