package qcow2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/atoll-sandbox/atoll"
)

// Copy copies a file: as a reflink if the file system supports it, otherwise without its holes.
// After an error there is no copy.
func Copy(ctx context.Context, to, from string) (err error) {
	in, err := open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: %w", atoll.ErrExists, err)
	}
	if err != nil {
		return wrapDiskFull(err)
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = wrapDiskFull(errors.Join(err, os.Remove(to)))
		}
	}()
	if cloneFile(out, in) {
		return nil
	}
	return copyData(ctx, out, in, info.Size())
}

// copyData copies the data between holes, some megabytes at a time.
func copyData(ctx context.Context, out, in *os.File, size int64) error {
	const most = 16 << 20
	for at := int64(0); at < size; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		from, to, err := nextData(in, at, size)
		if err != nil {
			return err
		}
		if from >= size {
			break
		}
		to = min(to, from+most)
		if _, err := in.Seek(from, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(from, io.SeekStart); err != nil {
			return err
		}
		if n, err := io.CopyN(out, in, to-from); err != nil {
			return fmt.Errorf("after %d bytes: %w", from+n, err)
		}
		at = to
	}
	return out.Truncate(size)
}
