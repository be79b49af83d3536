//go:build unix

package config

import (
	"os"
	"syscall"
)

// systemFile is the machine's configuration.
const systemFile = "/etc/atoll/atoll.yaml"

// deviceOf returns the file system that a directory is on.
func deviceOf(dir string) (uint64, bool) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(st.Dev), true
}
