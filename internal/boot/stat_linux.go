package boot

import (
	"fmt"
	"io/fs"
	"syscall"
)

// stampOf tells which file it is and when anything of it was last changed.
func stampOf(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(st.Dev, " ", st.Ino, " ", st.Ctim.Nano())
	}
	return ""
}
