package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/filelock"
)

// turnFile is in a repository of the host: it is flock'ed by each atoll, and its
// gits, while they change what git locks there. It says which of git's lock files
// were not there when they began. Who has the lock and finds such a list knows
// that its writer, and each git of his, has been killed, and that those of the
// files that are there now were made since.
const turnFile = "atoll-at-work"

// turn is what is in the file.
type turn struct {
	Host   string   `json:"host"`
	Absent []string `json:"absent"` // below the repository's common directory
}

// writing has git change refs, and what else it locks: the index, HEAD, its
// configuration. What it is given is the repository, with the turn to do so. What
// gits of an atoll that was killed have left is taken away first. A lock file of
// somebody else is ErrLocked, before anything has changed.
func (r *Repo) writing(ctx context.Context, refs []string, do func(*Repo) error) (err error) {
	if r.host.turn != nil {
		return do(r) // it is this one's turn already
	}
	f, err := r.takeTurn(ctx)
	if errors.Is(err, atoll.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		return do(r) // git itself says what may not be; what was left stays
	}
	if err != nil {
		return err
	}
	defer closed(&err, f.Close)
	if err := r.clear(f); err != nil {
		return err
	}
	names := r.lockFiles(refs)
	if err := r.locked(names); err != nil {
		return err
	}
	if err := r.noteTurn(f, names); err != nil {
		return r.spaced(err)
	}
	own := *r
	own.host.turn = f
	err = do(&own)
	// All gits of this one have ended, also those that were killed.
	err = errors.Join(err, r.clear(f))
	var bad *gitError
	if lerr := r.locked(names); lerr != nil && errors.As(err, &bad) && ctx.Err() == nil {
		err = fmt.Errorf("%w (%w)", lerr, err) // somebody was faster
	}
	return err
}

// spaced makes an error of a full disk ErrFull.
func (r *Repo) spaced(err error) error {
	if serr := r.writable(); serr != nil {
		return fmt.Errorf("%w: it can't be written: %w", ErrFull, errors.Join(err, serr))
	}
	return err
}

// takeTurn waits until no other atoll changes the repository.
func (r *Repo) takeTurn(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(r.common, turnFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, r.spaced(err)
	}
	if err := filelock.Poll(ctx, f); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("waiting for another atoll that changes %s: %w", r.common, err)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockFiles are the files by which git locks refs, and what goes with them.
func (r *Repo) lockFiles(refs []string) []string {
	var names []string
	for _, name := range []string{"index", "HEAD", "ORIG_HEAD"} {
		names = append(names, filepath.Join(r.gitDir, name+".lock"))
	}
	for _, name := range append([]string{"packed-refs", "config", "reftable/tables.list"}, refs...) {
		names = append(names, filepath.Join(r.common, filepath.FromSlash(name)+".lock"))
	}
	return names
}

// locked is ErrLocked if one of the files is there; it says who has it, and what
// to do.
func (r *Repo) locked(names []string) error {
	for _, name := range names {
		info, err := os.Lstat(name)
		if err != nil {
			continue // it is not there, or git will say what is the matter
		}
		who, known := r.holders(name)
		since := info.ModTime().Format(time.DateTime)
		switch {
		case len(who) > 0:
			return fmt.Errorf("%w: %s is there since %s, and of %s: say it again when that is done", ErrLocked, name, since, shown(strings.Join(who, ", ")))
		case known:
			return fmt.Errorf("%w: %s is there since %s, and no process of this machine has it: a git that was killed has left it; unless one works there from another machine, remove it, and say it again", ErrLocked, name, since)
		}
		return fmt.Errorf("%w: %s is there since %s: if no git is at work there, remove it, and say it again", ErrLocked, name, since)
	}
	return nil
}

// noteTurn writes which of the files, all of them, are not there.
func (r *Repo) noteTurn(f *os.File, names []string) error {
	var t turn
	var err error
	if t.Host, err = os.Hostname(); err != nil {
		return err
	}
	for _, name := range names {
		rel, err := filepath.Rel(r.common, name)
		if err != nil {
			return err
		}
		t.Absent = append(t.Absent, rel)
	}
	b, err := json.Marshal(t)
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	return err
}

// clear takes away the lock files that gits of the last turn have left, since they
// were killed, and ends that turn. One that a process may have, or that
// somebody on another machine may have made, stays.
func (r *Repo) clear(f *os.File) error {
	const most = 4 << 20
	b, err := io.ReadAll(io.NewSectionReader(f, 0, most))
	if err != nil {
		return err
	}
	var t turn
	here, err := os.Hostname()
	if err == nil && json.Unmarshal(b, &t) == nil && t.Host == here { // else it was half written: before git began
		for _, rel := range t.Absent {
			if filepath.IsLocal(rel) && strings.HasSuffix(rel, ".lock") {
				err = errors.Join(err, r.clearOne(filepath.Join(r.common, rel)))
			}
		}
	}
	return errors.Join(err, f.Truncate(0))
}

func (r *Repo) clearOne(name string) error {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // nothing is there that git could have made
	}
	if who, known := r.holders(name); !known || len(who) > 0 {
		return nil
	}
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
