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

// growths are attributes with which git writes larger files than it stores, as words of a .gitattributes file, and how many times
// larger at most: "ident" makes 47 bytes of 4, an encoding four bytes of one, and the end of a line two bytes of one.
var growths = []struct {
	words string // extended regular expression
	most  int64
}{{"ident|working-tree-encoding", 64}, {"crlf", 2}}

// checkSpace returns ErrFull if the disk of the working tree has not enough space for all files that
// changes to a commit write. Git would fail in the middle of a file.
func (q *quarantine) checkSpace(ctx context.Context, commit string, changes []change) error {
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
	for _, g := range growths {
		if err != nil || need <= free/g.most { // most files leave so much room
			continue
		}
		_, code, gerr := q.withEnv("GIT_LITERAL_PATHSPECS=0").runStatus(ctx, "grep", "-q", "-E", "-e", g.words, commit, "--", ":(top,glob)**/.gitattributes")
		if err = gerr; err == nil && code == 0 {
			err = fmt.Errorf("%w: with the attributes %s of the sandbox's .gitattributes the new files may need %d bytes in %s, and %d are free", ErrDiskFull, strings.ReplaceAll(g.words, "|", " or "), need*g.most, q.repo.Dir, free)
		}
	}
	return err
}
