//go:build !linux && !darwin

package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/atoll-sandbox/atoll"
)

const openNonblock = 0

// moveAt is not supported: moving within a directory that a sandbox writes is safe only relative
// to open directories.
func moveAt(*os.File, string, *os.File, string) error {
	return fmt.Errorf("%w: writing files of workspaces is supported on Linux and macOS only", atoll.ErrUnsupported)
}

func makePipe(string) error {
	return fmt.Errorf("%w: named pipes in workspaces are supported on Linux and macOS only", atoll.ErrUnsupported)
}

func setTime(string, time.Time) error { return nil }

type fileID struct{}

func linkInfo(fs.FileInfo) (fileID, int64) { return fileID{}, 1 }

func errnoReason(error) error { return nil }
