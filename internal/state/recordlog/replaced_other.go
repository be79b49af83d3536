//go:build !unix

package recordlog

import (
	"io/fs"
	"os"
)

// wasReplaced reports whether an open file has not the name any more by which it was opened.
func wasReplaced(path string, info fs.FileInfo) bool {
	now, err := os.Stat(path)
	return err != nil || !os.SameFile(now, info)
}
