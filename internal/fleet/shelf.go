package fleet

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
	"github.com/atoll-sandbox/atoll/internal/filelock"
)

// shelf is where workspaces are on disk:
//
//	<app>/<user>/<name>/             one workspace; what is beneath belongs to sandboxes
//	.gone/<id>/<app>/<user>/<name>   removed, and being deleted
//	.new/<id>/                       being written, to be moved into a workspace
//
// Only <app>/<user>/<name> is seen by sandboxes: they can plant what they like
// there, so it is reached through os.Root alone.
type shelf struct {
	dir  string
	root *os.Root

	meters meters // what is being written

	mu    sync.Mutex
	sizes map[place]measured // guarded by mu
}

// place is a workspace's owner and name.
type place struct {
	owner atoll.Owner
	name  string
}

const (
	goneDir = ".gone"
	newDir  = ".new"
)

// openShelf opens the directory of all workspaces, making it if it is missing.
func openShelf(home string) (*shelf, error) {
	s := &shelf{dir: filepath.Join(home, "workspaces"), sizes: make(map[place]measured)}
	for _, dir := range []string{goneDir, newDir} {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("workspaces: %w", err)
		}
	}
	var err error
	if s.root, err = os.OpenRoot(s.dir); err != nil {
		return nil, fmt.Errorf("workspaces: %w", err)
	}
	return s, nil
}

func (s *shelf) close() error { return s.root.Close() }

