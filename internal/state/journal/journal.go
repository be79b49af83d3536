// Package journal records the act that a process does on a sandbox before it does it, so that the
// next process can finish or undo what a killed one has left half done.
//
// A sandbox has at most one act at a time. It is a file in the sandbox's directory, which is locked
// while the process lives. The file survives a kill of the process, but is not synced to
// the disk: after a crash of the host nothing of a sandbox runs, and its driver starts from its record.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// File is the name of the file of an act, in the directory of its sandbox.
const File = "act.json"

// maxSize limits the bytes of a file.
const maxSize = 1 << 20

// Act is an act in progress, or one that a dead process has left. It is not safe for concurrent use.
type Act struct {
	// Name is the kind of act, such as "restore". It is empty if the file can't be read,
	// which only a crash of the host causes.
	Name string
	// Begun is when the act was begun.
	Begun time.Time

	dir  string
	args json.RawMessage
	file *os.File // holds the lock
}

// processStart tells acts of this process from others on systems without locks of files, where one
// process at a time has the sandboxes.
var processStart = time.Now()

// content is the JSON of a file.
type content struct {
	Name  string          `json:"act"`
	Begun time.Time       `json:"begun"`
	Args  json.RawMessage `json:"args,omitempty"`
}

// Begin records that an act begins in a directory. args are what is needed to finish or undo it, as
// JSON; nil: nothing. The caller calls End when nothing of the act is half done. An act that is in progress, or
// was left by a dead process, is atoll.ErrState.
func Begin(dir, name string, args any) (*Act, error) {
	if IsBegun(dir) {
		return nil, fmt.Errorf("%w: another act on the sandbox is in progress, or was interrupted", atoll.ErrState)
	}
	a := &Act{Name: name, Begun: time.Now(), dir: dir}
	if err := a.Update(args); err != nil {
		return nil, err
	}
	return a, nil
}

// Update replaces the arguments of an act, when a step of it is done.
func (a *Act) Update(args any) (err error) {
	if args != nil {
		if a.args, err = json.Marshal(args); err != nil {
			return err
		}
	}
	b, err := json.Marshal(content{a.Name, a.Begun, a.args})
	if err != nil {
		return err
	}
	path := filepath.Join(a.dir, File)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = lockFile(f)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if a.file != nil {
		_ = a.file.Close() // only its lock was needed
	}
	a.file = f
	return nil
}

// lockFile locks a file that only this process knows, if this system has locks.
func lockFile(f *os.File) error {
	if _, err := filelock.Try(f); err != nil && !errors.Is(err, atoll.ErrUnsupported) {
		return err
	}
	return nil
}

// Args decodes the arguments of an act; none leave args as it is.
func (a *Act) Args(args any) error {
	if len(a.args) == 0 {
		return nil
	}
	if err := json.Unmarshal(a.args, args); err != nil {
		return fmt.Errorf("%s: arguments of %q: %w", File, a.Name, err)
	}
	return nil
}

// End records that nothing of an act is half done. A directory that was removed meanwhile is no error.
func (a *Act) End() error {
	err := os.Remove(filepath.Join(a.dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, a.Leave())
}

// Leave keeps the record of an act that could not be finished, for the next process or call that takes it over.
func (a *Act) Leave() error {
	if a.file == nil {
		return nil
	}
	err := a.file.Close()
	a.file = nil
	return err
}

// IsBegun reports whether a directory has an act, in progress or left by a dead process.
func IsBegun(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, File))
	return err == nil
}

// ReadName returns the kind of the act of a directory, in progress or left by a dead process; empty if
// there is none.
func ReadName(dir string) (string, error) {
	f, err := os.Open(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	a, err := readAct(dir, f)
	if err != nil {
		return "", err
	}
	return a.Name, a.Leave()
}

// TakeOver returns the act that a dead process has left in a directory; nil if there is none or its
// process lives. The caller finishes or undoes it, and calls End.
func TakeOver(dir string) (*Act, error) {
	path := filepath.Join(dir, File)
	for {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		ours, err := filelock.Try(f)
		noLocks := errors.Is(err, atoll.ErrUnsupported)
		if noLocks {
			ours, err = true, nil
		}
		if err != nil || !ours {
			return nil, errors.Join(err, f.Close())
		}
		if filelock.HasName(f, path) {
			a, err := readAct(dir, f)
			if err == nil && noLocks && a.Begun.After(processStart) {
				return nil, a.Leave() // this process does it
			}
			return a, err
		}
		if err := f.Close(); err != nil { // another process replaced it in the meantime
			return nil, err
		}
	}
}

func readAct(dir string, f *os.File) (*Act, error) {
	b, err := io.ReadAll(io.LimitReader(f, maxSize))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	a := &Act{dir: dir, file: f}
	var c content
	if json.Unmarshal(b, &c) == nil {
		a.Name, a.Begun, a.args = c.Name, c.Begun, c.Args
	}
	return a, nil
}
