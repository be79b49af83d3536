package statedir

import (
	"errors"
	"io/fs"
	"os"
)

// OpenLog creates the log of a start. The log of the start before is kept as name.old.
func OpenLog(name string) (*os.File, error) {
	if err := os.Rename(name, name+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_RDWR, 0o600)
}
