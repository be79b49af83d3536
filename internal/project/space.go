package project

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// wrapUnwritableError makes an error of git ErrFull if nothing can be written beside the repository's objects.
func (r *Repo) wrapUnwritableError(err error) error {
	var bad *gitError
	if !errors.As(err, &bad) {
		return err
	}
	if serr := r.checkWritable(); serr != nil {
		return fmt.Errorf("%w: it can't be written: %w (%w)", ErrDiskFull, serr, err)
	}
	return err
}

// checkWritable returns an error if nothing can be written beside the repository's objects.
func (r *Repo) checkWritable() error {
	const some = 1 << 20
	dir, err := r.makeTempDir()
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "space"), make([]byte, some), 0o600), os.RemoveAll(dir))
}

// spareBytes is the free disk space that must remain after an update, since git rewrites its index and
// logs.
const spareBytes = 1 << 20

// checkSpace returns ErrFull if the disk of the working tree has not enough space for all files that
// changes write. Git would fail in the middle of a file.
func (q *quarantine) checkSpace(ctx context.Context, changes []change) error {
	var objects strings.Builder
	for _, c := range changes {
		if c.mode != "000000" && c.mode != "160000" {
			objects.WriteString(c.object + "\n")
		}
	}
	if objects.Len() == 0 {
		return nil
	}
	out, err := q.runWithInput(ctx, objects.String(), "cat-file", "--batch-check=%(objectsize)")
	if err != nil {
		return err
	}
	need := int64(spareBytes)
	for _, line := range splitLines(out) {
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			return fmt.Errorf("git cat-file printed %q", printable(line))
		}
		const block = 4096
		need += (n + block - 1) / block * block
	}
	free, err := freeBytes(q.repo.Dir)
	if err == nil && need > free {
		err = fmt.Errorf("%w: the new files need %d bytes in %s, and %d are free", ErrDiskFull, need, q.repo.Dir, free)
	}
	return err
}
