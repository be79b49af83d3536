package boot

import (
	"fmt"
	"io"
)

// entry is a file of an initramfs.
type entry struct {
	name string
	mode uint32 // with the type, as in stat
	data []byte
}

// Modes of the files of an initramfs.
const (
	modeDir     = 0o040755
	modeFile    = 0o100644
	modeProgram = 0o100755
)

// writeCPIO writes an archive in the newc format. All files belong to root and have no time, so the
// same entries result in the same bytes.
func writeCPIO(w io.Writer, entries []entry) error {
	for i, e := range append(entries, entry{name: "TRAILER!!!"}) {
		inode := i + 1
		links := 1
		if e.mode == modeDir {
			links = 2
		}
		head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
			inode, e.mode, 0, 0, links, 0, len(e.data), 0, 0, 0, 0, len(e.name)+1, 0)
		if _, err := io.WriteString(w, head+e.name+"\x00"+cpioPadding(len(head)+len(e.name)+1)); err != nil {
			return err
		}
		if _, err := w.Write(e.data); err != nil {
			return err
		}
		if _, err := io.WriteString(w, cpioPadding(len(e.data))); err != nil {
			return err
		}
	}
	return nil
}

// cpioPadding returns the padding to a multiple of 4 bytes.
func cpioPadding(n int) string { return "\x00\x00\x00"[:(4-n%4)%4] }