// folder is the name of a directory for an app or user. Capitals are written
// small and counted behind a '!', which no name holds: where a file system
// takes A for a, two owners still have two directories.
func folder(name string) string {
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

// unfolder is the opposite of folder; ok is false for what folder never makes.
func unfolder(dir string) (name string, ok bool) {
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
	return string(b), folder(string(b)) == dir && (marked || low == dir)
}

// path is the name of a workspace's directory beneath the shelf's.
func (p place) path() string {
	return path.Join(folder(p.owner.App), folder(p.owner.User), p.name)
}

// check guards the file system against names that were not checked before.
func (p place) check() error {
	if err := p.owner.Check(); err != nil {
		return err
	}
	return atoll.CheckName(p.name)
}

// host is the path of a workspace on the host.
func (s *shelf) host(p place) string { return filepath.Join(s.dir, filepath.FromSlash(p.path())) }

// make makes a workspace's directory; one that is there is fine.
func (s *shelf) make(p place) error {
	if err := p.check(); err != nil {
		return err
	}
	if there, err := s.has(p); there || err != nil {
		return err
	}
	if err := s.root.MkdirAll(p.path(), 0o700); err != nil || os.Geteuid() != 0 {
		return err
	}
	// Programs in sandboxes are other users than root. Nobody else gets here: the
	// directories above are root's alone.
	return s.root.Chmod(p.path(), 0o777)
}

// has reports whether a workspace's directory is there.
func (s *shelf) has(p place) (bool, error) {
	info, err := s.root.Lstat(p.path())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// open opens a workspace's directory.
func (s *shelf) open(p place) (*os.Root, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return openDir(s.root, p.path())
}

// openDir opens a directory as a root of its own. The "/." makes it fail at
// once where a pipe has been planted: without, it would wait for a writer.
func openDir(root *os.Root, name string) (*os.Root, error) { return root.OpenRoot(name + "/.") }

// desk is a directory of this process on the shelf, out of the reach of
// sandboxes. Who finds it unlocked may delete it.
type desk struct {
	s    *shelf
	name string // beneath the shelf's directory
	lock *os.File
}

// newDesk makes a directory in .gone or .new.
func (s *shelf) newDesk(in string) (*desk, error) {
	for {
		d := &desk{s: s, name: path.Join(in, atoll.NewID())}
		if err := s.root.Mkdir(d.name, 0o700); err != nil {
			return nil, err
		}
		ok, err := d.take()
		if err != nil {
			return nil, errors.Join(err, s.root.Remove(d.name))
		}
		if ok {
			return d, nil
		} // a sweep was quicker: it takes this for left over
	}
}

// take locks a desk, if nobody has it and it is still there.
func (d *desk) take() (bool, error) {
	f, err := d.s.root.Open(d.name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ok, err := filelock.Try(f)
	if err == nil && ok {
		_, err = d.s.root.Lstat(d.name)
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

// clear deletes the desk and all on it, as far as ctx allows; a sweep does the
// rest.
func (d *desk) clear(ctx context.Context) error {
	err := d.s.erase(ctx, d.name)
	return errors.Join(err, d.lock.Close())
}

// leave gives up the desk as it is.
func (d *desk) leave() error { return d.lock.Close() }

// setAside takes a workspace out of reach, in one step, onto a desk.
func (s *shelf) setAside(p place) (*desk, error) {
	d, err := s.newDesk(goneDir)
	if err != nil {
		return nil, err
	}
	to := path.Join(d.name, p.path())
	err = s.root.MkdirAll(path.Dir(to), 0o700)
	if err == nil {
		err = s.root.Rename(p.path(), to)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // there was no directory: nothing to delete
	}
	if err != nil {
		return nil, errors.Join(err, d.clear(context.Background()))
	}
	s.forget(p)
	return d, nil
}

// putBack undoes setAside.
func (d *desk) putBack(p place) error {
	err := d.s.root.Rename(path.Join(d.name, p.path()), p.path())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// find returns which workspace lies on a desk in .gone, if one does, whole: the
// first that erase does is to break the way to it.
func (d *desk) find() (place, bool, error) {
	var parts []string
	for name := d.name; len(parts) < 3; {
		info, err := d.s.root.Lstat(name)
		if err != nil || !info.IsDir() {
			return place{}, false, err
		}
		f, err := openFile(d.s.root, name, fs.ModeDir)
		if err != nil {
			return place{}, false, err
		}
		list, err := f.Readdirnames(2)
		if err = errors.Join(ignoreEOF(err), f.Close()); err != nil || len(list) != 1 || list[0][0] == '.' {
			return place{}, false, err // nothing, or what erase has lifted
		}
		parts = append(parts, list[0])
		name = path.Join(name, list[0])
	}
	app, ok := unfolder(parts[0])
	user, ok2 := unfolder(parts[1])
	p := place{atoll.Owner{App: app, User: user}, parts[2]}
	return p, ok && ok2 && p.check() == nil, nil
}

// left returns the desks of processes that died, locked for this one.
func (s *shelf) left(in string) (list []*desk, err error) {
	f, err := s.root.Open(in)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	for _, n := range names {
		d := &desk{s: s, name: path.Join(in, n)}
		ok, err := d.take()
		if err != nil {
			return list, err
		}
		if ok {
			list = append(list, d)
		}
	}
	return list, nil
}

// each calls f for every workspace directory that there is.
func (s *shelf) each(f func(place) error) error {
	return s.subdirs(".", func(app string) error {
		a, ok := unfolder(app)
		if !ok {
			return nil
		}
		return s.subdirs(app, func(user string) error {
			u, ok := unfolder(user)
			if !ok {
				return nil
			}
			return s.subdirs(path.Join(app, user), func(name string) error {
				p := place{atoll.Owner{App: a, User: u}, name}
				if p.check() != nil {
					return nil // not ours
				}
				return f(p)
			})
		})
	})
}

// subdirs calls f for every directory in one of the shelf's own.
func (s *shelf) subdirs(dir string, f func(name string) error) error {
	d, err := s.root.Open(dir)
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
		if info, err := s.root.Lstat(path.Join(dir, n)); strings.HasPrefix(n, ".") || err != nil || !info.IsDir() {
			continue
		}
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}

// fresh is how long a measured size is believed, countTime how long measuring
// one may take.
const (
	fresh     = 5 * time.Second
	countTime = 2 * time.Second
)

// measured is what a workspace holds.
type measured struct {
	size
	at time.Time
}

// size returns what a workspace holds, measured now or lately. One that holds too
// much to be counted in time is never said to hold less than was once counted.
func (s *shelf) size(ctx context.Context, p place) (size, error) {
	return s.sizeBefore(ctx, p, time.Now().Add(countTime))
}

func (s *shelf) sizeBefore(ctx context.Context, p place, until time.Time) (size, error) {
	s.mu.Lock()
	old, ok := s.sizes[p]
	s.mu.Unlock()
	if ok && time.Since(old.at) < fresh {
		return old.size, nil
	}
	root, err := s.open(p)
	if errors.Is(err, fs.ErrNotExist) {
		return size{}, nil
	}
	if err != nil {
		return size{}, fmt.Errorf("workspace %s: %w", p.name, err)
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	now := measure(ctx, root)
	if !now.whole {
		now.bytes, now.files = max(now.bytes, old.bytes), max(now.files, old.files)
	}
	s.mu.Lock()
	s.sizes[p] = measured{now, time.Now()}
	s.mu.Unlock()
	return now, root.Close()
}

// forget drops a size that is no longer true.
func (s *shelf) forget(p place) {
	s.mu.Lock()
	delete(s.sizes, p)
	s.mu.Unlock()
}
