//go:build !linux && !darwin

package fleet

import (
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/atoll-sandbox/atoll"
)

const noWait = 0

// moveAt refuses: a directory that a sandbox writes is safe only where names
// are looked up from open directories.
func moveAt(*os.File, string, *os.File, string) error {
	return fmt.Errorf("%w: files of workspaces are changed on Linux and macOS only", atoll.ErrUnsupported)
}

func makePipe(string) error {
	return fmt.Errorf("%w: named pipes in workspaces are made on Linux and macOS only", atoll.ErrUnsupported)
}

func setTime(string, time.Time) error { return nil }

type fileID struct{}

func links(fs.FileInfo) (fileID, int64) { return fileID{}, 1 }

func reasonOf(error) error { return nil }
