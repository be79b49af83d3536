// Package workspace stores the files of workspaces on the disk of this host: a directory
// for each, staging directories for what is written or removed, sizes, and tar streams
// in and out. Sandboxes may write the directories at the same time: nothing leads out.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// Store is the directory of all workspaces on disk:
//
//	<app>/<user>/<name>/             a workspace; its content belongs to sandboxes
//	.gone/<id>/<app>/<user>/<name>   removed, being deleted
//	.new/<id>/                       being written, to be moved into a workspace
//
// Sandboxes see <app>/<user>/<name> only. They may plant anything there, so it is accessed
// through os.Root alone. The methods of a Store may be called concurrently.
type Store struct {
	Dir  string
	Root *os.Root

	meters meterTable // what is being written

	mu    sync.Mutex
	sizes map[Key]measuredSize // guarded by mu
}

// Key is the owner and name of a workspace.
type Key struct {
	Owner atoll.Owner
	Name  string
}

const (
	RemovedDir  = ".gone"
	IncomingDir = ".new"
)

// OpenStore opens the directory of all workspaces in home, which is created if it is missing.
func OpenStore(home string) (*Store, error) {
	s := &Store{Dir: filepath.Join(home, "workspaces"), sizes: make(map[Key]measuredSize)}
	for _, dir := range []string{RemovedDir, IncomingDir} {
		if err := os.MkdirAll(filepath.Join(s.Dir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("workspaces: %w", err)
		}
	}
	var err error
	if s.Root, err = os.OpenRoot(s.Dir); err != nil {
		return nil, fmt.Errorf("workspaces: %w", err)
	}
	return s, nil
}

func (s *Store) Close() error { return s.Root.Close() }

// encodeDir returns the directory name of an app or user. Capitals are lowered and recorded behind
// a '!', which no name contains: owners have distinct directories also on a case-insensitive file
// system.
func encodeDir(name string) string {
	low := strings.ToLower(name)
	if low == name {
		return name
	}
	var capitals strings.Builder
	for i := 0; i < len(name); i += 4 {
		n := 0
		for j := i; j < min(i+4, len(name)); j++ {
			if name[j] != low[j] {
				n |= 1 << (j - i)
			}
		}
		capitals.WriteByte("0123456789abcdef"[n])
	}
	return low + "!" + strings.TrimRight(capitals.String(), "0")
}

// decodeDir reverses encodeDir. Ok is false for names that encodeDir never returns.
func decodeDir(dir string) (name string, ok bool) {
	low, capitals, marked := strings.Cut(dir, "!")
	b := []byte(low)
	for i := range len(capitals) {
		n := strings.IndexByte("0123456789abcdef", capitals[i])
		for j := range 4 {
			if at := 4*i + j; n>>j&1 == 1 && at < len(b) && b[at] >= 'a' && b[at] <= 'z' {
				b[at] -= 'a' - 'A'
			}
		}
	}
	return string(b), encodeDir(string(b)) == dir && (marked || low == dir)
}

// Path returns the directory of a workspace, relative to the store's.
func (p Key) Path() string {
	return path.Join(encodeDir(p.Owner.App), encodeDir(p.Owner.User), p.Name)
}

// Check reports an invalid owner or name.
func (p Key) Check() error {
	if err := p.Owner.Check(); err != nil {
		return err
	}
	return atoll.CheckName(p.Name)
}

// HostPath returns the path of a workspace on the host.
func (s *Store) HostPath(p Key) string { return filepath.Join(s.Dir, filepath.FromSlash(p.Path())) }

// Create creates the directory of a workspace. An existing one is fine.
func (s *Store) Create(p Key) error {
	if err := p.Check(); err != nil {
		return err
	}
	if there, err := s.Exists(p); there || err != nil {
		return err
	}
	if err := s.Root.MkdirAll(p.Path(), 0o700); err != nil || os.Geteuid() != 0 {
		return err
	}
	// Programs in sandboxes run as other users than root. No other process gets here: the parent
	// directories are accessible to root only.
	return s.Root.Chmod(p.Path(), 0o777)
}

// Exists reports whether the directory of a workspace exists.
func (s *Store) Exists(p Key) (bool, error) {
	info, err := s.Root.Lstat(p.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// Open opens the directory of a workspace.
func (s *Store) Open(p Key) (*os.Root, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return OpenDir(s.Root, p.Path())
}

// OpenDir opens a directory as a root. The "/." makes it fail at once for a named pipe, on which
// it would otherwise wait for a writer.
func OpenDir(root *os.Root, name string) (*os.Root, error) { return root.OpenRoot(name + "/.") }

// Staging is a locked directory of this process, out of the reach of sandboxes. Other processes
// may delete it once it is unlocked.
type Staging struct {
	store *Store
	Name  string // relative to the store's directory
	lock  *os.File
}

// NewStaging creates a staging directory in RemovedDir or IncomingDir.
func (s *Store) NewStaging(in string) (*Staging, error) {
	for {
		d := &Staging{store: s, Name: path.Join(in, atoll.NewID())}
		if err := s.Root.Mkdir(d.Name, 0o700); err != nil {
			return nil, err
		}
		ok, err := d.tryLock()
		if err != nil {
			return nil, errors.Join(err, s.Root.Remove(d.Name))
		}
		if ok {
			return d, nil
		} // a sweep has taken it for abandoned
	}
}

// tryLock locks a staging directory, if it exists and is not locked.
func (d *Staging) tryLock() (bool, error) {
	f, err := d.store.Root.Open(d.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ok, err := filelock.Try(f)
	if err == nil && ok {
		_, err = d.store.Root.Lstat(d.Name)
		if errors.Is(err, fs.ErrNotExist) {
			ok, err = false, nil
		}
	}
	if err != nil || !ok {
		return false, errors.Join(err, f.Close())
	}
	d.lock = f
	return true, nil
}

// Remove deletes the staging directory until ctx is done; a later sweep deletes the rest.
func (d *Staging) Remove(ctx context.Context) error {
	err := d.store.removeAll(ctx, d.Name)
	return errors.Join(err, d.lock.Close())
}

// Release unlocks the staging directory and leaves its content.
func (d *Staging) Release() error { return d.lock.Close() }

// SetAside moves a workspace into a new staging directory, in one step.
func (s *Store) SetAside(p Key) (*Staging, error) {
	d, err := s.NewStaging(RemovedDir)
	if err != nil {
		return nil, err
	}
	to := path.Join(d.Name, p.Path())
	err = s.Root.MkdirAll(path.Dir(to), 0o700)
	if err == nil {
		err = s.Root.Rename(p.Path(), to)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // there was no directory to move
	}
	if err != nil {
		return nil, errors.Join(err, d.Remove(context.Background()))
	}
	s.ForgetSize(p)
	return d, nil
}

// PutBack reverses SetAside.
func (d *Staging) PutBack(p Key) error {
	err := d.store.Root.Rename(path.Join(d.Name, p.Path()), p.Path())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// RemovedKey returns the workspace in a staging directory of RemovedDir, if it is complete:
// deletion first breaks its path.
func (d *Staging) RemovedKey() (Key, bool, error) {
	var parts []string
	for name := d.Name; len(parts) < 3; {
		info, err := d.store.Root.Lstat(name)
		if err != nil || !info.IsDir() {
			return Key{}, false, err
		}
		f, err := OpenFile(d.store.Root, name, fs.ModeDir)
		if err != nil {
			return Key{}, false, err
		}
		list, err := f.Readdirnames(2)
		if err = errors.Join(ignoreEOF(err), f.Close()); err != nil || len(list) != 1 || list[0][0] == '.' {
			return Key{}, false, err // empty, or being deleted
		}
		parts = append(parts, list[0])
		name = path.Join(name, list[0])
	}
	app, ok := decodeDir(parts[0])
	user, ok2 := decodeDir(parts[1])
	p := Key{Owner: atoll.Owner{App: app, User: user}, Name: parts[2]}
	return p, ok && ok2 && p.Check() == nil, nil
}

// AbandonedStagings returns the staging directories of processes that died, locked for this one.
func (s *Store) AbandonedStagings(in string) (list []*Staging, err error) {
	f, err := s.Root.Open(in)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	for _, n := range names {
		d := &Staging{store: s, Name: path.Join(in, n)}
		ok, err := d.tryLock()
		if err != nil {
			return list, err
		}
		if ok {
			list = append(list, d)
		}
	}
	return list, nil
}

// ForEach calls f for the directory of every workspace.
func (s *Store) ForEach(f func(Key) error) error {
	return s.eachSubdir(".", func(app string) error {
		a, ok := decodeDir(app)
		if !ok {
			return nil
		}
		return s.eachSubdir(app, func(user string) error {
			u, ok := decodeDir(user)
			if !ok {
				return nil
			}
			return s.eachSubdir(path.Join(app, user), func(name string) error {
				p := Key{Owner: atoll.Owner{App: a, User: u}, Name: name}
				if p.Check() != nil {
					return nil // no workspace
				}
				return f(p)
			})
		})
	})
}

// eachSubdir calls f for every subdirectory of a directory of the store.
func (s *Store) eachSubdir(dir string, f func(name string) error) error {
	d, err := s.Root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	for _, n := range names {
		if info, err := s.Root.Lstat(path.Join(dir, n)); strings.HasPrefix(n, ".") || err != nil || !info.IsDir() {
			continue
		}
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}

// sizeAge is how long a measured size is cached; MeasureTimeout bounds one measurement.
const (
	sizeAge        = 5 * time.Second
	MeasureTimeout = 2 * time.Second
)

// measuredSize is a cached size.
type measuredSize struct {
	Size
	at time.Time
}

// Measure returns the size of a workspace, measured now or lately. An incomplete measurement never
// lowers the size.
func (s *Store) Measure(ctx context.Context, p Key) (Size, error) {
	return s.MeasureUntil(ctx, p, time.Now().Add(MeasureTimeout))
}

func (s *Store) MeasureUntil(ctx context.Context, p Key, until time.Time) (Size, error) {
	s.mu.Lock()
	old, ok := s.sizes[p]
	s.mu.Unlock()
	if ok && time.Since(old.at) < sizeAge {
		return old.Size, nil
	}
	root, err := s.Open(p)
	if errors.Is(err, fs.ErrNotExist) {
		return Size{}, nil
	}
	if err != nil {
		return Size{}, fmt.Errorf("workspace %s: %w", p.Name, err)
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	now := Measure(ctx, root)
	if !now.Complete {
		now.Bytes, now.Files = max(now.Bytes, old.Bytes), max(now.Files, old.Files)
	}
	s.mu.Lock()
	s.sizes[p] = measuredSize{now, time.Now()}
	s.mu.Unlock()
	return now, root.Close()
}

// ForgetSize drops a cached size.
func (s *Store) ForgetSize(p Key) {
	s.mu.Lock()
	delete(s.sizes, p)
	s.mu.Unlock()
}

// Replace replaces a workspace by the directory "tree" of a staging directory. It returns the old
// one in a staging directory.
func (s *Store) Replace(p Key, d *Staging) (*Staging, error) {
	if err := s.setMode(path.Join(d.Name, "tree")); err != nil {
		return nil, err
	}
	old, err := s.SetAside(p)
	if err != nil {
		return nil, err
	}
	if err := s.Root.Rename(path.Join(d.Name, "tree"), p.Path()); err != nil {
		return nil, errors.Join(err, old.PutBack(p), old.Release())
	}
	return old, nil
}

// setMode sets the mode of a workspace's directory; see Create.
func (s *Store) setMode(name string) error {
	if os.Geteuid() != 0 {
		return s.Root.Chmod(name, 0o700)
	}
	return s.Root.Chmod(name, 0o777)
}

// MoveIn moves a name of an open directory into the staging directory, in one step.
func (d *Staging) MoveIn(dir *os.File, name, as string) error { return moveAt(dir, name, d.lock, as) }

// MoveFile moves the file that WriteFile wrote to a name of an open directory, in one step.
func (d *Staging) MoveFile(dir *os.File, name string) error {
	return moveAt(d.lock, stagedFile, dir, name)
}

// stagedFile is the name of the file that WriteFile writes.
const stagedFile = "file"
