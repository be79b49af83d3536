package boot

import (
	"fmt"
	"io/fs"
	"syscall"
)

// changeStamp returns a text that differs for another file, and whenever a file changes.
func changeStamp(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(st.Dev, " ", st.Ino, " ", st.Ctim.Nano())
	}
	return ""
}
