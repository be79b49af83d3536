//go:build unix

package recordlog

import (
	"io/fs"
	"syscall"
)

// wasReplaced reports whether an open file has no name any more.
func wasReplaced(_ string, info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}
