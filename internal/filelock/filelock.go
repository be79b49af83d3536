// Package filelock tells what a process that died has left from what one is at
// work on: as long as it lives it has a lock.
package filelock

import (
	"context"
	"os"
	"time"
)

// Try takes the exclusive lock of an open file if nobody has it, until the file
// is closed; false: somebody has it. On systems without file locks it is
// ErrUnsupported.
func Try(f *os.File) (bool, error) { return try(f) }

// Poll is Try until nobody else has the lock, or until ctx is done, whose cause is
// the error then. It works on every system, and gives no thread away, as Wait does.
func Poll(ctx context.Context, f *os.File) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := Try(f); err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C: // a lock tells nobody that it is free, unless a thread is given away to it
		}
	}
}
