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

// full makes an error of git's ErrFull, with the reason, if nothing can be written
// beside the repository's objects.
func (r *Repo) full(err error) error {
	var bad *gitError
	if !errors.As(err, &bad) {
		return err
	}
	if serr := r.writable(); serr != nil {
		return fmt.Errorf("%w: it can't be written: %w (%w)", ErrFull, serr, err)
	}
	return err
}

// writable reports why nothing can be written beside the repository's objects.
func (r *Repo) writable() error {
	const some = 1 << 20
	dir, err := r.scratch()
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "space"), make([]byte, some), 0o600), os.RemoveAll(dir))
}

// spare is what has to be left of the host's disk when files have landed: git
// writes its index anew, and logs.
const spare = 1 << 20

// room is ErrFull if the disk of the working tree has not enough room for all
// files that changes write: git would stop in the middle of one.
func (q *quarantine) room(ctx context.Context, changes []change) error {
	var objects strings.Builder
	for _, c := range changes {
		if c.mode != "000000" && c.mode != "160000" {
			objects.WriteString(c.object + "\n")
		}
	}
	if objects.Len() == 0 {
		return nil
	}
	out, err := q.feed(ctx, objects.String(), "cat-file", "--batch-check=%(objectsize)")
	if err != nil {
		return err
	}
	need := int64(spare)
	for _, line := range splitLines(out) {
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			return fmt.Errorf("git cat-file printed %q", shown(line))
		}
		const block = 4096
		need += (n + block - 1) / block * block
	}
	free, err := free(q.repo.Dir)
	if err == nil && need > free {
		err = fmt.Errorf("%w: the files that come need %d bytes in %s, and %d are free", ErrFull, need, q.repo.Dir, free)
	}
	return err
}
